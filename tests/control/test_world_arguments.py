"""Arguments of environments that a file may name: told in one line before anything begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from twofold.base.errors import UserError
from twofold.control.worlds import GymConfig, gym_world, view

WRONG: dict[str, dict[str, Any]] = {
    "a path upwards": {"id": "../../etc"},
    "300 letters": {"id": "A" * 300},
    "an old wrapper": {"id": "GymV21Environment-v0"},
    "an unknown argument": {"kwargs": {"x": 1}},
    "an argument of another type": {"kwargs": {"g": "nope"}},
    "an argument that is a list": {"kwargs": {"g": [1, 2]}},
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_made_or_played_is_one_line(given: dict[str, Any]) -> None:
    cfg = GymConfig(**given)
    with pytest.raises(UserError) as refused:
        gym_world(cfg, rows=1, purpose="eval")
    assert "\n" not in str(refused.value)
    with pytest.raises(UserError):
        view(cfg, "rgb_array")


@pytest.mark.parametrize("limit", [-1, 0, "x", None, 10**12, 1.5, True])
def test_an_episode_has_an_end(limit: Any) -> None:
    with pytest.raises(UserError, match="max_episode_steps"):
        GymConfig(kwargs={"max_episode_steps": limit})


def test_an_argument_that_names_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.xml")
    with pytest.raises(UserError, match="not a regular file"):
        gym_world(GymConfig(kwargs={"nested": {"xml_file": str(tmp_path / "p.xml")}}), rows=1, purpose="eval")


def test_good_arguments_make_a_world() -> None:
    world = gym_world(GymConfig(kwargs={"g": 9.81, "max_episode_steps": 7}), rows=2, purpose="eval")
    assert world.num_envs == 2
    world.close()
