import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.recsys.data import Dataset, Ratings, from_matrix
from twofold.recsys.ope import effective_size, estimates, snips, softened
from twofold.recsys.truth import Matrix


def logged(seed, users=400, items=12):
    """A log in which each pair is seen with a known chance that grows with its rating."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 6, size=(users, items)).astype(np.float32)
    chance = 0.1 + 0.12 * truth
    seen = rng.random((users, items)) < chance
    log = from_matrix(np.where(seen, truth, 0))
    names = tuple(map(str, range(users))), tuple(map(str, range(items)))
    log = Ratings(log.users, log.items, log.values, None, *names)
    return Dataset("logged", log, 1, 5, propensities=chance), truth


def test_estimates_of_a_biased_log_are_near_the_true_value():
    data, truth = logged(0)
    policy = softened(np.zeros(400, int), 12, 0.5)
    true = (policy * truth).sum(axis=1).mean()
    naive = data.train.values.mean()
    found = estimates(data, policy, Matrix(np.full((400, 12), 3.0)))
    for name in ("IPS", "SNIPS", "DR"):
        assert found[name].low < true < found[name].high, name
        assert abs(found[name].value - true) < abs(naive - true), name


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    covered = {"IPS": 0, "SNIPS": 0, "DR": 0}
    for seed in range(60):
        data, truth = logged(seed, users=150)
        policy = softened(np.full(150, 3), 12, 0.5)
        true = (policy * truth).sum(axis=1).mean()
        for name, found in estimates(data, policy, Matrix(np.full((150, 12), 3.0))).items():
            if name in covered:
                covered[name] += found.low < true < found.high
    assert all(52 <= count <= 60 for count in covered.values()), covered


def test_a_perfect_model_makes_doubly_robust_exact():
    data, truth = logged(1)
    policy = softened(np.zeros(400, int), 12, 0.2)
    found = estimates(data, policy, Matrix(truth))["DR"]
    assert found.value == pytest.approx((policy * truth).sum(axis=1).mean(), rel=1e-6)
    assert found.high - found.low == pytest.approx(0.0, abs=1e-6)


def test_equal_weights_count_every_rating():
    assert effective_size(np.ones(50)) == 50
    assert effective_size(np.array([1.0, 0.0, 0.0])) == 1
    assert snips(np.ones(4), np.array([1.0, 2, 3, 4]), np.full(4, 0.5)).value == 2.5


def test_data_without_propensities_are_refused():
    data = Dataset("plain", from_matrix(np.ones((2, 2))), 1, 5)
    with pytest.raises(UserError, match="propensities"):
        estimates(data, np.ones((2, 2)) / 2)
