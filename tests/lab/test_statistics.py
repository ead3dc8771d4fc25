"""Estimates over seeds: equal to rliable's and scipy's numbers, and honest at few seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.lab import statistics as s
from twofold.lab.student import quantile

FROZEN = json.loads((Path(__file__).parent / "data" / "frozen.json").read_text())
CASES = FROZEN["cases"]


def by_world(table: list[list[float]]) -> list[Any]:
    return list(np.array(table).T)


@pytest.mark.parametrize("case", CASES)
def test_statistics_equal_those_of_rliable(case: dict[str, Any]) -> None:
    x, y = by_world(case["x"]), by_world(case["y"])
    assert s.iqm(x) == pytest.approx(case["iqm"], abs=1e-14)
    assert s.mean(x) == pytest.approx(case["mean"], abs=1e-14)
    assert s.median(x) == pytest.approx(case["median"], abs=1e-14)
    assert s.optimality_gap(x) == pytest.approx(case["gap"], abs=1e-14)
    assert s.optimality_gap(x, 0.7) == pytest.approx(case["gap2"], abs=1e-14)
    assert s.probability_of_improvement(x, y) == pytest.approx(case["improvement"], abs=1e-14)
    assert s.profile(x, case["thresholds"]) == pytest.approx(case["profile"], abs=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_bootstrap_intervals_agree_with_rliable_within_the_noise_of_resampling(case: dict[str, Any]) -> None:
    x, y = by_world(case["x"]), by_world(case["y"])
    found = s.bootstrap(s.iqm, x)
    assert (found.low, found.high) == pytest.approx(case["iqm_interval"], abs=0.03)
    if case["improvement"] < 1:
        found = s.improvement_interval(x, y)
        assert (found.low, found.high) == pytest.approx(case["improvement_interval"], abs=0.04)


def test_a_clean_sweep_of_few_seeds_is_not_certainty() -> None:
    found = s.improvement_interval([np.arange(10.0) + 20], [np.arange(12.0)])
    assert (found.value, found.low, found.high) == (1.0, s.share_interval(10, 10).low, 1.0)
    assert found.low == pytest.approx(0.722, abs=1e-3)
    assert s.improvement_interval([np.arange(5.0)], [np.arange(5.0) + 9]).high == pytest.approx(
        0.434, abs=1e-3
    )


def test_t_quantiles_equal_those_of_scipy() -> None:
    for probability, freedom, expected in FROZEN["t"]:
        assert quantile(probability, freedom) == pytest.approx(expected, rel=1e-10), (probability, freedom)
    assert quantile(0.025, 4) == -quantile(0.975, 4)


def test_a_t_quantile_of_nothing_is_refused() -> None:
    for probability, freedom in ((1.0, 3), (0.0, 3), (0.9, 0)):
        with pytest.raises(ValueError, match="no t quantile"):
            quantile(probability, freedom)


def test_the_interval_of_a_mean_is_students() -> None:
    found = s.mean_interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.high - 2.0 == pytest.approx(4.30265272974946 / 3**0.5)  # t(0.975, 2) · sd / √n
    assert found.runs == 3


def test_one_run_has_no_interval() -> None:
    assert s.mean_interval([5.0]) == s.Estimate(5.0, None, None, 1)
    assert s.bootstrap(s.iqm, [np.array([5.0])]) == s.Estimate(5.0, None, None, 1)


def test_wilson_intervals_equal_those_of_statsmodels_and_stay_possible() -> None:
    for successes, trials, low, high in FROZEN["wilson"]:
        found = s.share_interval(successes, trials)
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
        assert 0 <= found.low <= found.value <= found.high <= 1
    with pytest.raises(ValueError, match="6 of 5"):
        s.share_interval(6, 5)


def test_the_same_runs_give_the_same_interval_every_time() -> None:
    x = by_world(CASES[2]["x"])
    assert s.bootstrap(s.iqm, x) == s.bootstrap(s.iqm, x)


def test_worlds_with_different_numbers_of_runs_count_alike_in_a_profile() -> None:
    assert s.profile([np.array([0.0, 0.0, 0.0]), np.array([1.0])], [0.5]) == pytest.approx([0.5])


def test_other_worlds_are_never_compared() -> None:
    with pytest.raises(ValueError, match="2 worlds against 1"):
        s.probability_of_improvement([np.ones(2), np.ones(2)], [np.ones(2)])


def test_the_distance_of_the_permutation_test_is_brunner_and_munzels() -> None:
    for x, y, expected in FROZEN["brunner_munzel"]:
        everyone = np.array([*x, *y])
        mine = np.array([[1.0] * len(x) + [0.0] * len(y)])
        chance, variance = s._dealt(mine, s.wins(everyone, everyone))
        assert (chance[0] - 0.5) / np.sqrt(variance[0]) == pytest.approx(expected, rel=1e-12)


def test_three_seeds_that_all_win_are_no_better_than_one_deal_in_ten() -> None:
    p = s.permutation_p([np.array([7.0, 8.0, 9.0])], [np.array([1.0, 2.0, 3.0])])
    assert p == pytest.approx(2 / 20, abs=0.01)  # of the twenty ways to deal six runs, two are as far apart


def test_equal_scores_are_never_surprising() -> None:
    assert s.permutation_p([np.ones(5)], [np.ones(5)]) == 1.0


def test_holm_multiplies_the_smallest_p_by_their_number() -> None:
    assert s.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert s.holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(("p", "seeds"), [(0.6, 131), (0.62, 91), (0.7, 33), (0.75, 21), (0.8, 15), (0.9, 9)])
def test_seeds_needed_are_noethers(p: float, seeds: int) -> None:
    assert s.seeds_needed(p) == s.seeds_needed(1 - p) == seeds


def test_equal_settings_need_more_seeds_than_there_are() -> None:
    assert s.seeds_needed(0.5) is None


values = st.lists(st.integers(-50, 50).map(float), min_size=2, max_size=12)


@given(values, values, st.integers(1, 9), st.integers(-100, 100))
def test_improvement_does_not_depend_on_order_shift_or_scale(
    a: list[float], b: list[float], scale: int, shift: int
) -> None:
    x, y = np.array(a), np.array(b)
    p = s.probability_of_improvement([x], [y])
    assert s.probability_of_improvement([x[::-1]], [y]) == p
    assert s.probability_of_improvement([x * scale + shift], [y * scale + shift]) == p
    assert s.probability_of_improvement([y], [x]) == pytest.approx(1 - p)


@given(values, st.integers(1, 9), st.integers(-100, 100))
def test_the_iqm_follows_shift_and_scale_and_stays_inside(a: list[float], scale: int, shift: int) -> None:
    x = np.array(a)
    assert s.iqm([x * scale + shift]) == pytest.approx(s.iqm([x]) * scale + shift)
    assert x.min() <= s.iqm([x]) <= x.max()


# ---- simulation: are 95 % intervals what they say? ------------------------------------------------------------------


def covered(n: int, draw: Any, truth: float, interval: Any, repetitions: int = 400) -> float:
    rng = np.random.default_rng(n)
    found = [interval(draw(rng, n)) for _ in range(repetitions)]
    return sum(e.low <= truth <= e.high for e in found) / repetitions


def normal(rng: np.random.Generator, n: int) -> Any:
    return rng.normal(size=n)


def one_in_four_fails(rng: np.random.Generator, n: int) -> Any:
    return np.where(rng.random(n) < 0.25, 0.0, 1.0) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_students_interval_of_normal_scores_covers_95_percent(n: int) -> None:
    assert covered(n, normal, 0.0, s.mean_interval, 2000) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(("n", "expected"), [(5, 0.78), (10, 0.93)])
def test_students_interval_is_too_narrow_where_seeds_fail(n: int, expected: float) -> None:
    assert covered(n, one_in_four_fails, 0.75, s.mean_interval, 2000) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(("n", "expected"), [(3, 0.73), (5, 0.90), (10, 0.95)])
def test_the_bootstrap_of_the_iqm_is_honest_from_ten_seeds_on(n: int, expected: float) -> None:
    interval = lambda x: s.bootstrap(s.iqm, [x], resamples=500)  # noqa: E731
    assert covered(n, normal, 0.0, interval) == pytest.approx(expected, abs=0.04)
