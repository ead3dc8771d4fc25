"""What a user takes who was never seen: what those took who also took the items of the history."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from twofold.recsys.data import Array
from twofold.recsys.labels import Labels
from twofold.recsys.seen import Listed
from twofold.recsys.taking import Taking

History = tuple[Sequence[int], Sequence[float]]  # items, oldest first, and their ratings
# Chosen on the ratings before the hidden ones of MovieLens-100k: benchmarks/results/recsys/recsys_recall.md.
NEWEST = 5  # items of a history that tell what comes next
BY_RATING = True  # not all alike: who hates what a history holds should not get more of it
_KEPT = 500  # items whose likeness to all others is remembered


class Strangers:
    """Item-kNN over who rated what, as far as a policy file knows it; disliked items hardly count."""

    def __init__(self, labels: Labels, items: int, newest: int = NEWEST, by_rating: bool = BY_RATING) -> None:
        self.newest, self.by_rating = newest, by_rating
        self.low, self.span, self.items = labels.low, labels.high - labels.low, items
        sizes = np.diff(labels.rated_ends, prepend=0)
        self._begins, self._ends = labels.rated_ends - sizes, labels.rated_ends
        self._rated = labels.rated_items
        order = np.argsort(labels.rated_items, kind="stable")
        self._raters = np.repeat(np.arange(len(sizes)), sizes)[order]  # item by item
        counts = np.bincount(labels.rated_items, minlength=items)
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self._norms = np.sqrt(np.maximum(counts, 1)).astype(np.float32)
        self._known: OrderedDict[int, Array] = OrderedDict()

    def lists(self, taking: Taking, users: Array, told: Mapping[int, History]) -> Listed:
        """What users [n] take most likely: by number, but for rows of strangers, who tell it by their histories."""
        items, scores = taking.rows(users)
        usual = taking.scores[:-1, 0].mean()  # the likeliest item of those who are known
        for row, (history, ratings) in told.items():
            found = self.scores(history, ratings)
            best = np.argsort(-found, kind="stable")[: taking.size]
            if found[best[0]] > 0:
                items[row], scores[row] = best, found[best] / found[best[0]] * usual
        return items, scores

    def scores(self, history: Sequence[int], ratings: Sequence[float]) -> Array:
        """How likely each item is taken next, in no unit: float32 [items], 0 for those of the history."""
        newest = list(zip(history, ratings, strict=True))[-self.newest :]
        found: Array = np.zeros(self.items, np.float32)
        for item, rating in newest:
            liked = (rating - self.low) / self.span if self.span and self.by_rating else 1.0
            found += np.float32(liked) * self._like(item)
        found[list(history)] = 0.0
        return found

    def _like(self, item: int) -> Array:
        """The cosine of who rated this item and who rated each other: float32 [items]."""
        if item not in self._known:
            if len(self._known) >= _KEPT:
                self._known.popitem(last=False)
            self._known[item] = self._cosines(item)
        return self._known[item]

    def _cosines(self, item: int) -> Array:
        raters = self._raters[self._starts[item] : self._starts[item + 1]]
        spans = [self._rated[self._begins[user] : self._ends[user]] for user in raters.tolist()]
        both = np.bincount(np.concatenate([*spans, self._rated[:0]]), minlength=self.items)
        return np.asarray(both / (self._norms * self._norms[item]), np.float32)
