"""Bayesian matrix factorisation by Gibbs sampling (Salakhutdinov and Mnih, 2008): worlds from logs of any length.

rating = offset + user bias + item bias + user factors . item factors + noise; users and items have Gaussian priors
whose mean and precision are drawn as well, from a Normal-Wishart, so nothing is tuned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twofold.base.progress import tracked
from twofold.base.setting import setting, settings
from twofold.recsys.data import Array, Dataset, Ratings
from twofold.recsys.truth import MOST_CELLS, Matrix, moments


@settings
class FactorisedConfig:
    """Settings of the Bayesian factorisation."""

    factors: int = setting("dimensions of taste", default=12, ge=1)
    samples: int = setting("worlds drawn; fewer where their tables would be too large", default=60, ge=1)
    burn_in: int = setting("before the first world is kept", default=30, ge=1, unit="sweeps")
    thin: int = setting("between two worlds", default=2, ge=1, unit="sweeps")


@dataclass(frozen=True)
class Draws:
    """Mean and drawn worlds of the ratings, as whole tables."""

    mean: Array  # float32 [users, items]
    samples: Array  # float16 [S, users, items]
    noise: float  # standard deviation of a single rating around its world


def fit_factorised(data: Dataset, cfg: FactorisedConfig, rng: np.random.Generator) -> Draws:
    """Draws from the posterior of all ratings given the training log."""
    log, width = data.train, cfg.factors + 1
    offset = float(log.values.mean())
    target = log.values.astype(np.float64) - offset
    user = rng.normal(0, 0.1, (data.users, width))  # bias, factors
    item = rng.normal(0, 0.1, (data.items, width))
    count = max(8, min(cfg.samples, MOST_CELLS // (data.users * data.items)))
    samples, noises, precision = np.empty((count, data.users, data.items), np.float16), [], 1.0
    sweeps = cfg.burn_in + cfg.thin * count
    for sweep in tracked(range(sweeps), "learning the users", sweeps):
        item = _draw_side(
            log.items, _inputs(user)[log.users], target - user[log.users, 0], item, precision, rng
        )
        user = _draw_side(
            log.users, _inputs(item)[log.items], target - item[log.items, 0], user, precision, rng
        )
        left = target - _products(user, item, log)
        precision = rng.gamma(1.0 + len(left) / 2) / (1.0 + np.square(left).sum() / 2)
        kept, rest = divmod(sweep - cfg.burn_in, cfg.thin)
        if kept >= 0 and rest == cfg.thin - 1:
            table = offset + user[:, :1] + item[:, 0] + user[:, 1:] @ item[:, 1:].T
            samples[kept] = np.clip(table, data.low, data.high)
            noises.append(precision**-0.5)
    return Draws(samples.mean(axis=0, dtype=np.float32), samples, float(np.mean(noises)))


def _inputs(side: Array) -> Array:
    """What the other side's bias and factors are multiplied with."""
    return np.column_stack([np.ones(len(side)), side[:, 1:]])


def _products(user: Array, item: Array, log: Ratings) -> Array:
    pairs = np.einsum("nk,nk->n", user[log.users, 1:], item[log.items, 1:])
    return np.asarray(user[log.users, 0] + item[log.items, 0] + pairs)


def _draw_side(
    rows: Array, inputs: Array, target: Array, now: Array, precision: float, rng: np.random.Generator
) -> Array:
    """New biases and factors of all users (or items), given the other side."""
    centre, spread = _draw_prior(now, rng)
    gram, moment = moments(rows, inputs, target, len(now))
    certain = spread + precision * gram
    towards = spread @ centre + precision * moment
    root = np.linalg.cholesky(certain)
    mean = np.linalg.solve(certain, towards[..., None])[..., 0]
    white = rng.standard_normal(now.shape)
    return np.asarray(mean + np.linalg.solve(root.transpose(0, 2, 1), white[..., None])[..., 0])


def _draw_prior(rows: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and precision matrix of the rows, drawn from their Normal-Wishart posterior."""
    count, width = rows.shape
    centre, strength = rows.mean(axis=0), 2.0
    off = rows - centre
    scatter = np.eye(width) + off.T @ off + strength * count / (strength + count) * np.outer(centre, centre)
    precision = _wishart(np.linalg.inv(scatter), width + count, rng)
    mean = count * centre / (strength + count)
    root = np.linalg.cholesky((strength + count) * precision)
    return mean + np.linalg.solve(root.T, rng.standard_normal(width)), precision


def _wishart(scale: Array, freedom: int, rng: np.random.Generator) -> Array:
    """A draw by Bartlett's decomposition."""
    width = len(scale)
    lower = np.tril(rng.standard_normal((width, width)), -1)
    lower[np.diag_indices(width)] = np.sqrt(rng.chisquare(freedom - np.arange(width)))
    root = np.linalg.cholesky(scale) @ lower
    return np.asarray(root @ root.T)


def tables(draws: Draws) -> tuple[Matrix, ...]:
    return tuple(Matrix(sample) for sample in draws.samples)
