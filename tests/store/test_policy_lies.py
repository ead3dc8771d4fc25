"""A policy file of a stranger: what it holds is looked at before it acts, what it names before anything is made."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.assemble import could_be, first_seed, score, world_of
from twofold.base.errors import CheckpointError, UserError
from twofold.core.seeding import Generators
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.store.policy_file import load_policy, make_learner, policy_bytes, seal, unseal

Change = Callable[[dict[str, Any], dict[str, Any]], None]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    resolved = load("td3", "pendulum", **{"networks.actor_hidden": [4], "networks.critic_hidden": [4]})
    world = make_world(resolved.config, purpose="eval", rows=1)
    spaces = world.single_observation_space, world.single_action_space
    learner: Any = make_learner(resolved.config, *spaces, Generators(0))
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    path.write_bytes(policy_bytes(resolved.values, learner, world, {}))
    world.close()
    return path


def lie(honest: Path, folder: Path, change: Change) -> Path:
    arrays, about = unseal(honest)
    change(arrays, about)
    about["arrays"] = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    (folder / "lie.safetensors").write_bytes(seal(arrays, about))
    return folder / "lie.safetensors"


def all_of(make: Callable[[Any], Any]) -> Change:
    return lambda arrays, about: arrays.update({name: make(array) for name, array in arrays.items()})


WEIGHTS = {
    "weights that are no numbers": (all_of(lambda array: np.full_like(array, np.nan)), "not finite"),
    "infinite weights": (all_of(lambda array: np.full_like(array, np.inf)), "not finite"),
    "weights of bytes": (all_of(lambda array: array.astype(np.int8)), "holds int8, not float32"),
    "weights that are true or false": (all_of(lambda array: array.astype(bool)), "holds bool, not float32"),
}


@pytest.mark.parametrize("change, words", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_weights_that_cannot_act_are_refused(
    change: Change, words: str, honest: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=words):
        load_policy(lie(honest, tmp_path, change))


def test_a_hundred_thousand_layers_are_refused_before_they_are_made(honest: Path, tmp_path: Path) -> None:
    path = lie(
        honest, tmp_path, lambda _, about: about["values"].update({"networks.actor_hidden": [1] * 100_000})
    )
    with pytest.raises(UserError, match=r"at most 100|more than"):
        load_policy(path)


def test_a_file_of_a_gigabyte_is_refused_by_its_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    os.truncate(tmp_path / "x", 1 << 30)
    with pytest.raises(CheckpointError, match="not a twofold policy file"):
        load_policy(tmp_path / "x")
    text = json.dumps({"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(tmp_path / "x", 1 << 30)  # more than it describes
    with pytest.raises(CheckpointError, match="not a twofold policy file"):
        load_policy(tmp_path / "x")


def world(env: str, **settings: Any) -> Change:
    def change(_: dict[str, Any], about: dict[str, Any]) -> None:
        kept = {name: value for name, value in about["values"].items() if not name.startswith("env")}
        about["values"] = (
            kept | {"env": env} | {f"env_args.{name}": value for name, value in settings.items()}
        )

    return change


WORLDS = {
    "made-up users": world("recsys/users"),
    "ten million users": world("recsys/users", **{"synthetic.users": 10**7}),
    "ratings of a device": world("recsys/users", data="ratings", path="/dev/zero"),
    "a billion units": world("team/skirmish", map_name="/dev/zero.json"),
    "a module of a package": world("team/pettingzoo", id="test.api_test"),
    "a module": world("team/lbf", id="antigravity:Env-v0"),
    "a crystal of a billion atoms": world(
        "crystal/spring", sets={"a": {"structures": ["Cu*1000x1000x1000"]}}
    ),
    "a potential that is a device": world(
        "crystal/spring", sets={"a": {"structures": ["Cu"], "calculator": "eam:/dev/zero"}}
    ),
    "partners in the root": world("team/partnered", partners="/"),
    "an episode without end": world("control/gym", kwargs={"max_episode_steps": -1}),
    "another robot": world("control/gym", id="MountainCarContinuous-v0"),
}


@pytest.mark.parametrize("change", WORLDS.values(), ids=WORLDS.keys())
def test_a_policy_that_names_another_world_acts_and_its_world_is_refused(
    change: Change, honest: Path, tmp_path: Path
) -> None:
    policy = load_policy(lie(honest, tmp_path, change))
    assert np.isfinite(policy.act(np.zeros(3))).all()
    with pytest.raises(UserError):
        world_of(policy, "eval", 1)


def test_a_costly_world_is_refused_before_it_is_made(honest: Path, tmp_path: Path) -> None:
    policy = load_policy(lie(honest, tmp_path, WORLDS["made-up users"]))
    with pytest.raises(UserError, match="its actions cannot be of that world"):
        could_be(policy)


def test_no_more_rows_are_made_than_episodes_are_asked_for(honest: Path, tmp_path: Path) -> None:
    path = lie(honest, tmp_path, lambda _, about: about["values"].update({"trainer.eval_rows": 1_000_000}))
    assert score(load_policy(path), episodes=2, seed=0)["eval"]["return"]["episodes"] == 2


@pytest.mark.parametrize("seed", [-1, 2**31, 10**30])
def test_seeds_that_no_world_takes_are_refused(seed: int) -> None:
    with pytest.raises(UserError, match="a seed must be from 0"):
        first_seed(seed)


@pytest.mark.parametrize("episodes", [0, -1, 10**7, 10**300])
def test_more_episodes_than_anybody_waits_for_are_refused(episodes: int, honest: Path) -> None:
    with pytest.raises(UserError, match="the number of episodes must be"):
        score(load_policy(honest), episodes, 0)
