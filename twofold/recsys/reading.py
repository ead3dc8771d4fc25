"""Ratings from files as people have them: any spelling of the header, encodings, compression, millions of rows."""

from __future__ import annotations

import codecs
import csv
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.base.errors import UserError
from twofold.base.regular import open_regular
from twofold.base.setting import setting, settings
from twofold.recsys.data import Array, BadRows, Features, Ratings, dense_ids
from twofold.recsys.opening import MAX_BYTES, arrow, explained, opened, opened_text

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("twofold")
_LARGEST = 1e6  # a rating; larger ones are mistakes, and their squares are no numbers
_MOST_ROWS, _ROWS_PER_BYTE = 500_000_000, 20  # a table of ids cannot be packed more tightly
NAMES = {
    "user": ("user", "userid", "uid", "reviewer", "reviewerid", "customer", "customerid", "visitor", "visitorid"),
    "item": ("item", "itemid", "iid", "movie", "movieid", "film", "filmid", "video", "videoid", "song", "songid",
             "track", "trackid", "book", "bookid", "isbn", "product", "productid", "asin"),
    "rating": ("rating", "value", "score", "stars", "overall", "click", "isclick", "watchratio"),
    "time": ("timestamp", "time", "ts", "timems", "date", "datetime", "unixtime", "unixreviewtime"),
    "title": ("title", "name", "itemtitle", "itemname", "movietitle", "moviename"),
}  # fmt: skip


@settings
class ColumnsConfig:
    """Which columns of the file mean what; null: found by their names, in any spelling."""

    user: str | None = setting("who rated", default=None)
    item: str | None = setting("what was rated", default=None)
    rating: str | None = setting("how it was rated", default=None)
    time: str | None = setting("when it was rated", default=None)
    title: str | None = setting("what a person calls the item", default=None)


@dataclass
class Parsed:
    """The columns of a file as Arrow arrays, and on which line each row stands."""

    columns: dict[str, pyarrow.ChunkedArray]
    lines: Array
    report: BadRows


def plain(name: str) -> str:
    """A header without case, spaces and signs: userId, USER_ID and "User ID" are one name."""
    return "".join(letter for letter in name.split(":")[0].lower() if letter.isalnum())


def places(header: Sequence[str], columns: ColumnsConfig, source: str) -> dict[str, str]:
    """The file's name of each column that is there; user, item and rating must be."""
    found: dict[str, str] = {}
    for meaning, known in NAMES.items():
        wanted = getattr(columns, meaning)
        spelled = {plain(name): name for name in reversed(header)}
        if wanted is not None and wanted not in header:
            raise UserError(f"{source} has no column '{wanted}'; it has {_shown(header)}")
        choice = wanted or next((spelled[name] for name in known if name in spelled), None)
        if choice is not None and choice not in found.values():
            found[meaning] = choice
    for meaning in ("user", "item", "rating"):
        if meaning not in found:
            raise UserError(
                f"{source} has no column for the {meaning} ({' or '.join(NAMES[meaning][:4])}, ...); it has "
                f"{_shown(header)}: say which with env_args.columns.{meaning}=NAME"
            )
    return found


def _shown(header: Sequence[str]) -> str:
    """The columns of a file in a message: what a person reads of them."""
    more = f", and {len(header) - 12} more" if len(header) > 12 else ""
    return ", ".join(name[:40] for name in header[:12]) + more


def read_ratings(path: Path, columns: ColumnsConfig | None = None) -> tuple[Ratings, BadRows, dict[str, str]]:
    """The log of a CSV, TSV or Parquet file (also .gz), what could not be used, and titles by item."""
    with explained(path):
        parsed = _parquet(path, columns) if path.suffix in (".parquet", ".pq") else _delimited(path, columns)
        return _usable(path, parsed)


def _usable(path: Path, parsed: Parsed) -> tuple[Ratings, BadRows, dict[str, str]]:
    """The rows that can be used, and a report of the others."""
    report = parsed.report
    users, items = (_texts(parsed.columns[name]) for name in ("user", "item"))
    values = _numbers(parsed.columns["rating"])
    missing = (users.codes < 0) | (items.codes < 0)
    empty = (users.codes < 0) & (items.codes < 0) & np.isnan(values)  # a blank line is no mistake
    report.add_rows("missing id", parsed.lines[missing & ~empty])
    report.add_rows("not a number", parsed.lines[~missing & ~np.isfinite(values)])
    absurd = np.isfinite(values) & (np.abs(values) > _LARGEST)
    report.add_rows("out of range", parsed.lines[~missing & absurd])
    kept = np.flatnonzero(~missing & np.isfinite(values) & ~absurd)
    kept = _last_of_each_pair(users.codes, items.codes, kept, parsed.lines, report)
    if not len(kept):
        raise UserError(f"no usable rating in {path.name}\n{report.text()}")
    times = _times(parsed.columns["time"])[kept] if "time" in parsed.columns else None
    if times is not None:
        report.add_rows("time not understood", parsed.lines[kept][np.isnan(times)])
    numbers, user_names = dense_ids(users.codes[kept], users.names)
    others, item_names = dense_ids(items.codes[kept], items.names)
    told = None if times is None or np.isnan(times).all() else times
    found = Ratings(numbers, others, values[kept].astype(np.float32), told, user_names, item_names)
    return found, report, _titles(parsed, items)


@dataclass(frozen=True)
class _Texts:
    """Texts by number; -1 where there is none."""

    codes: Array
    names: list[str] = field(default_factory=list)


def _texts(column: pyarrow.ChunkedArray) -> _Texts:
    encoded = column.combine_chunks().dictionary_encode() if not _is_dictionary(column) else _unified(column)
    raw = [str(name).strip() for name in encoded.dictionary.to_pylist()]
    place = {name: number for number, name in enumerate(dict.fromkeys(name for name in raw if name))}
    codes = np.array([place.get(name, -1) for name in raw] + [-1])
    numbers = encoded.indices.fill_null(len(raw)).to_numpy(zero_copy_only=False)
    return _Texts(codes[numbers], list(place))


def _is_dictionary(column: pyarrow.ChunkedArray) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_dictionary(column.type))


def _unified(column: pyarrow.ChunkedArray) -> pyarrow.DictionaryArray:
    return column.unify_dictionaries().combine_chunks()


def _numbers(column: pyarrow.ChunkedArray) -> Array:
    """Numbers as float64, NaN where there is none."""
    import pyarrow

    if pyarrow.types.is_string(column.type):
        try:
            column = column.cast(pyarrow.float64())
        except pyarrow.ArrowInvalid:
            return np.array([_number(text) for text in column.to_pylist()], np.float64)
    return np.asarray(column.cast(pyarrow.float64()).fill_null(np.nan).to_numpy(), np.float64)


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def _times(column: pyarrow.ChunkedArray) -> Array:
    """Seconds since 1970 from numbers or from dates as ISO writes them; NaN where neither is understood."""
    import pyarrow

    if pyarrow.types.is_temporal(column.type):
        return np.asarray(column.to_numpy().astype("datetime64[ms]").astype(np.float64) / 1000)
    found = _numbers(column)
    for row in np.flatnonzero(np.isnan(found)).tolist():
        found[row] = _moment(str(column[row].as_py() or ""))
    return found


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return float("nan")
    if not 1 < moment.year < 9999:
        return float("nan")  # its zone may lie beyond what a clock can say
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _last_of_each_pair(users: Array, items: Array, rows: Array, lines: Array, report: BadRows) -> Array:
    """The rows without those whose pair comes again later."""
    keys = users[rows].astype(np.int64) << 32 | items[rows]
    _, last = np.unique(keys[::-1], return_index=True)
    kept = np.sort(len(rows) - 1 - last)
    again = np.ones(len(rows), bool)
    again[kept] = False
    report.add_rows("duplicate pair", lines[rows[again]])
    return np.asarray(rows[kept])


def _titles(parsed: Parsed, items: _Texts) -> dict[str, str]:
    """The last title that stands beside each item."""
    if "title" not in parsed.columns:
        return {}
    titles = _texts(parsed.columns["title"])
    pairs = np.unique(np.stack([items.codes, titles.codes]), axis=1).T.tolist()
    return {items.names[item]: titles.names[title] for item, title in pairs if item >= 0 and title >= 0}


# ---- delimited text ----


def _delimited(path: Path, columns: ColumnsConfig | None) -> Parsed:
    """The columns of a CSV or TSV file, read as texts."""
    pyarrow = arrow(path)
    from pyarrow import csv as arrow_csv

    encoding = encoding_of(path)
    delimiter, header = header_of(path, encoding)
    found = places(header, columns or ColumnsConfig(), path.name)
    report, skipped = BadRows(path.name), list[int]()

    def skip(row: Any) -> str:  # Any: pyarrow gives its own class, without types
        skipped.append(row.number)
        if row.text.strip():
            few = row.actual_columns < row.expected_columns
            report.add("too few columns" if few else "too many columns", row.number)
        return "skip"

    texts = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    kinds = {found[name]: texts for name in ("user", "item", "title") if name in found}
    kinds |= {found[name]: pyarrow.string() for name in ("rating", "time") if name in found}
    with opened(path) as stream:
        table = arrow_csv.read_csv(
            stream,
            arrow_csv.ReadOptions(use_threads=False, encoding=encoding, column_names=header, skip_rows=1),
            arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(column_types=kinds, include_columns=list(kinds)),
        )
    lines = np.setdiff1d(np.arange(2, 2 + table.num_rows + len(skipped)), skipped)
    report.rows = table.num_rows + sum(len(rows) for rows in report.lines.values())
    return Parsed({name: table.column(place) for name, place in found.items()}, lines, report)


def _parquet(path: Path, columns: ColumnsConfig | None) -> Parsed:
    arrow(path)
    from pyarrow import parquet

    with open_regular(path, MAX_BYTES, follow=True) as raw:
        size = os.fstat(raw.fileno()).st_size
        file = parquet.ParquetFile(raw)
        if file.metadata.num_rows > min(_MOST_ROWS, _ROWS_PER_BYTE * size):
            raise UserError(f"{path} claims {file.metadata.num_rows:,} rows in {size:,} bytes: refused")
        found = places(file.schema_arrow.names, columns or ColumnsConfig(), path.name)
        table = file.read(columns=list(found.values()))
    report = BadRows(path.name, table.num_rows)
    picked = {name: table.column(place) for name, place in found.items()}
    return Parsed(picked, np.arange(1, table.num_rows + 1), report)


def encoding_of(path: Path) -> str:
    """UTF-16 by its mark, UTF-8 if all of the file is, else the encoding of Western Windows; said if it is guessed."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as stream:
        first = stream.read(1 << 22)
        if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        try:
            while first:
                decoder.decode(first)
                first = stream.read(1 << 22)
            decoder.decode(b"", final=True)  # a letter that is cut off by the end of the file
        except UnicodeDecodeError:
            log.warning("%s is not UTF-8: read as Windows-1252 (Western European)", path.name)
            return "cp1252"
    return "utf-8"


def header_of(path: Path, encoding: str) -> tuple[str, list[str]]:
    """What separates columns, and their names."""
    with opened(path) as stream:
        text = stream.read(1 << 20).decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="ignore")
    first = text.splitlines()[0] if text else ""
    if "\0" in first:
        raise UserError(
            f"{path.name} is not readable text (zero bytes in its first line): save it as CSV in UTF-8"
        )
    delimiter = max(",\t;|", key=first.count) if any(sign in first for sign in ",\t;|") else ","
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if not any(header):
        raise UserError(f"{path.name} is empty: its first line must name the columns")
    return delimiter, header


# ---- tables of features ----


def read_features(path: Path, names: tuple[str, ...]) -> tuple[Features | None, dict[str, str]]:
    """Features and titles of a table by id: numbers as they are, words (also several, by |) as one column each."""
    encoding = encoding_of(path)
    delimiter, header = header_of(path, encoding)
    with opened_text(path, "utf-8-sig" if encoding == "utf-8" else encoding) as file:
        rows = {row[0].strip(): row[1:] for row in list(csv.reader(file, delimiter=delimiter))[1:] if row}
    if not rows.keys() & set(names):
        log.warning("%s: no id of its first column is in the ratings: left out", path.name)
        return None, {}
    titled = next((place for place, name in enumerate(header[1:]) if plain(name) in NAMES["title"]), None)
    titles = {} if titled is None else {name: row[titled] for name, row in rows.items() if titled < len(row)}
    columns = [place for place in range(len(header) - 1) if place != titled]
    made = [_feature(header[place + 1], place, rows, names) for place in columns]
    labels = [label for column in made for label in column]
    if not labels:
        return None, titles
    values = np.column_stack([column[label] for column in made for label in column])
    return Features(values.astype(np.float32), tuple(labels)), titles


def _feature(name: str, place: int, rows: dict[str, list[str]], ids: tuple[str, ...]) -> dict[str, Array]:
    """A column of numbers, or one column for each word that occurs; ids that are absent get zeros."""
    texts = [rows[one][place].strip() if one in rows and place < len(rows[one]) else "" for one in ids]
    numbers = np.array([_number(text or "0") for text in texts])
    if not np.isnan(numbers).any():
        return {name: numbers}
    words = [set(text.split("|")) - {""} for text in texts]
    known = sorted(set().union(*words))
    if len(known) > 200:
        log.warning("the column '%s' has %d different values: left out", name, len(known))
        return {}
    return {f"{name}:{word}": np.array([word in own for own in words], float) for word in known}
