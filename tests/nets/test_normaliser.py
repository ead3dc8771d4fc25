"""Running statistics of observations by exact numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from parts import Constant

from twofold.nets.normaliser import Normaliser


def test_observations_have_mean_zero_and_variance_one_and_are_clipped() -> None:
    normaliser = Normaliser(2)
    normaliser.observe(np.array([[1.0, 10.0], [3.0, 30.0]]))
    normaliser.observe(np.array([[5.0, 50.0], [7.0, 70.0]]))  # means 4 and 40, variances 5 and 500
    seen = normaliser(np.array([[4.0 + 5**0.5, 40.0], [1e9, -1e9]], np.float32))
    assert seen == pytest.approx(np.array([[1, 0], [10, -10]]), abs=1e-6)


def test_before_anything_is_counted_observations_pass() -> None:
    assert Normaliser(2)(np.array([[3.0, -2.0]], np.float32)).tolist() == [[3.0, -2.0]]


def test_columns_that_do_not_move_are_not_scaled_up() -> None:
    normaliser = Normaliser(3)
    rows = np.zeros((1000, 3))
    rows[:, 1], rows[::2, 2] = 5.0, 1e-3
    normaliser.observe(rows)
    seen = normaliser(np.array([[0.5, 5.5, 0.5]], np.float32))
    assert seen == pytest.approx(np.array([[0.5, 0.5, 0.4995]]), abs=1e-6)


def test_columns_that_are_zero_most_of_the_time_are_only_centred() -> None:
    normaliser = Normaliser(2)
    rows = np.zeros((100, 2))
    rows[:4, 0], rows[:50, 1] = 1.0, 1.0  # means 0.04 and 0.5, deviations 0.196 and 0.5
    normaliser.observe(rows)
    seen = normaliser(np.array([[1.0, 1.0]], np.float32))
    assert seen == pytest.approx(np.array([[0.96, 1.0]]), abs=1e-6)


def test_a_normaliser_goes_on_from_its_state_and_reads_one_that_counted_no_zeros() -> None:
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [4.0, 3.0]])
    one, same, old = Normaliser(2), Normaliser(2), Normaliser(2)
    one.observe(rows)
    state = one.state_dict()
    same.load_state_dict(state)
    old.load_state_dict({name: value for name, value in state.items() if name != "zeros"})
    raw = np.array([[4.0, 3.0]], np.float32)
    assert same(raw).tolist() == one(raw).tolist() == [[pytest.approx(8 / 3), pytest.approx(1.5**0.5)]]
    assert old(raw).tolist() == [[pytest.approx(2**0.5), pytest.approx(1.5**0.5)]]


def test_the_acting_network_takes_raw_observations() -> None:
    normaliser = Normaliser(3)
    module = normaliser.before(Constant(0.5))
    normaliser.observe(np.array([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]]))  # after the module was made
    seen: list[torch.Tensor] = []
    module.actor.register_forward_pre_hook(lambda _, given: seen.append(given[0]))  # type: ignore[operator, union-attr]
    module(torch.tensor([[2.0, 4.0, 9.0]]))
    assert seen[0].tolist() == [[1.0, 1.0, 2.0]]
