"""Verdicts in words: false ones stay rare, few seeds give none, and it is said how many a claim needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twofold.lab import statistics
from twofold.lab.verdict import Verdict, corrected, judge, waiting

RNG = np.random.default_rng


def test_a_clear_difference_is_called_better_and_its_mirror_worse() -> None:
    good, bad = [np.arange(10.0) + 5], [np.arange(10.0)]
    found = judge("B", "A", good, bad)
    assert found.decision == "better"
    assert found.words.startswith("B is better: P = 0.88 [")
    assert judge("A", "B", bad, good).decision == "worse"


def test_fewer_than_ten_seeds_give_no_verdict_however_clear() -> None:
    found = judge("B", "A", [np.arange(9.0) + 100], [np.arange(9.0)])
    assert found.decision == "too few"
    assert found.words.startswith("too few seeds for a verdict: P = 1.00 [0.70, 1.00]")
    assert "9 seeds each, verdicts need 10" in found.words


def test_what_is_not_decided_says_how_many_seeds_it_would_take() -> None:
    ours = np.array([5, 6, 7, 8, 9, 10, 11, 12, 13, 14.0])
    theirs = np.array([4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 2.5, 12.5])
    found = judge("B", "A", [ours], [theirs])
    p = found.improvement.value
    assert found.decision == "undecided"
    assert found.words.startswith("not decided: P = ")
    assert f"a true {p:.2f} needs {statistics.seeds_needed(round(p, 2))} seeds each" in found.words


def test_equal_scores_are_nearly_equal_not_infinitely_expensive() -> None:
    found = judge("B", "A", [np.arange(12.0)], [np.arange(12.0)])
    assert "nearly equal: even a true 0.60 needs 131 seeds each" in found.words


def test_several_comparisons_at_once_must_each_be_surer() -> None:
    one = judge("B", "A", [np.arange(10.0) + 3.4], [np.arange(10.0)])
    assert one.decision == "better" and one.p > 0.01
    many = corrected([one, *[judge("C", "A", [np.arange(10.0)], [np.arange(10.0)])] * 4])
    assert many[0].decision == "undecided"
    assert many[0].p == pytest.approx(5 * one.p)
    assert "(of 5 comparisons)" in many[0].words


def test_unfinished_seeds_are_named_and_postpone_the_verdict() -> None:
    found = waiting(judge("B", "A", [np.arange(10.0) + 5], [np.arange(10.0)]), ["B seed 3", "A seed 1"])
    assert found.decision == "unfinished"
    assert found.words.startswith("no verdict yet: B seed 3 and A seed 1 are not finished; P = 0.88")


def false_verdicts(draw: Any, repetitions: int = 400) -> tuple[float, float]:
    """The shares of comparisons that end with "better" and with "worse"."""
    rng = RNG(5)
    found: list[Verdict] = [judge("B", "A", *draw(rng)) for _ in range(repetitions)]
    shares = [sum(v.decision == word for v in found) / repetitions for word in ("better", "worse")]
    return shares[0], shares[1]


EQUAL = {
    "normal": lambda r: ([r.normal(size=10)], [r.normal(size=10)]),
    "skewed": lambda r: ([r.lognormal(size=10)], [r.lognormal(size=10)]),
    "ties": lambda r: ([r.integers(0, 4, 10).astype(float)], [r.integers(0, 4, 10).astype(float)]),
    "other spread, more seeds": lambda r: ([r.normal(0, 3, 10)], [r.normal(0, 1, 20)]),
    "two worlds": lambda r: ([r.normal(size=10), r.normal(size=10)], [r.normal(size=10), r.normal(size=10)]),
}


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_settings_get_a_verdict_in_at_most_five_percent(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = 1000
    for name in ("improvement_interval", "permutation_p"):
        whole = getattr(statistics, name)
        monkeypatch.setattr(statistics, name, lambda a, b, f=whole: f(a, b, resamples=fast))
    better, worse = false_verdicts(EQUAL[kind])
    assert better <= 0.05 and worse <= 0.05
    # Of both together 400 repetitions of a true 5 % stay below 7.3 % in 98 of 100 seeds; this one is fixed.
    assert better + worse <= 0.06


def test_a_real_difference_of_one_deviation_is_seen_more_often_than_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("improvement_interval", "permutation_p"):
        whole = getattr(statistics, name)
        monkeypatch.setattr(statistics, name, lambda a, b, f=whole: f(a, b, resamples=500))
    shifted = lambda r: ([r.normal(1.25, 1, 12)], [r.normal(0, 1, 12)])  # noqa: E731
    assert false_verdicts(shifted, 100)[0] > 0.7
