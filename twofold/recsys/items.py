"""From a point in the item space to items: normalised dot products, masks, chunked scoring."""

from __future__ import annotations

import numpy as np

from twofold.recsys.data import Array

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
        return np.asarray(scores.argmax(axis=1)[:, None])
    if k > _FEW:
        return _sorted(scores, k)
    # A few times the largest is twice as fast as a partition.
    before = scores
    scores = np.array(scores)  # in one piece, and not the caller's
    flat, starts = scores.reshape(-1), np.arange(len(scores)) * scores.shape[1]
    found = np.empty((len(scores), k), np.int64)
    for place in range(k):
        found[:, place] = best = scores.argmax(axis=1)
        best += starts
        lowest = flat[best]
        flat[best] = -np.inf
    return found if (lowest > -np.inf).all() else _sorted(before, k)


def _sorted(scores: Array, k: int) -> Array:
    some = (
        np.argpartition(-scores, k - 1, axis=1)[:, :k] if k < scores.shape[1] else np.argsort(-scores, axis=1)
    )
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)
