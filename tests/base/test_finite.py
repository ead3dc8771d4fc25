from __future__ import annotations

import numpy as np
import pytest

from twofold.base.finite import first_bad, first_bad_row


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_one_bad_number_among_many_is_found_with_its_row(bad: float, kind: type) -> None:
    array = np.ones((5, 40), kind)
    assert first_bad_row(obs=array) is None
    array[3, 17] = bad
    assert first_bad_row(reward=np.zeros(5), obs=array) == "obs of row 3"
    assert first_bad(obs=array) == "obs"


def test_large_numbers_whose_squares_overflow_are_finite() -> None:
    assert first_bad_row(obs=np.full((2, 3), 3e38, np.float32)) is None
    assert first_bad(obs=np.full((2, 3), 1e308)) is None


def test_bad_numbers_that_cancel_are_found() -> None:
    assert first_bad(x=np.array([np.inf, -np.inf, 0.0])) == "x"


def test_arrays_with_names_are_walked_and_whole_numbers_passed_over() -> None:
    obs = {"items": np.array([1, 2]), "scores": np.array([[0.0], [np.nan]], np.float32)}
    assert first_bad_row(obs=obs) == "obs.scores of row 1"
