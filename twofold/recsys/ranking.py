"""How good a user model is: rating errors and ranking of the held-out ratings."""

from __future__ import annotations

import numpy as np

from twofold.recsys.data import Array, Dataset, Ratings
from twofold.recsys.truth import Factors, Matrix

Report = dict[str, dict[str, float]]  # part of the data -> metric -> value


def model_report(mean: Matrix | Factors, data: Dataset, cutoffs: tuple[int, ...] = (20, 10, 5)) -> Report:
    """Errors on train and test, and Recall, Precision, NDCG, HT, MAP, MRR at each cutoff on test."""
    report = {"train": errors(mean, data.train)}
    if data.test is not None and len(data.test):
        report["test"] = errors(mean, data.test)
        report["means"] = errors(item_means(data), data.test)
        if np.bincount(data.test.users).max() > 1:  # one item is always ranked first
            liked = data.low + 0.75 * (data.high - data.low)
            report["ranking"] = ranking(mean, data.test, liked, cutoffs)
    return report


def item_means(data: Dataset, strength: float = 10.0) -> Factors:
    """The plainest expectation: what an item got on average, moved by how much more the user gives than others."""
    log, overall = data.train, float(data.train.values.mean())
    counts = np.bincount(log.items, minlength=data.items)
    item = np.bincount(log.items, log.values - overall, minlength=data.items) / (counts + strength)
    rest = log.values - overall - item[log.items]
    user = np.bincount(log.users, rest, minlength=data.users) / (
        np.bincount(log.users, minlength=data.users) + strength
    )
    sides = (
        np.column_stack([overall + user, np.ones(data.users)]),
        np.column_stack([np.ones(data.items), item]),
    )
    return Factors(*sides, data.low, data.high, rounded=False)


def errors(table: Matrix | Factors, log: Ratings) -> dict[str, float]:
    """MAE, MSE and RMSE of predicted ratings."""
    off = table.at(log.users, log.items).astype(np.float64) - log.values
    mse = float(np.square(off).mean())
    return {"mae": float(np.abs(off).mean()), "mse": mse, "rmse": mse**0.5}


def ranking(
    table: Matrix | Factors, log: Ratings, liked: float, cutoffs: tuple[int, ...]
) -> dict[str, float]:
    """Means over the users who like something: items of their test log ranked by the prediction."""
    order = np.argsort(log.users, kind="stable")
    edges = np.flatnonzero(np.diff(log.users[order])) + 1
    found: dict[str, list[float]] = {}
    for rows in np.split(order, edges):
        hits = log.values[rows] >= liked
        if not hits.any():
            continue
        scores = table.at(log.users[rows], log.items[rows])
        ranked = hits[np.argsort(-scores, kind="stable")]
        for k in cutoffs:
            for name, value in at_cutoff(ranked, k).items():
                found.setdefault(f"{name}@{k}", []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def at_cutoff(ranked: Array, k: int) -> dict[str, float]:
    """Ranking metrics of one user: `ranked` [n] says which items, best predicted first, are liked."""
    top, liked = ranked[:k].astype(np.float64), int(ranked.sum())
    gains = 1.0 / np.log2(np.arange(len(top)) + 2)
    ideal = gains[: min(liked, len(top))].sum()
    precision = np.cumsum(top) / (np.arange(len(top)) + 1)
    first = np.flatnonzero(top)
    return {
        "recall": float(top.sum() / liked),
        "precision": float(top.sum() / k),
        "ndcg": float((top * gains).sum() / ideal),
        "hit": float(top.any()),
        "map": float((precision * top).sum() / min(liked, k)),
        "mrr": float(1.0 / (first[0] + 1)) if len(first) else 0.0,
    }
