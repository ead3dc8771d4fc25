"""Bayesian factorisation: what it finds in made-up ratings, and how sure it says it is."""

from dataclasses import replace

import numpy as np
import pytest

from twofold.base.errors import ConfigError
from twofold.recsys.data import Dataset, Features, Ratings
from twofold.recsys.factorised import FactorisedConfig, _draw_prior, _wishart, fit_factorised
from twofold.recsys.user_model import UserModelConfig, fit, kind_for

QUICK = FactorisedConfig(factors=2, samples=20, burn_in=20, thin=1)


@pytest.fixture(scope="module")
def made_up():
    """60 users x 40 items of rank 2 with noise 0.3; a third of the pairs is logged."""
    rng = np.random.default_rng(0)
    table = 3 + 0.5 * rng.normal(size=(60, 1)) + 0.7 * rng.normal(size=(60, 2)) @ rng.normal(size=(2, 40))
    users, items = np.nonzero(rng.random((60, 40)) < 0.35)
    values = (table[users, items] + 0.3 * rng.normal(size=len(users))).astype(np.float32)
    names = tuple(map(str, range(60))), tuple(map(str, range(40)))
    log = Ratings(users.astype(np.int32), items.astype(np.int32), values, None, *names)
    return table, Dataset(name="made up", train=log, low=-5.0, high=11.0)


def test_the_mean_finds_the_ratings_that_were_not_logged(made_up):
    table, data = made_up
    found = fit_factorised(data, QUICK, np.random.default_rng(0))
    error = np.sqrt(np.square(found.mean - table).mean())
    assert error < 0.35 < 0.8 < table.std()


def test_the_noise_is_found(made_up):
    assert fit_factorised(made_up[1], QUICK, np.random.default_rng(0)).noise == pytest.approx(0.3, abs=0.05)


def test_drawn_worlds_are_as_far_from_the_mean_as_the_truth_is(made_up):
    table, data = made_up
    found = fit_factorised(data, QUICK, np.random.default_rng(0))
    off, spread = np.abs(found.mean - table), found.samples.astype(np.float32).std(axis=0)
    assert 0.4 < np.mean(off < spread) < 0.9  # 0.68 if the posterior were exact


def test_the_same_generator_gives_the_same_worlds(made_up):
    one, other = (fit_factorised(made_up[1], QUICK, np.random.default_rng(3)) for _ in range(2))
    assert (one.samples == other.samples).all()


def test_wishart_draws_have_the_expected_mean():
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    rng = np.random.default_rng(0)
    mean = np.mean([_wishart(scale, 7, rng) for _ in range(4000)], axis=0)
    assert mean == pytest.approx(7 * scale, rel=0.05)


def test_the_prior_follows_the_rows():
    rng = np.random.default_rng(0)
    rows = np.array([1.0, -2.0]) + rng.normal(size=(5000, 2)) * [0.5, 2.0]
    centre, precision = _draw_prior(rows, rng)
    assert centre == pytest.approx([1.0, -2.0], abs=0.1)
    assert np.diag(np.linalg.inv(precision)) == pytest.approx([0.25, 4.0], rel=0.1)


def test_auto_takes_the_factorisation_for_long_logs(made_up):
    described = replace(
        made_up[1], item_features=Features(np.eye(40, dtype=np.float32), tuple(map(str, range(40))))
    )
    cfg = UserModelConfig()
    assert kind_for(described, cfg) == "gaussian"
    long = UserModelConfig(gaussian=type(cfg.gaussian)(most_ratings=100))
    assert kind_for(described, long) == "factorised"


def test_auto_learns_personal_tastes_from_a_short_log_without_features(made_up):
    truth, data = made_up
    model = fit(data, UserModelConfig())
    personal = [table - table.mean(axis=0) for table in (model.mean.values, truth)]
    assert model.kind == "factorised"
    assert np.corrcoef(personal[0].ravel(), personal[1].ravel())[0, 1] > 0.5


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="samples must be at least 1"):
        FactorisedConfig(samples=0)
