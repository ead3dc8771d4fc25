"""What users really did judges: ranking of the ratings that were hidden, and the error of expected ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from twofold.base.statistics import half_interval
from twofold.recsys.asking import Question
from twofold.recsys.data import Array, Dataset, Ratings
from twofold.recsys.peers import Scores, taken
from twofold.recsys.recommend import Recommender
from twofold.recsys.truth import Factors, Matrix

Lists = Callable[[Array, int], Array]  # user numbers [n], k -> items [n, k], -1 where the list ends
_ROWS = 500


@dataclass(frozen=True)
class Judged:
    """A metric for each user, or for the lists as a whole (`half` is then 0)."""

    mean: float
    half: float  # of the 95 % interval over users
    values: Array = field(default_factory=lambda: np.zeros(0))  # of each user


Verdict = dict[str, Judged]  # metric -> value


def of_scores(scores: Scores, log: Ratings) -> Lists:
    """Lists by scores, items of the log left out."""

    def lists(users: Array, k: int) -> Array:
        parts = []
        for start in range(0, len(users), _ROWS):
            some = users[start : start + _ROWS]
            found = np.where(taken(log, some) > 0, -np.inf, scores(some))
            best = np.argsort(-found, axis=1, kind="stable")[:, :k]
            parts.append(np.where(np.isfinite(np.take_along_axis(found, best, axis=1)), best, -1))
        return np.concatenate(parts)

    return lists


def of_policy(policy: Recommender, log: Ratings) -> Lists:
    """Lists as a policy serves them; it knows of each user what is in the log, and nothing that is hidden."""
    names = log.item_names
    order = np.argsort(log.users, kind="stable")
    edges = np.searchsorted(log.users[order], np.arange(len(log.user_names) + 1))

    def lists(users: Array, k: int) -> Array:
        rated = [[names[item] for item in log.items[order[edges[u] : edges[u + 1]]]] for u in users.tolist()]
        asked = [
            Question(log.user_names[user], rated=True, without=own)
            for user, own in zip(users.tolist(), rated, strict=True)
        ]
        return policy.answers(asked, k).items

    return lists


def judge(lists: Lists, data: Dataset, k: int = 10, liked: float | None = None) -> Verdict:
    """Recall and NDCG of the hidden items (only those rated at least `liked`), coverage and novelty of the lists."""
    users, targets = hidden_items(data, liked)
    found = lists(users, k)
    hits = np.array([np.isin(row, own) for row, own in zip(found, targets, strict=True)])
    gains = 1.0 / np.log2(np.arange(k) + 2)
    sizes = np.array([len(own) for own in targets])
    ideal = np.cumsum(gains)[np.minimum(sizes, k) - 1]
    shown = found[found >= 0]
    counts = np.bincount(data.train.items, minlength=data.items)
    novelty = -np.log2((counts + 1) / (data.users + 1))
    return {
        f"recall@{k}": _over_users(hits.sum(axis=1) / sizes),
        f"ndcg@{k}": _over_users((hits * gains).sum(axis=1) / ideal),
        "coverage": Judged(len(np.unique(shown)) / data.items, 0.0),
        "novelty": _over_users(
            np.where(found >= 0, novelty[found], 0).sum(axis=1) / np.maximum((found >= 0).sum(axis=1), 1)
        ),
    }


def hidden_items(data: Dataset, liked: float | None = None) -> tuple[Array, list[Array]]:
    """The users of whom something is hidden, and the hidden items of each."""
    if data.test is None or not len(data.test):
        raise ValueError(f"nothing of '{data.name}' is hidden")
    test = data.test if liked is None else data.test.take(np.flatnonzero(data.test.values >= liked))
    order = np.argsort(test.users, kind="stable")
    users, starts = np.unique(test.users[order], return_index=True)
    return users.astype(np.int64), np.split(test.items[order], starts[1:])


def _over_users(values: Array) -> Judged:
    return Judged(float(values.mean()), _half(values), values)


def _half(values: Array) -> float:
    return half_interval(float(values.std(ddof=1)) if len(values) > 1 else 0.0, len(values))


def difference(one: Array, other: Array) -> tuple[float, float]:
    """Mean difference of two policies over the same users, and half its 95 % interval."""
    return float((one - other).mean()), _half(one - other)


def errors(expected: Matrix | Factors, data: Dataset) -> Verdict:
    """RMSE of expected ratings on the hidden ones, over users, and how far off they are bin by bin."""
    assert data.test is not None
    test = data.test
    guess = expected.at(test.users, test.items).astype(np.float64)
    squares = np.square(guess - test.values)
    per_user = np.bincount(test.users, squares) / np.maximum(np.bincount(test.users), 1)
    seen = np.unique(test.users)
    rmse = float(np.sqrt(squares.mean()))
    # By the delta method: the interval of the mean square, over twice its root.
    half = _half(per_user[seen]) / (2 * max(rmse, 1e-9))
    return {
        "rmse": Judged(rmse, half),
        "calibration": Judged(_off(guess, test.values), 0.0),
    }


def _off(guess: Array, values: Array, bins: int = 10) -> float:
    """Mean distance of expected and given ratings over ten bins of equal size."""
    parts = np.array_split(np.argsort(guess, kind="stable"), min(bins, len(guess)))
    return float(np.mean([abs(guess[part].mean() - values[part].mean()) for part in parts]))
