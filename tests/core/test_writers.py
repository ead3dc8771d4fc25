from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parts import ACTIONS, OBS

from twofold.base import tree
from twofold.core.experience import Steps, Transition
from twofold.core.writers import TransitionWriter
from twofold.store.checkpoint import pack, unpack


def steps(t: int, rows: int = 1, **over: Any) -> Steps:
    """Step number t: obs t, next_obs t + 1, reward t + 1."""
    fields: dict[str, Any] = {
        "obs": np.full((rows, 3), t, np.float32),
        "action": np.full((rows, 2), t / 100, np.float32),
        "reward": np.full(rows, t + 1.0),
        "next_obs": np.full((rows, 3), t + 1, np.float32),
        "terminated": np.zeros(rows, bool),
        "truncated": np.zeros(rows, bool),
        "valid": np.ones(rows, bool),
    }
    return Steps(**{k: np.array(over.get(k, v)) for k, v in fields.items()})


def writer(n_step: int, rows: int = 1) -> TransitionWriter:
    return TransitionWriter(rows, OBS, ACTIONS, n_step=n_step, gamma=0.5)


def written(w: TransitionWriter, *taken: Steps) -> list[Transition]:
    """One transition a piece, in the order in which they came out."""
    out = [w.step(s) for s in taken]
    return [tree.index(o.items, i) for o in out if o is not None for i in range(len(o.row))]


def test_one_step_keeps_reward_and_true_next_observation() -> None:
    (item,) = written(writer(1), steps(0))
    assert item.reward == 1 and item.discount == 0.5 and item.next_obs[0] == 1


def test_three_steps_are_summed_with_their_discounts() -> None:
    items = written(writer(3), steps(0), steps(1), steps(2), steps(3))
    assert [float(i.reward) for i in items] == [1 + 0.5 * 2 + 0.25 * 3, 2 + 0.5 * 3 + 0.25 * 4]
    assert [float(i.discount) for i in items] == [0.125, 0.125]
    assert [float(i.next_obs[0]) for i in items] == [3, 4]


def test_an_ended_episode_releases_shorter_sums_as_terminated() -> None:
    items = written(writer(3), steps(0), steps(1, terminated=[True]))
    assert [float(i.reward) for i in items] == [1 + 0.5 * 2, 2]
    assert [float(i.terminated) for i in items] == [1, 1]


def test_a_time_limit_bootstraps_with_the_right_power_of_gamma() -> None:
    items = written(writer(3), steps(0), steps(1, truncated=[True]))
    assert [float(i.terminated) for i in items] == [0, 0]
    assert [float(i.discount) for i in items] == [0.25, 0.5]
    assert [float(i.next_obs[0]) for i in items] == [2, 2]


def test_no_sum_crosses_the_border_between_episodes() -> None:
    items = written(writer(3), steps(0, truncated=[True]), steps(10), steps(11), steps(12))
    assert [float(i.reward) for i in items] == [1, 11 + 0.5 * 12 + 0.25 * 13]


def test_a_failure_on_the_very_last_step_is_a_termination() -> None:
    (item,) = written(writer(1), steps(0, terminated=[True], truncated=[True]))
    assert item.terminated == 1


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_broken_step_leaves_no_item_and_cuts_what_waits_at_the_last_real_observation(n_step: int) -> None:
    broken = steps(1, valid=[False], truncated=[True], next_obs=np.full((1, 3), 99))
    items = written(writer(n_step), steps(0), broken, steps(5))
    assert len(items) == 2 if n_step == 1 else 1
    assert items[0].next_obs[0] == 1 and items[0].reward == 1 and items[0].terminated == 0
    assert all(i.next_obs[0] != 99 for i in items)


def test_rows_are_independent() -> None:
    w = writer(2, rows=2)
    items = written(w, steps(0, 2), steps(1, 2, terminated=[True, False]), steps(2, 2))
    assert sorted(float(i.reward) for i in items) == [2.0, 2.0, 2.0, 3.5]


def test_a_writer_goes_on_after_a_save_in_the_middle() -> None:
    straight = written(writer(3), *(steps(t) for t in range(6)))
    first, second = writer(3), writer(3)
    early = written(first, *(steps(t) for t in range(2)))
    arrays, rest = pack(first.state_dict())
    second.load_state_dict(unpack(rest, arrays))
    late = written(second, *(steps(t) for t in range(2, 6)))
    assert all(tree.equal(a, b) for a, b in zip(straight, [*early, *late], strict=True))


@pytest.mark.parametrize("n_step", [1, 3])
def test_items_know_their_row_and_the_last_of_an_episode(n_step: int) -> None:
    w = writer(n_step, rows=2)
    out = [w.step(steps(t, rows=2, terminated=[t == 3, False], truncated=[False, t == 1])) for t in range(4)]
    found = [(int(r), int(i.obs[0]), bool(e)) for o in out if o for r, e, i in _each(o)]
    zeros = [(r, o, e) for r, o, e in found if r == 0]
    assert zeros == [(0, 0, False), (0, 1, False), (0, 2, False), (0, 3, True)]
    assert [(o, e) for r, o, e in found if r == 1][:2] == [(0, False), (1, True)]


def _each(out: Any) -> Any:
    return [(out.row[i], out.last[i], tree.index(out.items, i)) for i in range(len(out.row))]
