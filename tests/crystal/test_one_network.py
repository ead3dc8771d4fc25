"""One network that learns the actions of two policies."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from crystal_one import BATCH, HELD, SWITCHES, config, fitted, learnt, near, network_of, taught

from twofold.crystal.features import NAMES
from twofold.crystal.policy import SpringPolicy
from twofold.crystal.spring import SCALARS
from twofold.nets.numpy_mlp import NumpyMLP

NONMETAL = NAMES.index("any nonmetal")


def drawn(inputs, outputs, seed, hidden=(5, 4)):
    rng, sizes = np.random.default_rng(seed), (inputs, *hidden, outputs)
    shapes = zip(sizes[:-1], sizes[1:], strict=True)
    layers = [rng.normal(size=(a + 1, b)).astype(np.float32) / 3 for a, b in shapes]
    return SpringPolicy(NumpyMLP(layers, [], "relu", "tanh"))


def observed(number, seed=3):
    rng = np.random.default_rng(seed)
    seen = rng.uniform(-1, 1, (number, len(NAMES))).astype(np.float32)
    seen[:, SWITCHES] = rng.integers(2, size=(number, len(SWITCHES)))
    return seen


@pytest.fixture
def teachers():
    return drawn(22, 6, seed=1), drawn(len(NAMES), len(SCALARS), seed=2, hidden=(3, 6))


def test_the_first_teaches_where_there_is_no_nonmetal_and_the_second_where_there_is_one(teachers):
    seen = observed(50)
    for row, action in zip(seen, taught(*teachers)(seen), strict=True):
        np.testing.assert_allclose(action, teachers[int(row[NONMETAL])].act(row), atol=1e-6)


def test_what_is_0_or_1_is_not_moved_and_half_of_a_batch_was_observed():
    seen = observed(40)
    batch = near(seen, np.random.default_rng(0))
    assert batch.shape == (2 * BATCH, len(NAMES)) and batch.dtype == np.float32
    some, moved = np.split(batch, 2)
    assert {tuple(row) for row in some} <= {tuple(row) for row in seen}
    np.testing.assert_array_equal(some[:, SWITCHES], moved[:, SWITCHES])
    others = np.delete(moved - some, SWITCHES, axis=1)
    assert 0.1 < others.std() < 0.3 and np.abs(moved).max() <= 3


def test_a_network_learns_what_both_teach_and_the_same_one_again(teachers):
    act, fresh = taught(*teachers), observed(200, seed=4)

    def error(layers):
        return np.sqrt(((network_of(layers).act(fresh) - act(fresh)) ** 2).mean())

    few, more = (fitted(observed(2000), act, updates) for updates in (1, 600))
    assert error(more) < 0.15 * error(few)
    assert [layer.shape for layer in more] == [(29, 128), (129, 128), (129, 7)]
    for one, other in zip(few, fitted(observed(2000), act, 1), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_second_round_is_what_the_network_meets_and_one_start_in_ten_is_held_back(teachers, monkeypatch):
    act, asked, fits = taught(*teachers), [], []

    def paths(one, turn):
        asked.append(one)
        return [observed(3, seed=100 * turn + number) for number in range(2 * HELD)]

    def fit(seen, labels, updates):
        fits.append(seen)
        assert labels is act
        return [np.zeros((29, 7), np.float32)]

    monkeypatch.setattr("crystal_one.paths", paths)
    monkeypatch.setattr("crystal_one.fitted", fit)
    _, about = learnt(act)
    assert asked[0] is act and (asked[1](observed(2)) == 0).all()
    assert [len(seen) for seen in fits] == [3 * 18, 3 * 36] and about["observations"] == 3 * 36
    held = np.concatenate([observed(3, seed=seed) for seed in (0, 10, 100, 110)])
    assert not {tuple(row) for row in held} & {tuple(row) for row in fits[1]}
    error = about["root mean square on other starts"]
    assert error["actions"] == pytest.approx(
        np.sqrt((act(held) ** 2).mean()), abs=1e-5
    )  # of a network of zeros


def test_its_settings_name_the_structures_of_both():
    metals = {"env_args.sets": {"a": 1}, "env_args.eval_sets": {"a": 2}, "networks.actor_hidden": [64, 64]}
    others = {"env_args.sets": {"b": 3}, "env_args.eval_sets": {}, "networks.start": "prior", "seed": 1}
    assert config(metals, others, [128, 128]) == {
        "env_args.sets": {"a": 1, "b": 3},
        "env_args.eval_sets": {"a": 2},
        "networks.actor_hidden": [128, 128],
        "seed": 1,
    }
