"""Recommenders of the field that learn from the log alone: popularity by count, item-kNN, EASE, SASRec."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from twofold.recsys.data import Array, Ratings
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.trackers import SASRec

Scores = Callable[[Array], Array]  # user numbers [n] -> a score of every item [n, items], the best is highest
MOST_ITEMS = 15_000  # item by item tables of more take gigabytes
_ROWS = 1000


def taken(log: Ratings, users: Array) -> Array:
    """1 where the user has rated the item: float32 [n, items]."""
    found = np.zeros((len(users), len(log.item_names)), np.float32)
    place = np.full(len(log.user_names), -1)
    place[users] = np.arange(len(users))
    rows = np.flatnonzero(place[log.users] >= 0)
    found[place[log.users[rows]], log.items[rows]] = 1.0
    return found


def _blocks(log: Ratings) -> Iterator[Array]:
    """All users' rows of `taken`, some at a time."""
    every = np.arange(len(log.user_names))
    return (taken(log, every[start : start + _ROWS]) for start in range(0, len(every), _ROWS))


def together(log: Ratings) -> Array:
    """How many users rated both of two items: float64 [items, items]."""
    count = len(log.item_names)
    total = np.zeros((count, count))
    for block in _blocks(log):
        total += block.T @ block
    return total


def popularity_by_count(log: Ratings) -> Scores:
    """The items that most users rated."""
    counts = np.bincount(log.items, minlength=len(log.item_names)).astype(np.float32)
    return lambda users: np.tile(counts, (len(users), 1))


def at_random(log: Ratings, seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    return lambda users: rng.random((len(users), len(log.item_names)), np.float32)


def item_knn(log: Ratings, neighbours: int = 100) -> Scores:
    """Items like those of the user by the cosine of who rated them, the nearest of each counting alone."""
    both = together(log)
    norms = np.sqrt(np.maximum(np.diag(both), 1.0))
    like = both / norms[:, None] / norms
    np.fill_diagonal(like, 0.0)
    if neighbours < len(like):
        least = np.partition(like, -neighbours, axis=0)[-neighbours]
        like[like < least] = 0.0
    weights = like.astype(np.float32)
    return lambda users: taken(log, users) @ weights


def ease_weights(log: Ratings, ridge: float = 300.0) -> Array:
    """Item by item weights with a zero diagonal, in closed form (Steck 2019): float32 [items, items]."""
    gram = together(log)
    gram[np.diag_indices(len(gram))] += ridge
    precision = np.linalg.inv(gram)
    weights = precision / -np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights.astype(np.float32)


def ease(log: Ratings, ridge: float = 300.0) -> Scores:
    weights = ease_weights(log, ridge)
    return lambda users: taken(log, users) @ weights


class NextItem(nn.Module):
    """Self-attention over the last items of a user -> a score of every item as the next one."""

    def __init__(self, items: int, window: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        cfg = ItemNetConfig(tracker="sasrec", window_size=window, embedding_dim=width, dropout_rate=0.2)
        # The last vector stands for no item.
        self.vectors = nn.Parameter(0.05 * torch.randn(items + 1, width, generator=generator))
        self.body = SASRec(cfg, width, generator)

    def forward(self, window: torch.Tensor, rng: np.random.Generator | None = None) -> torch.Tensor:
        """Items [B, W], the number of items where there is none -> scores [B, items]."""
        none = len(self.vectors) - 1
        there = (window != none).unsqueeze(2).float()
        state = self.body(functional.embedding(window, self.vectors) * there, there, rng)
        scores: torch.Tensor = state @ self.vectors[:none].T
        return scores


def sequences(log: Ratings) -> tuple[Array, Array]:
    """The items of all users in the order of time, and where each user's begin [users + 1]."""
    times = np.arange(len(log)) if log.times is None else np.nan_to_num(log.times)
    order = np.lexsort((np.arange(len(log)), times, log.users))
    starts = np.searchsorted(log.users[order], np.arange(len(log.user_names) + 1))
    return log.items[order].astype(np.int64), starts


def _windows(items: Array, begins: Array, ends: Array, window: int, none: int) -> Array:
    """The last `window` items before each end, the number `none` where there is no more [n, window]."""
    places = ends[:, None] - window + np.arange(window)
    return np.where(places >= begins[:, None], items[np.maximum(places, 0)], none)


def sasrec(
    log: Ratings, *, steps: int | None = None, window: int = 50, width: int = 64, seed: int = 0
) -> Scores:
    """SASRec (Kang and McAuley 2018) with a softmax over all items, trained to say the next item of random places."""
    items, starts = sequences(log)
    # Two passes over the log, within what is neither too little to learn nor minutes.
    steps = int(np.clip(len(log) // 128, 100, 3000)) if steps is None else steps
    count, rng = len(log.item_names), np.random.default_rng(seed)
    network = NextItem(count, window, width, torch.Generator().manual_seed(seed))
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    begins = np.repeat(starts[:-1], np.diff(starts))
    after_first = np.flatnonzero(np.arange(len(items)) > begins)
    for _ in range(steps if len(after_first) else 0):
        places = rng.choice(after_first, 256)
        seen = torch.from_numpy(_windows(items, begins[places], places, window, count))
        loss = functional.cross_entropy(network(seen, rng), torch.from_numpy(items[places]))
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()

    @torch.no_grad()
    def scores(users: Array) -> Array:
        seen = _windows(items, starts[:-1][users], starts[1:][users], window, count)
        return np.asarray(network(torch.from_numpy(seen)).numpy())

    return scores


def peers(log: Ratings) -> dict[str, Scores]:
    """Every peer that fits into memory, fitted to the log."""
    found = {"random": at_random(log), "popularity by count": popularity_by_count(log)}
    if len(log.item_names) > MOST_ITEMS:
        return found
    return found | {"item-kNN": item_knn(log), "EASE": ease(log), "SASRec": sasrec(log)}
