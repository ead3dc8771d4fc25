"""Two policies as one network, and what was measured of them as one measure."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from crystal_one import beside, config, reach, together

from twofold.crystal.depth import Depth
from twofold.crystal.features import NAMES
from twofold.crystal.spring import SCALARS
from twofold.nets.numpy_mlp import NumpyMLP

NONMETAL = NAMES.index("any nonmetal")


def drawn(inputs, outputs, seed, hidden=(5, 4)):
    rng, sizes = np.random.default_rng(seed), (inputs, *hidden, outputs)
    shapes = zip(sizes[:-1], sizes[1:], strict=True)
    return [rng.normal(size=(a + 1, b)).astype(np.float32) for a, b in shapes]


def act(layers, seen):
    return NumpyMLP(layers, [], "relu", "tanh").act(seen)


@pytest.mark.parametrize("nonmetal", [0.0, 1.0])
def test_one_network_is_the_first_without_nonmetals_and_the_second_with_them(nonmetal):
    metals, others = drawn(22, 6, seed=1), drawn(len(NAMES), len(SCALARS), seed=2, hidden=(3, 6))
    seen = np.random.default_rng(3).uniform(-3, 3, (200, len(NAMES))).astype(np.float32)
    seen[:, NONMETAL] = nonmetal
    found = act(beside(metals, others), seen)
    if nonmetal:
        np.testing.assert_allclose(found, act(others, seen), atol=1e-6)
    else:
        np.testing.assert_allclose(found[:, :6], act(metals, seen[:, :22]), atol=1e-6)
        assert (found[:, 6] == 0).all()


def test_units_are_shut_by_what_they_cannot_be_above():
    layers = [np.array([[1.0, -2.0], [0.5, 0.25]]), np.array([[-1.0], [2.0], [0.125]]), np.zeros((2, 1))]
    assert reach(layers).tolist() == [3.5 + 2 * 6.25 + 0.125]


def test_the_sizes_are_those_of_both_and_two_units_more():
    both = beside(drawn(22, 6, seed=1), drawn(len(NAMES), len(SCALARS), seed=2, hidden=(3, 6)))
    assert [layer.shape for layer in both] == [(29, 10), (11, 12), (13, 7)]


def test_one_measure_has_the_starts_of_both_in_one_scale():
    one = Depth(np.array([[1.0], [3.0]]), np.array([2.0]), np.array([0.1, 0.2]), limit=1.0)
    other = Depth(np.array([[0.0], [1.0]]), np.array([8.0]), np.array([0.3, 0.4]), limit=9.0)
    both = together([one, other], [np.array([2.0]), np.array([7.0])])
    np.testing.assert_allclose((both.seen * both.scale).ravel(), [2, 6, 0, 8], rtol=1e-6)
    assert both.scale.tolist() == pytest.approx([np.std([2, 6, 0, 8])])
    assert both.gain.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert both.limit == pytest.approx((0.0 + 0.99 * 1.0) / np.std([2, 6, 0, 8]))


def test_its_settings_name_the_structures_of_both():
    metals = {"env_args.sets": {"a": 1}, "env_args.eval_sets": {"a": 2}, "networks.actor_hidden": [64, 64]}
    others = {"env_args.sets": {"b": 3}, "env_args.eval_sets": {}, "networks.start": "prior", "seed": 1}
    assert config(metals, others, [130, 130]) == {
        "env_args.sets": {"a": 1, "b": 3},
        "env_args.eval_sets": {"a": 2},
        "networks.actor_hidden": [130, 130],
        "seed": 1,
    }
