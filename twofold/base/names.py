"""Slips of the finger: the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

_ALIKE = 0.75  # share of a word that must be right; a worse hint sends people to another setting


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that differs least, if it is near enough to be a slip and long enough to be recognised."""
    limit = max(1, len(word) // 4)
    near = [c for c in candidates if len(c) > 2 and abs(len(c) - len(word)) <= limit]
    ranked = sorted((edit_distance(word, c, limit), abs(len(c) - len(word)), c) for c in near)
    return next((c for distance, _, c in ranked if _is_slip(word, c, distance)), None)


def _is_slip(word: str, candidate: str, distance: int) -> bool:
    """One slip in a word of three letters or more, or every part of a dotted name mostly right."""
    if distance == 1 and len(word) > 2:
        return True
    parts = list(zip(word.split("."), candidate.split("."), strict=False))
    return word.count(".") == candidate.count(".") and all(alike(*pair) >= _ALIKE for pair in parts)


def alike(one: str, other: str) -> float:
    """1 for the same word, 0 for one without a letter in its place."""
    return 1 - edit_distance(one, other) / max(len(one), len(other), 1)


def edit_distance(one: str, other: str, limit: int = 1_000_000) -> int:
    """Insertions, deletions, replacements and swaps that turn one word into the other; above `limit`, just more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(before) > limit:
            return limit + 1
    return row[-1]
