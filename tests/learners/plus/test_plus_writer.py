"""Transitions that know what came one step later."""

from __future__ import annotations

from typing import Any

import numpy as np
from parts import ACTIONS, OBS

from twofold.core.experience import Steps
from twofold.learners.plus.writer import FollowingWriter, parted


def steps(t: int, **over: Any) -> Steps:
    """One row; the observation is the time."""
    fields = {
        "obs": [[t, 0, 0]],
        "action": [[0, 0]],
        "reward": [1.0],
        "next_obs": [[t + 1, 0, 0]],
        "terminated": [False],
        "truncated": [False],
        "valid": [True],
    } | over
    kinds = {"obs": np.float32, "action": np.float32, "next_obs": np.float32}
    return Steps(**{name: np.array(value, kinds.get(name)) for name, value in fields.items()})


def writer() -> FollowingWriter:
    return FollowingWriter(1, OBS, ACTIONS, n_step=3, gamma=0.5)


def found(one: FollowingWriter, *taken: Steps) -> list[tuple[float, float, float]]:
    """(now, one step later, where the sum of rewards ends) of each item."""
    out = []
    for step in taken:
        if (written := one.step(step)) is not None:
            items, following = parted(written.items)
            for i in range(len(following)):
                out.append((float(items.obs[i, 0]), float(following[i, 0]), float(items.next_obs[i, 0])))  # type: ignore[call-overload]
    return out


def test_what_followed_is_one_step_later_also_at_ends() -> None:
    taken = steps(0), steps(1), steps(2), steps(3, terminated=[True])
    assert found(writer(), *taken) == [(0, 1, 3), (1, 2, 4), (2, 3, 4), (3, 4, 4)]


def test_a_writer_goes_on_from_its_state() -> None:
    one, other = writer(), writer()
    found(one, steps(0), steps(1))
    other.load_state_dict(one.state_dict())
    rest = steps(2), steps(3, truncated=[True])
    assert found(one, *rest) == found(other, *rest) == [(0, 1, 3), (1, 2, 4), (2, 3, 4), (3, 4, 4)]
