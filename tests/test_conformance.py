"""Everything that is registered keeps its contract, before its author writes a test."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from small_runs import ALGORITHMS, ELSEWHERE, USUAL, WORLDS, of_algorithm, of_world

from twofold.assemble import assemble
from twofold.base.errors import UserError
from twofold.check import check_learner, check_networks
from twofold.rows.check import check_world
from twofold.rows.world import make_world
from twofold.settings.config import Resolved, load
from twofold.settings.domains import domains
from twofold.settings.presets import Kind, preset_paths, presets
from twofold.settings.registry import learners, networks, worlds
from twofold.store.policy_file import load_policy, zoo_names, zoo_path
from twofold.store.run import Run

SMALL: dict[str, Any] = {
    "steps": 60,
    "rows": 2,
    "warmup": 20,
    "eval_every": 60,
    "eval_episodes": 1,
    "eval_rows": 1,
    "test_episodes": 0,
    "tensorboard": False,
}


def small(name: str, **trainer: Any) -> Resolved:
    """A short run in a registered world."""
    return of_world(name, trainer=SMALL | trainer, replay={"batch_size": 4, "buffer_size": 100})


def test_every_registered_world_is_checked_here() -> None:
    ours = {name for name in worlds.names() if name.split("/")[0] in domains()}
    assert ours == WORLDS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_keeps_its_contract(name: str) -> None:
    world = make_world(small(name).config, purpose="train", rows=2)
    assert check_world(world, steps=30) == []
    world.close()


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_trains_in_workers_or_refuses_in_one_line(name: str) -> None:
    config = small(name, workers=2).config
    if not worlds.get(name).workers:
        with pytest.raises(UserError, match=r"steps all rows in one call: set trainer\.workers=0"):
            make_world(config, purpose="train", rows=2)
        return
    world = make_world(config, purpose="train", rows=2)
    try:
        assert check_world(world, steps=8) == []
    finally:
        world.close()


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_is_trained_in_with_episodes_that_are_cut_early(name: str, tmp_path: Path) -> None:
    trainer = {"steps": 24, "warmup": 20, "updates_per_item": 1, "early_limit": 3, "early_limit_share": 1.0}
    parts = assemble(Run.create(tmp_path, small(name, **trainer), "test"))
    collector = parts.trainer.collector
    collector.start()
    try:
        for _ in range(12):
            collector.step()
            assert (collector.lengths < 3).all()
    finally:
        parts.close()
        parts.keeper.run.close()
    assert (collector.episodes >= 5).all()


# ---- learners and networks --------------------------------------------------------------------------------------


def parts_of(resolved: Resolved) -> set[str]:
    return {resolved.config.learner_name, resolved.config.networks_name}


def test_every_registered_learner_and_network_is_in_a_preset() -> None:
    """The presets of all domains are checked by the domains' conformance tests, those of control below."""
    found: set[str] = set()
    for preset in presets("algs"):
        content = yaml.safe_load(preset.path.read_text())
        found |= {str(content.get(part, {}).get("name", "")) for part in ("learner", "networks")}
    ours = {n for n in (*learners.names(), *networks.names()) if "/" not in n or n.split("/")[0] in domains()}
    assert ours <= found | {"td3", "vector"}


CONTROL = [preset.name for preset in presets("algs") if preset.domain == "control"]


@pytest.mark.parametrize("name", CONTROL)
def test_control_presets_keep_the_contract_of_learners_and_networks(name: str) -> None:
    config = of_algorithm(name, trainer=SMALL).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == []
    assert check_networks(config, world) == []
    world.close()


# ---- presets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["algs", "envs"])
def test_every_preset_begins_with_a_known_section(kind: Kind) -> None:
    known = {
        "extends",
        "worlds",
        "env",
        "env_args",
        "learner",
        "networks",
        "replay",
        "trainer",
        "seed",
        "threads",
    }
    for name, path in preset_paths(kind).items():
        assert set(yaml.safe_load(path.read_text())) <= known, f"{kind}/{name}.yaml"


def test_a_preset_names_worlds_that_are_there() -> None:
    known = set(preset_paths("envs"))
    for preset in presets("algs"):
        assert set(preset.worlds) <= known, preset.name


# ---- the zoo ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo_names())
def test_an_exported_policy_of_the_zoo_agrees_with_the_policy(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    from twofold.learners.export import export_onnx

    policy = load_policy(zoo_path(name))
    worst, path = export_onnx(policy, tmp_path / "policy.onnx")
    assert worst <= 1e-4
    obs = np.random.default_rng(1).standard_normal((5, *policy.observation_space.shape)).astype(np.float32)
    given = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"obs": obs})[0]
    np.testing.assert_allclose(given, np.stack([policy.act(row) for row in obs]), atol=1e-4)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_in_another_domains_world_is_put_together_or_refused_in_one_line(
    name: str, tmp_path: Path
) -> None:
    """What the networks cannot see, or the world cannot be told, is a message and never a traceback."""
    for domain, (_, world, settings, _) in USUAL.items():
        env = {key: value for key, value in settings.items() if key != "networks"}
        try:
            run = Run.create(tmp_path / domain, load(name, world, **env, replay={"buffer_size": 300}), "x")
            with closing(run):
                assemble(run)
        except UserError as refused:
            assert "\n" not in str(refused) and (tmp_path / domain / "checkpoints").exists() is False
