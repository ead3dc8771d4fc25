"""What users take, whatever they then feel about it: the second head of a user model, from which items were rated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twofold.base.errors import UserError
from twofold.recsys.data import Array, Ratings
from twofold.recsys.peers import MOST_ITEMS, ease_weights, taken

_ROWS = 1000


@dataclass(frozen=True)
class Taking:
    """For each user the items most likely to be taken next, best first; the last row is for a user never seen."""

    items: Array  # int64 [users + 1, m]
    scores: Array  # float32 [users + 1, m]: about the chance that the item is in a log like the user's

    @property
    def size(self) -> int:
        return int(self.items.shape[1])

    def of(self, users: Array, items: Array) -> Array:
        """The scores of items [n, k] for users [n]; 0 for what is not among the likeliest."""
        same = items[:, :, None] == self.items[users][:, None]
        return np.asarray(np.einsum("nkm,nm->nk", same, self.scores[users]), np.float32)


def fit_taking(log: Ratings, size: int, ridge: float) -> Taking:
    """The likeliest new items of every user by EASE; of a user never seen, those that most users rated."""
    count = len(log.item_names)
    if count > MOST_ITEMS:
        raise UserError(
            f"reward=taken compares all pairs of items: at most {MOST_ITEMS} items, there are {count}"
        )
    weights, size = ease_weights(log, ridge), min(size, count)
    users = np.arange(len(log.user_names))
    parts = [
        _likeliest(log, users[start : start + _ROWS], weights, size) for start in range(0, len(users), _ROWS)
    ]
    share = np.bincount(log.items, minlength=count) / len(users)
    most = np.argsort(-share, kind="stable")[:size]
    items = np.vstack([*(items for items, _ in parts), most])
    scores = np.vstack([*(scores for _, scores in parts), share[most]])
    return Taking(items.astype(np.int64), scores.astype(np.float32))


def _likeliest(log: Ratings, users: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """Items and scores [n, size] of some users; what they have rated is no news."""
    seen = taken(log, users)
    scores = np.where(seen > 0, -np.inf, seen @ weights)
    items = np.argsort(-scores, axis=1, kind="stable")[:, :size]
    return items, np.clip(np.take_along_axis(scores, items, axis=1), 0.0, 1.0)
