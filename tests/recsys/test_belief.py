import numpy as np

from twofold.recsys.belief import Belief
from twofold.recsys.catalogue import Catalogue


def catalogue():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(6, 3)).astype(np.float32)
    return Catalogue(
        np.eye(6, dtype=np.float32), np.zeros((2, 1), np.float32), np.zeros((6, 1), np.float32), factors, 0.5
    )


def test_the_filter_equals_bayesian_regression():
    known = catalogue()
    belief = Belief(known, 1)
    belief.reset(np.array([0]))
    items, ratings = [0, 4, 2], np.array([1.0, -0.5, 2.0])
    history = np.full((1, 3), -1)
    for turn, (item, rating) in enumerate(zip(items, ratings, strict=True)):
        belief.see(np.array([0]), np.array([item]), np.array([rating], np.float32), history)
        history[0, turn] = item
    design = known.belief_factors[items].astype(np.float64)
    precision = np.eye(3) + design.T @ design / 0.25
    np.testing.assert_allclose(
        belief.mean[0], np.linalg.solve(precision, design.T @ ratings / 0.25), rtol=1e-4
    )
    np.testing.assert_allclose(belief.covariance[0], np.linalg.inv(precision), rtol=1e-3, atol=1e-6)


def test_an_item_shown_again_teaches_nothing_new():
    belief = Belief(catalogue(), 1)
    belief.reset(np.array([0]))
    belief.see(np.array([0]), np.array([1]), np.array([2.0], np.float32), np.array([[-1]]))
    before = belief.mean.copy()
    belief.see(np.array([0]), np.array([1]), np.array([2.0], np.float32), np.array([[1]]))
    assert (belief.mean == before).all()
