from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.store import spaces

VECTOR = gym.spaces.Box(-1, 1, (3,), np.float32)
NAMED = gym.spaces.Dict({"count": gym.spaces.Box(0, 9, (2,), np.int64), "seen": VECTOR})


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
        gym.spaces.Box(np.array([-1, -2], np.float32), np.array([3, 4], np.float32)),
        gym.spaces.Discrete(4),
        gym.spaces.MultiDiscrete([3, 5]),
        gym.spaces.Dict({"a": gym.spaces.Discrete(2), "b": gym.spaces.Box(0, 1, (2, 2), np.float32)}),
    ],
)
def test_spaces_survive_json(space: gym.Space) -> None:  # type: ignore[type-arg]
    assert spaces.from_json(spaces.to_json(space)) == space


def test_spaces_of_other_names_or_shapes_differ_in_words() -> None:
    other = gym.spaces.Dict({"count": gym.spaces.Box(0, 9, (3,), np.int64), "seen": VECTOR})
    assert spaces.difference(NAMED, NAMED) is None
    assert spaces.difference(NAMED, other) == "'count' of shape (2,) there, of shape (3,) here"
    assert "absent" in str(spaces.difference(NAMED, VECTOR))
    assert spaces.difference(gym.spaces.Discrete(3), gym.spaces.Discrete(4)) is not None


def test_one_observation_keeps_the_types_of_its_space() -> None:
    given, single = spaces.as_batch(NAMED, {"count": np.array([1, 2]), "seen": np.zeros(3)})
    assert isinstance(given, dict) and given["count"].dtype == np.int64 and given["seen"].dtype == np.float32
    assert given["seen"].shape == (1, 3) and single


def test_a_batch_of_observations_is_taken_as_it_is() -> None:
    given, single = spaces.as_batch(NAMED, {"count": [[1, 2], [3, 4]], "seen": np.zeros((2, 3))})  # type: ignore[dict-item]
    assert isinstance(given, dict) and given["count"].tolist() == [[1, 2], [3, 4]] and not single


@pytest.mark.parametrize(
    "obs",
    [
        {"count": np.array([1, 2])},
        np.zeros(3),
        {"count": [1, 2, 3], "seen": [0, 0, 0]},
        {"count": [[1, 2]], "seen": [0, 0, 0]},
        {"count": [[1, 2]], "seen": [[0, 0, 0], [0, 0, 0]]},
        {"count": "many", "seen": [0, 0, 0]},
    ],
)
def test_an_observation_of_another_shape_is_refused(obs: object) -> None:
    with pytest.raises(UserError, match=r"names|shape|rows"):
        spaces.as_batch(NAMED, obs)  # type: ignore[arg-type]


def test_the_message_names_both_shapes_that_would_do() -> None:
    with pytest.raises(UserError, match=r"shape \(3,\), or \(N, 3\) for a batch; got \(5, 4\)"):
        spaces.as_batch(VECTOR, np.zeros((5, 4)))
