"""One thread or two: by the time that blocks of updates took, on a clock of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from twofold.native.pace import BLOCK, LONGEST, Pace


def blocks(pace: Pace, count: int, seconds: Callable[[bool], float]) -> list[bool]:
    """Which of so many blocks were computed by two threads, when an update takes `seconds(two)`."""
    used = []
    for _ in range(count):
        for update in range(BLOCK):
            pace.next()
            if update == 0:
                used.append(pace.two)
            pace.took(seconds(pace.two))
    return used


def test_a_quiet_machine_never_tries_one_thread() -> None:
    assert blocks(Pace(), 500, lambda two: 1.0 if two else 1.9) == [True] * 500


def test_beside_a_busy_neighbour_one_thread_takes_over_and_two_are_tried_less_and_less_often() -> None:
    pace = Pace()
    blocks(pace, 3, lambda two: 1.0 if two else 1.9)
    used = blocks(pace, 200, lambda two: 3.0 if two else 1.9)
    tried = [block for block, two in enumerate(used) if two]
    assert [after - before - 1 for before, after in itertools.pairwise(tried)][:6] == [1, 2, 4, 8, 16, 16]
    assert tried[-1] > 200 - 2 * LONGEST


def test_a_short_disturbance_costs_one_block() -> None:
    pace, late = Pace(), iter([5.0] * BLOCK)
    blocks(pace, 3, lambda two: 1.0 if two else 1.9)
    used = blocks(pace, 10, lambda two: next(late, 1.0) if two else 1.9)
    assert used == [True, False] + [True] * 8


def test_two_threads_come_back_when_the_neighbour_is_gone() -> None:
    pace = Pace()
    blocks(pace, 3, lambda two: 1.0 if two else 1.9)
    blocks(pace, 5, lambda two: 3.0 if two else 1.9)
    assert blocks(pace, LONGEST + 5, lambda two: 1.0 if two else 1.9)[-4:] == [True] * 4


def test_two_that_are_slow_but_faster_than_one_stay() -> None:
    pace = Pace()
    blocks(pace, 3, lambda two: 1.0 if two else 1.9)
    used = blocks(pace, 100, lambda two: 1.5 if two else 1.9)
    assert used == [True, False] + [True] * 98
