from dataclasses import replace

import numpy as np

from twofold.recsys.belief import Belief
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.gaussian import GaussianConfig
from twofold.recsys.prepare import prepare
from twofold.recsys.synthetic import SyntheticConfig
from twofold.recsys.user_model import UserModelConfig


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


def test_the_noise_of_the_belief_is_at_least_that_of_a_single_rating(config):
    _, model, known = prepare(config())
    assert model.noise > 0 and known.belief_noise >= model.noise


def test_an_extreme_history_moves_expectations_its_way_and_not_off_the_scale(config):
    model = UserModelConfig(gaussian=GaussianConfig(samples=30, tune_ratings=300, tune_steps=30))
    made_up = SyntheticConfig(users=40, items=40, tastes=3, groups=4, ratings_per_user=20)
    data, _, known = prepare(replace(config(), model=model, synthetic=made_up))
    group = data.item_features.values.argmax(axis=1)
    hated, loved = (np.flatnonzero(group == g) for g in np.argsort(-np.bincount(group))[:2])
    belief, nobody = Belief(known, 1), np.array([-1])
    belief.reset(np.array([0]))
    history = np.full((1, 9), -1)
    told = [*((item, 1.0) for item in hated[:5]), *((item, 5.0) for item in loved[:4])]
    for turn, (item, rating) in enumerate(told):
        belief.see(nobody, np.array([item]), np.array([rating], np.float32), history)
        history[0, turn] = item
    before = known.item_factors @ known.user_factors[-1]
    after = before + known.belief_factors @ belief.mean[0]
    rest = np.setdiff1d(np.arange(40), history)
    assert (after - before)[np.intersect1d(rest, loved)].mean() > (after - before)[
        np.intersect1d(rest, hated)
    ].mean()
    assert after[rest].min() > data.low - 0.5 and after[rest].max() < data.high + 0.5
