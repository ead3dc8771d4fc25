"""Ratings as arrays, with a report of the rows that could not be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from twofold.base.errors import UserError
from twofold.core.experience import Array as Array

if TYPE_CHECKING:
    from twofold.recsys.truth import Factors, Matrix


@dataclass(frozen=True)
class Features:
    """One row of numbers per user or item, with the name of each column ("colour:red")."""

    values: Array  # float32 [n, f]
    names: tuple[str, ...]

    def describe(self, row: int) -> list[str]:
        """The names of the columns that are set for this row."""
        return [name for name, value in zip(self.names, self.values[row], strict=True) if value != 0]


@dataclass(frozen=True)
class Ratings:
    """A log of who rated what: ids are dense integers, the names are what the file called them."""

    users: Array  # int32 [n]
    items: Array  # int32 [n]
    values: Array  # float32 [n]
    times: Array | None  # float64 [n]
    user_names: tuple[str, ...]
    item_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Array) -> Ratings:
        """The same tables with only these rows of the log."""
        times = None if self.times is None else self.times[rows]
        return replace(
            self, users=self.users[rows], items=self.items[rows], values=self.values[rows], times=times
        )

    def without_last(self) -> tuple[Ratings, Ratings]:
        """Two logs: all but each user's last rating, and those; a user with one rating keeps it."""
        times = np.arange(len(self)) if self.times is None else np.nan_to_num(self.times)
        order = np.lexsort((np.arange(len(self)), times, self.users))
        users = self.users[order]
        last = np.append(users[1:] != users[:-1], True)
        several = np.insert(users[1:] == users[:-1], 0, False)
        hidden = np.zeros(len(self), bool)
        hidden[order[last & several]] = True
        return self.take(np.flatnonzero(~hidden)), self.take(np.flatnonzero(hidden))

    def before(self, share: float) -> tuple[Ratings, Ratings]:
        """Two logs: what was rated before the moment that leaves `share` of the rows after it, and the rest."""
        if self.times is None:
            raise UserError("a split by time needs times: env_args.split=last or random")
        moment = np.nanquantile(self.times, 1 - share)
        later = np.nan_to_num(self.times, nan=-np.inf) > moment
        return self.take(np.flatnonzero(~later)), self.take(np.flatnonzero(later))

    def split(self, share: float, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        """Two logs: a random `1 - share` of the rows and the rest."""
        order = rng.permutation(len(self))
        cut = round(len(self) * (1 - share))
        return self.take(np.sort(order[:cut])), self.take(np.sort(order[cut:]))


@dataclass(frozen=True)
class Dataset:
    """All that is known of a catalogue and its users; `truth` is for evaluation only."""

    name: str
    train: Ratings
    low: float  # the smallest rating that can be given
    high: float
    test: Ratings | None = None
    truth: Matrix | Factors | None = None  # None where the true users are unknown
    propensities: Array | None = None  # [users, items]: chance that the log holds this pair
    user_features: Features | None = None
    item_features: Features | None = None
    categories: Array | None = None  # int32 [items, c], -1 pads
    item_titles: tuple[str, ...] | None = None
    report: BadRows | None = None

    @property
    def users(self) -> int:
        return len(self.train.user_names)

    @property
    def items(self) -> int:
        return len(self.train.item_names)


REASONS = {
    "missing id": "left out",
    "not a number": "left out",
    "out of range": "left out",
    "duplicate pair": "the last one kept",
    "too few columns": "left out",
    "too many columns": "left out",
    "time not understood": "kept, without its time",
}


@dataclass
class BadRows:
    """How many rows were unusable, which lines, and what was done about them."""

    source: str
    rows: int = 0  # all rows read
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, line: int) -> None:
        self.lines.setdefault(reason, []).append(line)

    def add_rows(self, reason: str, lines: Array) -> None:
        """Many rows of one kind."""
        if len(lines):
            self.lines.setdefault(reason, []).extend(lines.tolist())

    def count(self, reason: str) -> int:
        return len(self.lines.get(reason, ()))

    @property
    def total(self) -> int:
        return sum(len(lines) for lines in self.lines.values())

    def text(self, most: int = 5) -> str:
        """One line per kind of mistake, with the first line numbers."""
        if not self.rows:
            return f"{self.source}: no row after the first line, which names the columns"
        if not self.total:
            return f"{self.source}: {self.rows} rows, all usable"
        found = [f"{self.source}: {self.rows} rows, {self.total} not used as they stand"]
        for reason, lines in sorted(self.lines.items()):
            shown = ", ".join(map(str, lines[:most])) + (", ..." if len(lines) > most else "")
            found.append(f"  {len(lines)} x {reason} ({REASONS[reason]}): lines {shown}")
        return "\n".join(found)


def table(
    records: Iterable[tuple[int, Sequence[str]]],
    source: str,
    bounds: tuple[float, float] | None = None,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> tuple[Ratings, BadRows]:
    """Ratings from (line number, [user, item, rating[, time]]) records; unusable ones are reported.

    `names` fixes the user and item tables (for a test file that must share the ids of the train file).
    """
    report = BadRows(source)
    kept: dict[tuple[str, str], tuple[int, float, float]] = {}
    for line, record in records:
        report.rows += 1
        reason = _fault(record, bounds)
        if reason is not None:
            report.add(reason, line)
            continue
        pair = (record[0].strip(), record[1].strip())
        if pair in kept:
            report.add("duplicate pair", kept.pop(pair)[0])
        kept[pair] = (line, float(record[2]), _time(record))
    if not kept:
        raise UserError(f"no usable rating in {source}\n{report.text()}")
    users, user_names = _ids([pair[0] for pair in kept], names[0] if names else None)
    items, item_names = _ids([pair[1] for pair in kept], names[1] if names else None)
    numbers = np.array(list(kept.values()), np.float64)
    times = None if np.isnan(numbers[:, 2]).all() else numbers[:, 2]
    return Ratings(users, items, numbers[:, 1].astype(np.float32), times, user_names, item_names), report


def _fault(record: Sequence[str], bounds: tuple[float, float] | None) -> str | None:
    """Why this record cannot be used, or None."""
    if len(record) < 3:
        return "too few columns"
    if not record[0].strip() or not record[1].strip():
        return "missing id"
    try:
        value = float(record[2])
    except ValueError:
        return "not a number"
    if not np.isfinite(value):
        return "not a number"
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        return "out of range"
    return None


def _time(record: Sequence[str]) -> float:
    try:
        return float(record[3])
    except (IndexError, ValueError):
        return float("nan")


def _order(name: str) -> tuple[int, int, str]:
    """Numbers in the order of their size, before words in theirs; "7" and "07" are two names of one size."""
    return (0, int(name), name) if name.isdecimal() and len(name) <= 40 else (1, 0, name)


def _ids(names: list[str], known: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
    """Dense ids of names: integers in numeric order, words in alphabetical order, or as `known` says."""
    ordered = tuple(known) if known is not None else tuple(sorted(set(names), key=_order))
    place = {name: index for index, name in enumerate(ordered)}
    if unknown := [name for name in names if name not in place]:
        raise UserError(f"id '{unknown[0]}' is not in the catalogue ({len(unknown)} such ids)")
    return np.array([place[name] for name in names], np.int32), ordered


def dense_ids(codes: Array, names: Sequence[str]) -> tuple[Array, tuple[str, ...]]:
    """Dense ids of numbered names, in the order of the names; names that no code uses get none."""
    used = np.unique(codes)
    ordered = sorted(used.tolist(), key=lambda code: _order(names[code]))
    place = np.zeros(len(names), np.int32)
    place[ordered] = np.arange(len(ordered))
    return place[codes], tuple(names[code] for code in ordered)


def from_matrix(matrix: Array) -> Ratings:
    """The ratings of a matrix whose zeros mean "not rated"."""
    users, items = np.nonzero(matrix)
    return Ratings(
        users.astype(np.int32),
        items.astype(np.int32),
        matrix[users, items].astype(np.float32),
        None,
        tuple(str(index) for index in range(matrix.shape[0])),
        tuple(str(index) for index in range(matrix.shape[1])),
    )


def category_table(groups: Sequence[Sequence[int]]) -> Array:
    """Lists of category numbers as one padded array int32 [items, most]."""
    width = max((len(group) for group in groups), default=1)
    padded = np.full((len(groups), max(width, 1)), -1, np.int32)
    for row, group in enumerate(groups):
        padded[row, : len(group)] = group
    return padded


def dominant_categories(data: Dataset, share: float, liked: float) -> Array:
    """The categories that together make up `share` of the positive training ratings (rating >= liked)."""
    if data.categories is None:
        raise UserError(f"the data '{data.name}' has no item categories")
    found = data.categories[data.train.items[data.train.values >= liked]]
    counts = np.bincount(found[found >= 0], minlength=int(data.categories.max()) + 1)
    order = np.argsort(-counts, kind="stable")
    reached = np.cumsum(counts[order]) / max(counts.sum(), 1)
    return order[: int(np.searchsorted(reached, share)) + 1]
