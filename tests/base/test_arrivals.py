from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twofold.base.arrivals import Arrivals, shown, wrong_array, wrong_flag, wrong_number
from twofold.base.errors import NonFiniteError, WorldError

LIKE = np.zeros(3, np.float32)


class Points:
    """A world's name for messages."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(1, np.float32), "has the shape (1,), (3,) is promised"),
        (np.zeros((), np.float32), "has the shape (), (3,) is promised"),
        (np.zeros((1, 3), np.float32), "has the shape (1, 3), (3,) is promised"),
        (1.5, "has the shape (), (3,) is promised"),
        (
            np.zeros(3, complex),
            "holds complex numbers in place of real numbers: array([0.+0.j, 0.+0.j, 0.+0.j])",
        ),
        (["1", "2", "3"], "holds text in place of real numbers: ['1', '2', '3']"),
        (None, "holds objects in place of real numbers: None"),
        ([[1], [2, 3]], "is not an array of numbers: [[1], [2, 3]]"),
    ],
)
def test_what_would_be_broadcast_or_reinterpreted_is_named(value: Any, words: str) -> None:
    assert wrong_array(value, LIKE, cast=True) == words


@pytest.mark.parametrize("value", [[1, 2, 3], np.zeros(3), np.zeros(3, np.int64), (True, False, True)])
def test_numbers_of_other_widths_are_taken_where_they_are_cast(value: Any) -> None:
    assert wrong_array(value, LIKE, cast=True) is None
    assert wrong_array(value, LIKE, cast=False) is not None


def test_fractions_are_not_cut_to_whole_numbers() -> None:
    assert (
        wrong_array(np.zeros(3), np.zeros(3, np.int64), cast=True) == "is of type float64, int64 is promised"
    )


@pytest.mark.parametrize("value", [1, 1.5, np.float32(1), np.int8(1), True, np.array(2.0)])
def test_a_number_is_a_number(value: Any) -> None:
    assert wrong_number(value) is None


@pytest.mark.parametrize("value", ["1.5", None, np.zeros(1), [1.0], 1j])
def test_text_lists_and_complex_numbers_are_no_reward(value: Any) -> None:
    assert wrong_number(value) is not None


def test_a_flag_is_true_or_false() -> None:
    assert [wrong_flag(value) for value in (True, False, np.True_, 0, 1)] == [None] * 5
    assert all(wrong_flag(value) for value in ("no", 2, 0.5, None, np.zeros(2, bool)))


def test_a_message_shows_a_value_in_one_short_line_whatever_it_is() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError("x" * 1000)

    assert shown(Rude()) == "a Rude that cannot be shown (RuntimeError)"
    assert "\n" not in shown("a\nb" * 100) and len(shown("a\nb" * 100)) < 70


def step(**changed: Any) -> dict[str, Any]:
    """What a step of two rows gives, with something else in some places."""
    right = {"obs": np.zeros((2, 3), np.float32), "reward": np.zeros(2)}
    return right | {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)} | changed


@pytest.mark.parametrize(
    "changed",
    [
        {"obs": np.zeros((2, 1), np.float32)},
        {"obs": np.zeros((2, 3))},
        {"obs": np.zeros(3, np.float32)},
        {"reward": np.zeros(1)},
        {"reward": 0.0},
        {"reward": np.array(["1", "2"])},
        {"terminated": np.zeros(2, int)},
        {"truncated": np.zeros((2, 1), bool)},
        {"terminated": False},
    ],
)
def test_a_world_that_breaks_its_contract_is_stopped_in_that_step(changed: dict[str, Any]) -> None:
    arrivals = Arrivals(Points(), np.zeros((2, 3), np.float32), 2)
    arrivals.of_step(**step(), step=0)
    name = next(iter(changed))
    with pytest.raises(
        WorldError, match=rf"world Points broke its contract at step 40 \(in all 2 rows\): {name} "
    ):
        arrivals.of_step(**step(**changed), step=40)


def test_rewards_of_any_real_kind_are_taken() -> None:
    arrivals = Arrivals(Points(), np.zeros((2, 3), np.float32), 2)
    for kind in (np.float32, np.int64):
        arrivals.of_step(**step(reward=np.zeros(2, kind)), step=0)


def test_observations_with_names_are_checked_one_by_one() -> None:
    like = {"items": np.zeros((2, 4), np.int32), "ratings": np.zeros((2, 4), np.float32)}
    arrivals = Arrivals(Points(), like, 2)
    arrivals.of_reset(like, 0)
    wrong = {"items": np.zeros((2, 4), np.int64), "extra": np.zeros(2)}
    assert arrivals.problems(wrong) == [
        "obs.ratings is missing",
        "obs.extra is not in the observation space",
        "obs.items is of type int64, int32 is promised",
    ]
    with pytest.raises(WorldError, match="after a reset at step 7"):
        arrivals.of_reset(np.zeros((2, 4)), 7)


def test_an_observation_that_is_not_finite_ends_an_evaluation() -> None:
    arrivals = Arrivals(Points(), np.zeros((2, 3), np.float32), 2)
    arrivals.must_be_finite(np.zeros((2, 3)), 1)
    with pytest.raises(NonFiniteError, match="obs of row 1 of the world Points is not finite"):
        arrivals.must_be_finite(np.array([[0.0, 0, 0], [0, np.inf, 0]]), 1)
