import numpy as np
import pytest
import torch

from twofold.base.errors import UserError
from twofold.recsys import gaussian
from twofold.recsys.data import Dataset, Features, Ratings
from twofold.recsys.gaussian import GaussianConfig, Kernel, _posterior, _slope, fit_gaussian
from twofold.recsys.synthetic import SyntheticConfig, synthetic


def test_the_posterior_mean_is_the_textbook_formula():
    rng = np.random.default_rng(0)
    log = Ratings(np.array([0, 1, 2, 2]), np.array([0, 1, 1, 3]), np.array([1.0, 3.0, 2.0, 5.0], np.float32), None,
                  ("a", "b", "c"), ("w", "x", "y", "z"))  # fmt: skip
    user, item = (m @ m.T for m in (rng.normal(size=(3, 3)), rng.normal(size=(4, 4))))
    kernel = Kernel(
        ((torch.from_numpy(user), torch.from_numpy(item)),),
        torch.tensor([0.3]).double(),
        torch.tensor(-1.0).double(),
    )
    found = _posterior(kernel, log, 2.5, 400, rng)
    cells = [(u, i) for u in range(3) for i in range(4)]
    covariance = np.exp(0.3) * np.array([[user[a, c] * item[b, d] for c, d in cells] for a, b in cells])
    seen = [cells.index((u, i)) for u, i in zip(log.users, log.items, strict=True)]
    gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + np.exp(-1.0) * np.eye(4))
    mean = 2.5 + gain @ (log.values - 2.5)
    np.testing.assert_allclose(found.mean.ravel(), mean, rtol=1e-4, atol=1e-4)
    rest = covariance - gain @ covariance[seen]
    spread = np.sqrt(np.maximum(np.diag(rest), 0))
    np.testing.assert_allclose(found.samples.std(0).ravel(), spread, rtol=0.2, atol=0.02)


def test_the_slope_is_that_of_the_marginal_likelihood():
    rng = np.random.default_rng(1)
    blocks = torch.from_numpy(np.stack([m @ m.T for m in rng.normal(size=(2, 6, 6))])).float()
    target, logs = torch.from_numpy(rng.normal(size=6)).float(), torch.tensor([-0.5, 0.2, -1.0]).double()

    def loss(values):
        covariance = torch.einsum("p,pij->ij", values[:2].exp(), blocks.double())
        covariance = covariance + (values[2].exp() + 1e-4) * torch.eye(6).double()
        fit = target.double() @ torch.linalg.solve(covariance, target.double())
        return 0.5 * fit + 0.5 * torch.logdet(covariance) + 0.01 * (values[:2] + 3).square().sum()

    wanted = torch.autograd.functional.jacobian(loss, logs)
    np.testing.assert_allclose(_slope(logs, blocks, target), wanted, rtol=1e-3, atol=1e-3)


def test_predictions_beat_the_mean_on_unseen_pairs():
    data = synthetic(SyntheticConfig(users=40, items=30, ratings_per_user=12))
    found = fit_gaussian(
        data, GaussianConfig(samples=3, tune_ratings=300, tune_steps=25), np.random.default_rng(0)
    )
    error = np.square(found.mean - data.truth.values).mean()
    assert error < 0.6 * np.square(data.train.values.mean() - data.truth.values).mean()


def test_a_log_too_large_for_an_exact_process_is_refused():
    data = synthetic(SyntheticConfig(users=20, items=15, ratings_per_user=10))
    with pytest.raises(UserError, match="deepfm"):
        fit_gaussian(data, GaussianConfig(most_ratings=100), np.random.default_rng(0))


def test_features_are_optional():
    rng = np.random.default_rng(0)
    log = Ratings(
        np.arange(5),
        np.arange(5),
        rng.normal(size=5).astype(np.float32),
        None,
        tuple("abcde"),
        tuple("vwxyz"),
    )
    found = fit_gaussian(
        Dataset("tiny", log, 1, 5), GaussianConfig(samples=2, tune_ratings=5, tune_steps=2), rng
    )
    assert found.samples.shape == (2, 5, 5)


def test_the_factor_is_solved_with_for_many_worlds_at_once_with_the_same_bits(monkeypatch):
    """Each solve copies the factor, a gigabyte for a large log: half of the time that a fit took was spent on pages."""
    data = synthetic(SyntheticConfig(users=12, items=15, ratings_per_user=6))
    config, solve, calls = GaussianConfig(samples=30, tune_steps=2), torch.cholesky_solve, []
    monkeypatch.setattr(torch, "cholesky_solve", lambda *given: calls.append(1) or solve(*given))
    many = fit_gaussian(data, config, np.random.default_rng(0))
    assert len(calls) == 2  # the mean, and all worlds
    monkeypatch.setattr(gaussian, "_DRAWN_CELLS", 1)
    one_by_one = fit_gaussian(data, config, np.random.default_rng(0))
    assert len(calls) == 2 + 31
    np.testing.assert_allclose(many.samples, one_by_one.samples, rtol=1e-6, atol=1e-6)


def test_the_unit_of_a_number_among_features_does_not_matter():
    rng = np.random.default_rng(0)
    flags, years = rng.integers(2, size=(6, 2)).astype(np.float32), rng.integers(1950, 2000, size=(6, 1))
    tables = [np.hstack([flags, years * unit]).astype(np.float32) for unit in (1.0, 1000.0)]
    one, other = (gaussian._bases(6, Features(table, ("a", "b", "year")))["features"] for table in tables)
    assert torch.allclose(one, other, rtol=1e-4)
