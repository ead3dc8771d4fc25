"""Every registered learner and preset keeps the contract, before its author writes a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from twofold.assemble import assemble
from twofold.rows.world import make_world
from twofold.settings.config import CONF, config_names, load
from twofold.store.checkpoint import pack, unpack
from twofold.store.policy_file import make_learner
from twofold.store.run import Run

SMALL: dict[str, Any] = {"steps": 80, "warmup": 30, "eval_every": 80, "eval_episodes": 1, "test_episodes": 0}
CONTROL = [
    n
    for n in config_names("algs")
    if n.startswith(("td3", "ddpg")) and "_rec" not in n and "_crystal" not in n
]


@pytest.mark.parametrize("kind", ["algs", "envs"])
def test_every_preset_begins_with_a_known_section(kind: str) -> None:
    known = {"extends", "env", "env_args", "learner", "networks", "replay", "trainer", "seed", "threads"}
    for name in config_names(kind):
        content = yaml.safe_load((CONF / kind / f"{name}.yaml").read_text())
        assert set(content) <= known, f"{kind}/{name}.yaml: {set(content) - known}"


@pytest.mark.parametrize("name", CONTROL)
def test_control_presets_train_save_and_load_exactly(name: str, tmp_path: Path) -> None:
    env = "walker_hardcore" if name.startswith("td3_hardcore_") else "pendulum"
    env = "bipedal_hardcore" if name == "td3_hardcore" else env
    resolved = load(
        name, env, trainer=SMALL | {"tensorboard": False}, replay={"batch_size": 16, "buffer_size": 500}
    )
    trainer = assemble(Run.create(tmp_path / "r", resolved, "test")).trainer
    trainer.train()
    assert trainer.learner.updates > 0 and trainer.learner.first_bad() is None
    world = make_world(resolved.config, purpose="eval", rows=1)
    other = make_learner(resolved.config, world.single_observation_space, world.single_action_space)
    arrays, rest = pack(trainer.learner.state_dict())
    other.load_state_dict(unpack(rest, arrays))
    again, _ = pack(other.state_dict())
    assert {k: v.tobytes() for k, v in arrays.items()} == {k: v.tobytes() for k, v in again.items()}
