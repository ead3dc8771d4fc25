"""From a point in the item space to items: normalised dot products, masks, chunked scoring."""

from __future__ import annotations

import numpy as np

from .data import Array

CHUNK = 20_000  # items scored at once; bounds memory for large catalogues
_FEW = 16  # up to so many, the best are found one after another


def best_items(points: Array, vectors: Array, blocked: Array, k: int = 1, chunk: int = CHUNK) -> Array:
    """The k items whose unit vectors point most nearly the way of each point, best first: int [N, k].

    `blocked` [N, b] are item numbers that cannot be chosen, -1 pads.
    """
    scores: list[Array] = []
    found: list[Array] = []
    for start in range(0, len(vectors), chunk):
        part = masked_scores(points, vectors[start : start + chunk], blocked - start)
        top = largest(part, min(k, part.shape[1]))
        scores.append(np.take_along_axis(part, top, axis=1))
        found.append(top + start)
    if len(found) == 1:
        return found[0]
    all_scores, all_found = np.hstack(scores), np.hstack(found)
    return np.take_along_axis(all_found, largest(all_scores, k), axis=1)


def masked_scores(points: Array, vectors: Array, blocked: Array) -> Array:
    """Dot products [N, items] with minus infinity where an item is blocked."""
    scores = points @ vectors.T
    rows, columns = np.nonzero((blocked >= 0) & (blocked < len(vectors)))
    scores[rows, blocked[rows, columns]] = -np.inf
    return np.asarray(scores)


def largest(scores: Array, k: int) -> Array:
    """Columns [N, k] of the k largest scores, best first; ties go to the smaller column."""
    if k == 1:
        return scores.argmax(axis=1)[:, None]  # type: ignore[no-any-return]
    if k > _FEW:
        return _sorted(scores, k)
    # A few times the largest is twice as fast as a partition.
    rows = np.arange(len(scores))
    found, values = np.empty((k, len(scores)), np.int64), np.empty((k, len(scores)), scores.dtype)
    for place in range(k):
        found[place] = scores.argmax(axis=1)
        values[place] = scores[rows, found[place]]
        scores[rows, found[place]] = -np.inf
    scores[rows, found[::-1]] = values[::-1]
    return np.ascontiguousarray(found.T) if values[-1].min() > -np.inf else _sorted(scores, k)


def _sorted(scores: Array, k: int) -> Array:
    some = (
        np.argpartition(-scores, k - 1, axis=1)[:, :k] if k < scores.shape[1] else np.argsort(-scores, axis=1)
    )
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def reachable(
    vectors: Array, low: float, high: float, rng: np.random.Generator, tries: int = 100_000
) -> Array:
    """Which items can win the arg-max for some action in the box [low, high]^d: bool [items].

    Each item's own direction is tried first, cut to the box; then random points of the box.
    """
    won = np.zeros(len(vectors), bool)
    none = np.full((1, 1), -1)
    for points in (np.clip(vectors, low, high), np.sign(vectors).clip(low, high)):
        winners = best_items(points, vectors, np.repeat(none, len(points), axis=0))[:, 0]
        won[winners] = True
    for _ in range(max(1, tries // 10_000)):
        points = rng.uniform(low, high, (10_000, vectors.shape[1])).astype(np.float32)
        won[best_items(points, vectors, np.repeat(none, len(points), axis=0))[:, 0]] = True
    return won
