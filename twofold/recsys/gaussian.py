"""An exact Gaussian process over (user, item) ratings whose posterior worlds can be drawn at once.

The kernel is a sum of products K_user x K_item (constant, user, item, features, and their products), so every
product with the kernel is two small matrix products, and only the logged ratings meet in one Cholesky factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import UserError
from twofold.base.progress import task, tracked
from twofold.base.setting import setting, settings
from twofold.recsys.data import Array, Dataset, Features, Ratings
from twofold.recsys.truth import MOST_CELLS


@settings
class GaussianConfig:
    """Settings of the Gaussian process."""

    samples: int = setting(
        "posterior worlds drawn; fewer where their tables would be too large", default=200, ge=1
    )
    tune_ratings: int = setting(
        "about this many ratings, of whole users, choose the kernel's scales", default=2000, ge=1
    )
    tune_steps: int = setting("gradient steps for these scales", default=60, ge=0)
    tune_lr: float = setting("learning rate for these scales", default=0.1, gt=0)
    most_ratings: int = setting(
        "a Cholesky factor of more would take minutes and gigabytes", default=12_000, ge=1, unit="ratings"
    )


_SLICE = 64  # rows of the covariance made at once
_DRAWN_CELLS = 4_000_000  # of the tables that are drawn at once


@dataclass(frozen=True)
class Kernel:
    """Pairs of (user kernel [U, U], item kernel [I, I]), their log variances, the log noise variance."""

    parts: tuple[tuple[Tensor, Tensor], ...]
    log_variance: Tensor  # [parts]
    log_noise: Tensor

    def among(self, users: Tensor, items: Tensor) -> Tensor:
        """The kernel between logged pairs [n, n]."""
        total = torch.zeros(len(users), len(users), dtype=torch.float64)
        # In slices: whole temporaries would be gigabytes, and those of many megabytes are new pages each time.
        for start in range(0, len(users), _SLICE):
            some = slice(start, start + _SLICE)
            for weight, (user, item) in zip(self.log_variance.exp(), self.parts, strict=True):
                total[some] += weight * user[users[some]][:, users] * item[items[some]][:, items]
        return total

    def spread(self, table: Tensor) -> Tensor:
        """The kernel times a whole table [..., U, I] of weights."""
        total = torch.zeros_like(table)
        for weight, (user, item) in zip(self.log_variance.exp(), self.parts, strict=True):
            total += weight * (user @ table @ item)
        return total


@dataclass(frozen=True)
class Posterior:
    """Mean and drawn worlds of the ratings, as whole tables."""

    mean: Array  # float32 [U, I]
    samples: Array  # float32 [S, U, I]
    noise: float  # standard deviation of a single rating around the mean


def fit_gaussian(data: Dataset, cfg: GaussianConfig, rng: np.random.Generator) -> Posterior:
    """The posterior of all ratings given the training log and the features alone."""
    log = data.train
    if len(log) > cfg.most_ratings:
        raise UserError(
            f"the exact Gaussian process takes at most {cfg.most_ratings} ratings, the log has {len(log)}: "
            "choose user_model.kind=deepfm"
        )
    offset = float(log.values.mean())
    kernel = _tune(_kernel(data), log, offset, cfg, rng)
    samples = min(cfg.samples, max(8, MOST_CELLS // (data.users * data.items)))
    return _posterior(kernel, log, offset, samples, rng)


def _kernel(data: Dataset) -> Kernel:
    """All products of {constant, features, own} over users and items, but own x own."""
    user = _bases(data.users, data.user_features)
    item = _bases(data.items, data.item_features)
    parts = tuple(
        (user[one], item[other]) for one in user for other in item if (one, other) != ("own", "own")
    )
    return Kernel(parts, torch.full((len(parts),), -3.0, dtype=torch.float64), torch.tensor(0.0).double())


def _bases(count: int, features: Features | None) -> dict[str, Tensor]:
    bases = {"constant": torch.ones(count, count, dtype=torch.float64), "own": torch.eye(count).double()}
    if features is not None:
        values = torch.from_numpy(features.values).double()
        flags = ((values == 0) | (values == 1)).all(0)
        values = values - values.mean(0)
        # Flags count by how common they are; a year or a price would drown them by its unit.
        values = torch.where(flags, values, values / values.std(0).clamp_min(1e-12))
        bases["features"] = values @ values.T / values.square().sum(1).mean().clamp_min(1e-12)
    return bases


def _tune(
    kernel: Kernel, log: Ratings, offset: float, cfg: GaussianConfig, rng: np.random.Generator
) -> Kernel:
    """The variances that make the logged ratings of some whole users most likely."""
    chosen, users = np.zeros(0, np.int64), iter(rng.permutation(len(log.user_names)))
    while len(chosen) < min(cfg.tune_ratings, len(log)):
        chosen = np.append(chosen, np.flatnonzero(log.users == next(users)))
    some = log.take(chosen[: cfg.tune_ratings])
    pairs = torch.from_numpy(some.users).long(), torch.from_numpy(some.items).long()
    target = torch.from_numpy(some.values).double() - offset
    blocks = torch.stack(
        [user[pairs[0]][:, pairs[0]] * item[pairs[1]][:, pairs[1]] for user, item in kernel.parts]
    ).float()
    logs = torch.cat([kernel.log_variance, kernel.log_noise[None]]).requires_grad_()
    optimiser = torch.optim.Adam([logs], lr=cfg.tune_lr)
    for _ in tracked(range(cfg.tune_steps), "choosing the kernel", cfg.tune_steps):
        logs.grad = _slope(logs.detach(), blocks, target.float())
        optimiser.step()
    return Kernel(kernel.parts, logs.detach()[:-1], logs.detach()[-1])


def _slope(logs: Tensor, blocks: Tensor, target: Tensor) -> Tensor:
    """Gradient of minus the log marginal likelihood by the log variances of the parts and of the noise."""
    scales = logs.exp().float()
    covariance = torch.einsum("p,pij->ij", scales[:-1], blocks)
    covariance.diagonal().add_(scales[-1] + 1e-4)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
    weights = inverse @ target
    rest = inverse - torch.outer(weights, weights)
    slope = 0.5 * scales * torch.cat([torch.einsum("ij,pij->p", rest, blocks), rest.trace()[None]])
    # A weak prior keeps parts that are not needed from drifting to minus infinity.
    prior = torch.cat([0.02 * (logs[:-1] + 3), torch.zeros(1)])
    return slope.double() + prior


@torch.no_grad()
def _posterior(
    kernel: Kernel, log: Ratings, offset: float, samples: int, rng: np.random.Generator
) -> Posterior:
    """Mean and samples by Matheron's rule: a prior draw, corrected by what it misses of the log."""
    users, items = torch.from_numpy(log.users).long(), torch.from_numpy(log.items).long()
    target = torch.from_numpy(log.values).double() - offset
    noise = float(kernel.log_noise.exp())
    with task(f"factorising {len(log):,} ratings"):
        covariance = kernel.among(users, items)
        covariance.diagonal().add_(noise + 1e-6)
        factor = torch.linalg.cholesky(covariance)
    roots = [(_root(user), _root(item)) for user, item in kernel.parts]
    shape = (len(log.user_names), len(log.item_names))

    def corrected(prior: Tensor, missing: Tensor) -> Tensor:
        """Prior tables [k, U, I] with what they miss of the log [k, n] spread over them."""
        tables = torch.zeros(len(missing), *shape, dtype=torch.float64)
        # Solving copies the whole factor, a gigabyte of new pages: for many right-hand sides at once, not for each.
        tables[:, users, items] = torch.cholesky_solve(missing.T, factor).T
        return prior + torch.stack([kernel.spread(table) for table in tables])

    mean = corrected(torch.zeros(1, *shape, dtype=torch.float64), target[None])[0]
    draws = np.empty((samples, *shape), np.float32)
    at_once = max(1, min(samples, _DRAWN_CELLS // (shape[0] * shape[1])))
    for start in tracked(range(0, samples, at_once), "drawing worlds", -(-samples // at_once)):
        size = min(at_once, samples - start)
        drawn = [_drawn(kernel, roots, shape, (users, items), noise, rng) for _ in range(size)]
        prior, seen = (torch.stack(tables) for tables in zip(*drawn, strict=True))
        draws[start : start + size] = (corrected(prior, target - seen) + offset).float().numpy()
    return Posterior((mean + offset).float().numpy(), draws, noise**0.5)


def _drawn(
    kernel: Kernel,
    roots: list[tuple[Tensor, Tensor]],
    shape: tuple[int, int],
    logged: tuple[Tensor, Tensor],
    noise: float,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """A table from the prior, and what a log of it would have held, noise included."""
    prior = _prior_draw(kernel, roots, shape, rng)
    return prior, prior[logged] + noise**0.5 * torch.from_numpy(rng.standard_normal(len(logged[0])))


def _root(matrix: Tensor) -> Tensor:
    """A matrix R with R R' = matrix, with as few columns as its rank allows."""
    values, vectors = torch.linalg.eigh(matrix)
    kept = values > 1e-9 * values[-1]
    root: Tensor = vectors[:, kept] * values[kept].sqrt()
    return root


def _prior_draw(
    kernel: Kernel, roots: list[tuple[Tensor, Tensor]], shape: tuple[int, int], rng: np.random.Generator
) -> Tensor:
    total = torch.zeros(shape, dtype=torch.float64)
    for weight, (user, item) in zip(kernel.log_variance.exp(), roots, strict=True):
        white = torch.from_numpy(rng.standard_normal((user.shape[1], item.shape[1])))
        total += weight.sqrt() * (user @ white @ item.T)
    return total
