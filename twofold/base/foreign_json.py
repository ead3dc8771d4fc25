"""JSON of strangers: of bounded size, depth and numbers, every name once, every type asked for."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from twofold.base.errors import CheckpointError, ConfigError
from twofold.base.regular import lines_of, read_regular
from twofold.base.setting import problem
from twofold.base.values import Json

MAX_JSON_BYTES = 4_000_000  # a hostile file of this size still parses within 100 MB
MAX_LOG_BYTES = 256_000_000
_MAX_DEPTH = 100
_MAX_DIGITS = 40  # states of generators have 39
_MAX_COUNT = 18  # digits of whole numbers in a log
_MAX_NAMES = 200  # in one line of a log
_PIECE = 1 << 16  # bytes of a log that are parsed in one call
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # one without an end, too: in linear time
_HALVES = re.compile(rb"\\u[dD][89a-fA-F]")
Read = TypeVar("Read")


def read_json(path: Path, *, finite: bool = True, limit: int = MAX_JSON_BYTES, follow: bool = False) -> Json:
    """The JSON of a file; `finite` refuses NaN and infinities, `follow` is for files that the user named."""
    return parse_json(read_regular(path, limit, follow=follow), path, finite=finite)


def parse_json(content: bytes | str, where: Path | str, *, finite: bool = True) -> Json:
    """JSON, or one line that says where it is not."""
    raw = content.encode(errors="replace") if isinstance(content, str) else content
    if _depth(raw) > _MAX_DEPTH:
        raise CheckpointError(f"{where} is not valid JSON of twofold: nested more than {_MAX_DEPTH} deep")
    constant, real = (_no_constant, _finite) if finite else (None, None)
    try:
        found: Json = json.loads(
            content,
            object_pairs_hook=_once,
            parse_int=_whole_number,
            parse_float=real,
            parse_constant=constant,
        )
        _refuse_broken_letters(raw, found)
        return found
    except (ValueError, RecursionError) as error:
        why = "" if isinstance(error, json.JSONDecodeError | UnicodeError) else f" ({error})"
        raise CheckpointError(f"{where} is not valid JSON: damaged or not written by twofold{why}") from None


def _depth(content: bytes) -> int:
    """How deep brackets are nested."""
    if content.count(b"[") + content.count(b"{") <= _MAX_DEPTH:
        return 0
    steps = (1 if sign in b"[{" else -1 for sign in _TEXTS.sub(b"", content) if sign in b"[]{}")
    return max(itertools.accumulate(steps), default=0)


def _refuse_broken_letters(content: bytes, value: Json) -> None:
    """Halves of letters, which JSON can write as \\ud800 and nothing can print or write."""
    if _HALVES.search(content):
        json.dumps(value, ensure_ascii=False).encode()


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice, _ = counts.most_common(1)[0]
        raise ValueError(f"the name '{twice[:40]}' comes twice")
    return found


def _whole_number(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _count(text: str) -> int:
    if len(text) > _MAX_COUNT:
        raise ValueError("more than a log counts")
    return int(text)


def _finite(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(f"the number {text[:20]} is too large")
    return found


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} where a number belongs")


# ---- logs ---------------------------------------------------------------------------------------------------------


def log_records(path: Path) -> Iterator[dict[str, Json]]:
    """Every whole line of a log as a dict, some lines at a time: memory does not grow with the log."""
    waiting: list[bytes] = []
    held = 0
    for line in lines_of(path, MAX_LOG_BYTES):
        waiting.append(line)
        held += len(line)
        if held > _PIECE:
            yield from _records(waiting, path)
            waiting, held = [], 0
    yield from _records(waiting, path)


def _records(lines: list[bytes], path: Path) -> list[dict[str, Json]]:
    # One call for many lines is twice as fast; lines that are whole only together are counted out.
    content = b"[" + b",".join(lines) + b"]"
    if not lines:
        return []
    if _depth(content) > _MAX_DEPTH:
        raise CheckpointError(f"{path} is not valid JSON of twofold: nested more than {_MAX_DEPTH} deep")
    try:
        records: list[Json] = json.loads(content, parse_int=_count)
        _refuse_broken_letters(content, records)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: a line of it is not JSON") from None
    if len(records) != len(lines):
        raise CheckpointError(f"{path} is damaged: its lines are not one record each")
    found = [names(record, path) for record in records]
    for record in found:
        if len(record) > _MAX_NAMES:
            raise CheckpointError(f"{path} has a line of {len(record):,} names: refused")
    return found


# ---- types --------------------------------------------------------------------------------------------------------


def names(value: Json, path: Path) -> dict[str, Json]:
    """The value, which must be a dict."""
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path} is damaged: found {type(value).__name__} where names and values belong"
        )
    return value


def number(value: Json, path: Path, *, finite: bool = True) -> float:
    """The value as a number, finite unless it may be otherwise."""
    if isinstance(value, float) and not finite:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        raise CheckpointError(f"{path} is damaged: {_short(value)} is not a number")
    if not math.isfinite(value):
        raise CheckpointError(f"{path} holds a value that is not finite")
    return float(value)


def whole(value: Json, path: Path) -> int:
    """The value as a count."""
    found = number(value, path)
    if found < 0 or not found.is_integer() or found > 1e15:
        raise CheckpointError(f"{path} is damaged: {found} is not a count")
    return int(found)


def _short(value: Json) -> str:
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of {value.bit_length()} bits"
    return repr(str(value)[:40])


def read_as(cls: type[Read], path: Path, *, follow: bool = False) -> Read:
    """The content of a JSON file as this class of settings."""
    return checked_as(cls, read_json(path, follow=follow))


def checked_as(cls: type[Read], values: object) -> Read:
    """What a JSON file holds as this class of settings; the first wrong name or type is an error that names it."""
    try:
        # As JSON, in which a list may be a tuple while nothing else changes its type on the way.
        return TypeAdapter(cls).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise ConfigError(problem(error.errors()[0])) from None
