"""An ensemble of factorisation-machine networks (DeepFM) with heads for mean and variance of a rating."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import backward
from torch.nn import functional

from twofold.base.errors import UserError
from twofold.base.progress import tracked
from twofold.nets.mlp import MLP
from twofold.recsys.data import Array, Dataset, Features, Ratings
from twofold.recsys.truth import Factors, Matrix
from twofold.recsys.user_model import DENSE_CELLS, DeepFMConfig, UserModel


class Side(nn.Module):
    """Users or items: an embedding of the id, one of the features, and a bias."""

    def __init__(self, count: int, features: Features | None, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.id = nn.Parameter(0.05 * torch.randn(count, width, generator=generator))
        self.bias = nn.Parameter(torch.zeros(count))
        self.features = None if features is None else torch.from_numpy(features.values)
        if self.features is not None:
            columns = self.features.shape[1]
            self.of_features = nn.Parameter(0.05 * torch.randn(columns, width, generator=generator))
            self.feature_bias = nn.Parameter(torch.zeros(columns))

    def fields(self, rows: Tensor) -> list[Tensor]:
        """The field vectors [B, width] of these users or items."""
        found = [functional.embedding(rows, self.id)]
        if self.features is not None:
            found.append(self.features[rows] @ self.of_features)
        return found

    def linear(self, rows: Tensor) -> Tensor:
        """First-order terms, and the products among this side's own fields."""
        total = self.bias[rows]
        fields = self.fields(rows)
        if self.features is not None:
            total = total + self.features[rows] @ self.feature_bias + (fields[0] * fields[1]).sum(dim=-1)
        return total


class DeepFM(nn.Module):
    """Rating of (user, item): first-order terms + factorisation machine + network over all fields."""

    def __init__(self, data: Dataset, cfg: DeepFMConfig, offset: float, generator: torch.Generator) -> None:
        super().__init__()
        self.user = Side(data.users, data.user_features, cfg.feature_dim, generator)
        self.item = Side(data.items, data.item_features, cfg.feature_dim, generator)
        self.offset = nn.Parameter(torch.tensor(offset))
        fields = 2 + (data.user_features is not None) + (data.item_features is not None)
        inputs = fields * cfg.feature_dim
        self.deep = MLP(inputs, cfg.dnn, 1, generator=generator) if cfg.dnn else None
        self.log_variance = MLP(inputs, cfg.dnn_var, 1, generator=generator)

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance [B]."""
        ours, theirs = self.user.fields(users), self.item.fields(items)
        mean = self.offset + self.user.linear(users) + self.item.linear(items)
        mean = mean + (sum_of(ours) * sum_of(theirs)).sum(dim=-1)
        joined = torch.cat([*ours, *theirs], dim=-1)
        if self.deep is not None:
            mean = mean + self.deep(joined).squeeze(-1)
        return mean, self.log_variance(joined).squeeze(-1).clamp(-6, 4)


def sum_of(fields: list[Tensor]) -> Tensor:
    return fields[0] if len(fields) == 1 else fields[0] + fields[1]


def fit_deepfm(data: Dataset, cfg: DeepFMConfig, rng: np.random.Generator) -> UserModel:
    """Each member sees its own resample of the log; together they say what the log leaves open."""
    dense = data.users * data.items <= DENSE_CELLS
    if not dense and cfg.dnn:
        raise UserError(
            f"{data.users} users x {data.items} items are too many for full tables: set model.deepfm.dnn=[] "
            "(a plain factorisation machine, kept as factors)"
        )
    numbers = tracked(range(cfg.n_models), "learning the users", cfg.n_models)
    members = [_member(data, cfg, rng) for _ in numbers]
    noise = float(np.mean([_noise(member, data) for member in members]))
    if not dense:
        return _as_factors(members, data, noise)
    tables = [_tables(member, data) for member in members]
    means = np.clip(np.stack([mean for mean, _ in tables]), data.low, data.high)
    largest = np.sqrt(np.max([variance for _, variance in tables], axis=0))
    worlds = tuple(Matrix(mean.astype(np.float16)) for mean in means)
    return UserModel("deepfm", Matrix(means.mean(axis=0)), worlds, Matrix(largest.astype(np.float32)), noise)


def _member(data: Dataset, cfg: DeepFMConfig, rng: np.random.Generator) -> DeepFM:
    """One network, trained on its own bootstrap of the log."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    network = DeepFM(data, cfg, float(data.train.values.mean()), generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=cfg.lr, weight_decay=cfg.l2_reg)
    log, weights = data.train, rng.poisson(1.0, len(data.train)).astype(np.float32)
    for _ in range(cfg.epoch):
        for rows in np.array_split(rng.permutation(len(log)), max(1, len(log) // cfg.batch)):
            unseen = rng.integers(data.items, size=(cfg.neg_k, len(rows)))
            optimiser.zero_grad()
            backward(_loss(network, cfg, log.take(rows), weights[rows], unseen))
            optimiser.step()
    return network


def _loss(network: DeepFM, cfg: DeepFMConfig, log: Ratings, weights: Array, unseen: Array) -> Tensor:
    """Gaussian likelihood, and what `cfg.loss` adds: zeros for unrated items, or rated above unrated."""
    who, what = torch.from_numpy(log.users).long(), torch.from_numpy(log.items).long()
    goal, weight = torch.from_numpy(log.values), torch.from_numpy(weights)
    mean, log_variance = network(who, what)
    point: Tensor = (weight * ((mean - goal).square() / log_variance.exp() + log_variance)).mean()
    if cfg.loss == "point":
        return point
    others = torch.from_numpy(unseen)
    lower, other_variance = network(who.expand_as(others).reshape(-1), others.reshape(-1))
    if cfg.loss == "pointneg":
        zeros: Tensor = (lower.square() / other_variance.exp() + other_variance).mean()
        return point + zeros
    pair: Tensor = -(weight * functional.logsigmoid(mean - lower.view(others.shape))).mean()
    if cfg.loss == "pair":
        return pair + 0.01 * point  # a trace of the ratings keeps the scale
    return (1 - cfg.bpr_weight) * point + cfg.bpr_weight * pair


@torch.no_grad()
def _tables(network: DeepFM, data: Dataset) -> tuple[Array, Array]:
    """Mean and variance of all pairs [users, items]."""
    items = torch.arange(data.items)
    step = max(1, 1_000_000 // data.items)
    means, variances = [], []
    for start in range(0, data.users, step):
        users = torch.arange(start, min(start + step, data.users))
        pairs = users.repeat_interleave(data.items), items.repeat(len(users))
        mean, log_variance = network(*pairs)
        means.append(mean.view(-1, data.items).numpy())
        variances.append(log_variance.exp().view(-1, data.items).numpy())
    return np.vstack(means), np.vstack(variances)


@torch.no_grad()
def _noise(network: DeepFM, data: Dataset) -> float:
    rows = np.arange(min(len(data.train), 100_000))
    some = data.train.take(rows)
    mean, _ = network(torch.from_numpy(some.users).long(), torch.from_numpy(some.items).long())
    return float((mean.numpy() - some.values).std())


@torch.no_grad()
def _as_factors(members: list[DeepFM], data: Dataset, noise: float) -> UserModel:
    """A plain factorisation machine is a product of user and item factors: exact, and no table is needed."""
    found = []
    users, items = torch.arange(data.users), torch.arange(data.items)
    for member in members:
        user = torch.column_stack(
            [
                member.offset + member.user.linear(users),
                torch.ones(data.users),
                sum_of(member.user.fields(users)),
            ]
        )
        item = torch.column_stack(
            [torch.ones(data.items), member.item.linear(items), sum_of(member.item.fields(items))]
        )
        found.append(Factors(user.numpy(), item.numpy(), data.low, data.high, rounded=False))
    return UserModel("deepfm", found[0], tuple(found), None, noise)
