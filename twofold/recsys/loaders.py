"""Readers of Coat, Yahoo! R3, MovieLens, KuaiRec and KuaiRand files, and of any CSV or Parquet."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from twofold.base.errors import UserError
from twofold.base.foreign_json import parse_json
from twofold.base.regular import files_below, is_there, read_text
from twofold.recsys.data import Array, BadRows, Dataset, Features, Ratings, category_table, from_matrix, table
from twofold.recsys.opening import explained, opened_text
from twofold.recsys.reading import ColumnsConfig, places, read_features, read_ratings
from twofold.recsys.truth import Matrix

Records = Iterator[tuple[int, Sequence[str]]]


def load(kind: str, path: Path, columns: ColumnsConfig | None = None) -> Dataset:
    """The data set of this format at `path` (a file for `ratings`, else a folder of published files)."""
    if not is_there(path):
        raise UserError(f"no {kind} data at '{path}': set env_args.path to where its files are")
    if kind == "ratings":
        return ratings(path, columns)
    with explained(path):
        return FORMATS[kind](path)


def ratings(path: Path, columns: ColumnsConfig | None = None) -> Dataset:
    """A CSV, TSV (also .gz) or Parquet file of users, items, ratings and optionally times and titles.

    Beside it may lie tables of features: NAME.users.csv, NAME.items.csv, or movies.csv; their first column is the id.
    """
    train, report, titles = read_ratings(path, columns)
    stem = path.name.split(".")[0]
    user_features, _ = _beside(path, (f"{stem}.users.csv",), train.user_names)
    item_features, more = _beside(path, (f"{stem}.items.csv", "items.csv", "movies.csv"), train.item_names)
    titles |= more
    return Dataset(
        name=stem,
        train=train,
        low=float(train.values.min()),
        high=float(train.values.max()),
        user_features=user_features,
        item_features=item_features,
        item_titles=tuple(titles.get(name, name) for name in train.item_names) if titles else None,
        report=report,
    )


def _beside(
    path: Path, names: tuple[str, ...], ids: tuple[str, ...]
) -> tuple[Features | None, dict[str, str]]:
    """The first of these tables that lies beside a file."""
    found = next((path.with_name(name) for name in names if is_there(path.with_name(name))), None)
    if found is None:
        return None, {}
    with explained(found):
        return read_features(found, ids)


def coat(folder: Path) -> Dataset:
    """Coat: self-selected and random ratings, propensities, one-hot features, ground truth."""
    truth = folder / "ground_truth.ascii"
    item_features = _one_hot(folder, "item")
    return Dataset(
        name="coat",
        train=from_matrix(_numbers(folder / "train.ascii")),
        test=from_matrix(_numbers(folder / "test.ascii")),
        low=1.0,
        high=5.0,
        truth=Matrix(_numbers(truth, np.float32)) if is_there(truth) else None,
        propensities=_optional(folder / "propensities.ascii"),
        user_features=_one_hot(folder, "user"),
        item_features=item_features,
        categories=_flags_to_categories(item_features, "jackettype:"),
    )


def yahoo(folder: Path) -> Dataset:
    """Yahoo! R3: tab separated user, song, rating; self-selected train file, random test file."""
    train_path, test_path = _find(folder, "*train.txt"), _find(folder, "*test.txt")
    train, report = table(_lines(train_path, "\t"), train_path.name, (1, 5))
    test = _same_tables(_lines(test_path, "\t"), test_path.name, (1, 5), train)
    return Dataset("yahoo", train, 1.0, 5.0, test=test, report=report)


def movielens(folder: Path) -> Dataset:
    """MovieLens-100k (u.data), MovieLens-1M (ratings.dat) or RecBole's atomic files (*.inter)."""
    if is_there(folder / "u.data"):
        return _movielens_100k(folder)
    if is_there(folder / "ratings.dat"):
        return _movielens_1m(folder)
    return _atomic(folder)


def _movielens_100k(folder: Path) -> Dataset:
    train, report = table(_lines(folder / "u.data", "\t"), "u.data", (1, 5))
    rows = {row[0]: row for _, row in _lines(folder / "u.item", "|", "latin-1")}
    genres = [[g for g, flag in enumerate(rows[name][-19:]) if flag == "1"] for name in train.item_names]
    titles = tuple(rows[name][1] for name in train.item_names)
    return _with_genres(Dataset("ml-100k", train, 1.0, 5.0, item_titles=titles, report=report), genres, None)


def _movielens_1m(folder: Path) -> Dataset:
    train, report = table(_lines(folder / "ratings.dat", "::"), "ratings.dat", (1, 5))
    rows = {row[0]: row for _, row in _lines(folder / "movies.dat", "::", "latin-1")}
    words = [rows[name][2].strip().split("|") for name in train.item_names]
    titles = tuple(rows[name][1] for name in train.item_names)
    data = Dataset("ml-1m", train, 1.0, 5.0, item_titles=titles, report=report)
    return _with_genres(data, *_numbered(words))


def _atomic(folder: Path) -> Dataset:
    path = _find(folder, "*.inter")
    train, report = table(_delimited(path, "\t"), path.name)
    data = Dataset(path.stem, train, float(train.values.min()), float(train.values.max()), report=report)
    item_path = path.with_suffix(".item")
    if not is_there(item_path):
        return data
    lines = _lines(item_path, "\t")
    header = [name.split(":")[0] for name in next(lines)[1]]
    rows = {row[0]: row for _, row in lines}
    title = next((header.index(name) for name in header if "title" in name), 0)
    genre = next((header.index(name) for name in ("class", "genre", "genres") if name in header), None)
    data = replace(data, item_titles=tuple(rows[name][title] for name in train.item_names))
    if genre is None:
        return data
    return _with_genres(data, *_numbered([rows[name][genre].split() for name in train.item_names]))


def kuairec(folder: Path) -> Dataset:
    """KuaiRec: big_matrix.csv trains, small_matrix.csv tests; reward is the watch ratio up to 5."""
    train, report = _clipped(
        _delimited(_find(folder, "big_matrix.csv"), want="watch_ratio"), "big_matrix.csv"
    )
    test = _same_tables(_delimited(_find(folder, "small_matrix.csv"), want="watch_ratio"), "small_matrix.csv",
                        None, train)  # fmt: skip
    path = _find(folder, "item_categories.csv")
    groups = {row[0]: _categories(row[1], path) for _, row in _body(path)}
    data = Dataset(
        "kuairec", train, 0.0, 5.0, test=replace(test, values=np.clip(test.values, 0, 5)), report=report
    )
    return replace(data, categories=category_table([groups.get(name, []) for name in train.item_names]))


def kuairand(folder: Path) -> Dataset:
    """KuaiRand-Pure: standard logs train, the random log tests; reward is the click."""
    logs = _found(folder, "log_standard*.csv")
    if not logs:
        raise UserError(f"no log_standard*.csv below '{folder}'")
    records = ((line, row) for path in logs for line, row in _delimited(path, want="is_click"))
    train, report = table(records, "log_standard*.csv", (0, 1))
    test = _same_tables(
        _delimited(_find(folder, "log_random*.csv"), want="is_click"), "log_random", (0, 1), train
    )
    tags = _column(_find(folder, "video_features_basic*.csv"), "tag")
    groups = [
        [int(tag) for tag in tags.get(name, "").split(",") if tag.isdecimal()] for name in train.item_names
    ]
    return Dataset("kuairand", train, 0.0, 1.0, test=test, categories=category_table(groups), report=report)


FORMATS: dict[str, Callable[[Path], Dataset]] = {
    "coat": coat,
    "yahoo": yahoo,
    "movielens": movielens,
    "kuairec": kuairec,
    "kuairand": kuairand,
}


def _find(folder: Path, pattern: str) -> Path:
    if not (found := _found(folder, pattern)):
        raise UserError(f"no file {pattern} below '{folder}'")
    return found[0]


def _found(folder: Path, pattern: str) -> list[Path]:
    return [path for path in files_below(folder) if fnmatchcase(path.name, pattern)]


def _numbers(path: Path, dtype: type = np.float64) -> Array:
    """A matrix as text."""
    with opened_text(path) as file:
        return np.atleast_2d(np.loadtxt(file, dtype=dtype))


def _categories(text: str, path: Path) -> list[int]:
    """Numbers of categories, as KuaiRec writes them: [8, 27]."""
    found = parse_json(text, path)
    numbers = [n for n in found if isinstance(n, int) and 0 <= n < 100_000] if isinstance(found, list) else []
    if numbers != found:
        raise UserError(f"{path}: '{text[:40]}' is not a list of categories")
    return numbers


def _lines(path: Path, separator: str, encoding: str = "utf-8") -> Records:
    """Every line with its number, split at the separator."""
    with opened_text(path, encoding) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip("\r\n").split(separator)


def _body(path: Path, separator: str = ",") -> Records:
    """The rows below a CSV header."""
    with opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator)
        next(reader, None)
        for row in reader:
            yield reader.line_num, row


def _delimited(path: Path, separator: str | None = None, want: str | None = None) -> Records:
    """The rating columns of a delimited file, found by the names in its header."""
    with opened_text(path) as file:
        first = file.readline()
        separator = separator or ("\t" if "\t" in first else ";" if ";" in first else ",")
        reader = csv.reader(itertools.chain([first], file), delimiter=separator)
        header = [name.strip() for name in next(reader, [])]
        found = places(header, ColumnsConfig(rating=want), path.name)
        columns = [header.index(found[name]) for name in ("user", "item", "rating", "time") if name in found]
        for row in reader:
            yield reader.line_num, [row[c] if c < len(row) else "" for c in columns] if row else []


def _clipped(records: Records, source: str) -> tuple[Ratings, BadRows]:
    found, report = table(records, source)
    return replace(found, values=np.clip(found.values, 0, 5)), report


def _same_tables(
    records: Records, source: str, bounds: tuple[float, float] | None, train: Ratings
) -> Ratings:
    """A test log with the ids of the train log; pairs of unknown users or items are left out."""
    users, items = set(train.user_names), set(train.item_names)
    known = ((line, row) for line, row in records if len(row) > 1 and row[0] in users and row[1] in items)
    return table(known, source, bounds, (train.user_names, train.item_names))[0]


def _column(path: Path, name: str) -> dict[str, str]:
    """One named column of a CSV by its first column."""
    with opened_text(path) as file:
        return {next(iter(row.values())): row[name] or "" for row in csv.DictReader(file)}


def _optional(path: Path) -> Array | None:
    return _numbers(path, np.float32) if is_there(path) else None


def _one_hot(folder: Path, kind: str) -> Features:
    names = read_text(folder / f"{kind}_features_map.txt").splitlines()
    values = _numbers(folder / f"{kind}_features.ascii", np.float32)
    return Features(values, tuple(name for name in names if name))


def _flags_to_categories(features: Features, prefix: str) -> Array:
    columns = [index for index, name in enumerate(features.names) if name.startswith(prefix)]
    return category_table([list(np.flatnonzero(row[columns])) for row in features.values])


def _numbered(words: list[list[str]]) -> tuple[list[list[int]], tuple[str, ...]]:
    """Category words as numbers, and the words in the order of their numbers."""
    names = tuple(sorted({word for group in words for word in group if word}))
    place = {name: index for index, name in enumerate(names)}
    return [[place[word] for word in group if word] for group in words], names


def _with_genres(data: Dataset, groups: list[list[int]], names: tuple[str, ...] | None) -> Dataset:
    """The data set with its genres as categories and as item features."""
    count = max((max(group, default=-1) for group in groups), default=-1) + 1
    values = np.zeros((len(groups), count), np.float32)
    for row, group in enumerate(groups):
        values[row, group] = 1.0
    labels = names or tuple(f"genre:{index}" for index in range(count))
    return replace(data, categories=category_table(groups), item_features=Features(values, labels))
