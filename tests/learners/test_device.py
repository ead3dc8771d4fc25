"""Everything that a learner makes lives on its device: `meta` mixes with nothing, so an update there proves it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from twofold.base import tree
from twofold.base.device import device_of
from twofold.base.errors import ConfigError
from twofold.core.protocols import Learner
from twofold.core.seeding import Generators
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.store.policy_file import make_learner

COPPER = {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}}
USERS = {"synthetic": {"users": 40, "items": 30, "ratings_per_user": 12}}
CRYSTAL = {"env": "crystal/displacements"}
CRYSTAL_ARGS = {"sets": COPPER, "max_atoms": 4, "num_neighbors": 8, "max_steps": 20}
POINT = {"critic_on": "point", "rerank": 1}
CASES: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "vectors": ("td3", "pendulum", {"learner": {"huber": 1.0, "grad_clip": 1.0, "actor_average": 0.9}}),
    "layer norm": ("td3", "pendulum", {"networks": {"critic_layer_norm": True}}),
    "graphs": ("td3_crystal_quick", None, CRYSTAL | {"env_args": CRYSTAL_ARGS}),
    "convolutions": (
        "td3_crystal_quick",
        None,
        CRYSTAL | {"env_args": CRYSTAL_ARGS, "networks": {"kind": "cgcnn"}},
    ),
    "items": ("td3_rec", "synthetic_users", {"env_args": USERS, "networks": POINT}),
    "items, gru": ("td3_rec", "synthetic_users", {"env_args": USERS, "networks": POINT | {"tracker": "gru"}}),
    "items, sasrec": (
        "td3_rec",
        "synthetic_users",
        {"env_args": USERS, "networks": POINT | {"tracker": "sasrec"}},
    ),
    "iql": ("iql", "two_step", {}),
    "vdn": ("vdn", "two_step", {"learner": {"td_lambda": 0.5}}),
    "qmix": ("qmix", "skirmish", {}),
    "qtran": ("qtran", "two_step", {}),
    "coma": ("coma", "two_step", {}),
    "agent models": ("iql_am", "two_step", {}),
}


def items_of(learner: Learner[Any], size: int) -> Any:
    """A batch of zeros with the shapes that the learner's writer promises; episodes of a few played steps."""
    batch = tree.map(lambda leaf: np.zeros((size, *leaf.shape[1:]), leaf.dtype), learner.writer(1).blank())
    if hasattr(batch, "filled"):
        batch.filled[:, :2] = 1
    return batch


@pytest.mark.parametrize("name", CASES)
def test_an_update_leaves_no_tensor_behind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config, env, settings = CASES[name]
    if "crystal" in config:
        pytest.importorskip("ase", reason="the domain crystal needs ase")
    resolved = load(config, env, **settings).config
    world = make_world(resolved, purpose="train", rows=1)
    spaces = world.single_observation_space, world.single_action_space
    world.close()
    monkeypatch.setattr("twofold.base.device.device_of", lambda _: torch.device("meta"))
    learner = make_learner(resolved, *spaces, Generators(0))
    batch = items_of(learner, 4)
    for _ in range(2):  # with the second update of TD3 the policy learns, too
        learner.update(batch)
    assert {p.device.type for p in learner.acting.parameters()} == {"meta"}


def test_auto_is_the_cpu_where_there_is_no_gpu() -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("this machine has a GPU")
    assert device_of("auto") == device_of("cpu") == torch.device("cpu")


def test_a_device_that_is_not_here_is_refused_not_replaced() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match=r"device=cuda.*use cpu"):
        device_of("cuda")
