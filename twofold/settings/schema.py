"""Settings by name and type: the schema of a config dataclass, slips of the finger, values of the declared type."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from twofold.core.errors import ConfigError


@dataclass(frozen=True)
class Setting:
    """One leaf of the schema."""

    path: str
    type: Any
    default: Any
    aliases: tuple[str, ...] = ()


def schema_of(cls: type, prefix: str = "") -> dict[str, Setting]:
    """Every setting of a config dataclass by dotted name; nested dataclasses are opened."""
    hints = typing.get_type_hints(cls)
    found: dict[str, Setting] = {}
    for entry in dataclasses.fields(cls):
        path, kind = f"{prefix}{entry.name}", hints[entry.name]
        if dataclasses.is_dataclass(kind):
            found |= schema_of(kind, f"{path}.")  # type: ignore[arg-type]
            continue
        default = entry.default
        if entry.default_factory is not dataclasses.MISSING:
            default = entry.default_factory()
        found[path] = Setting(path, kind, default, tuple(entry.metadata.get("aliases", ())))
    return found


def resolve_name(key: str, schema: dict[str, Setting]) -> str:
    """The full dotted name of a setting given whole, by its bare name, or by an alias; hyphen equals underscore."""
    key = key.replace("-", "_")
    parts = key.split(".")
    for cut in range(len(parts), 0, -1):
        known = schema.get(".".join(parts[:cut]))
        if known is not None and (cut == len(parts) or is_dict(known.type)):
            return key
    leaf = parts[-1]
    scope = [s for s in schema.values() if len(parts) == 1 or s.path.startswith(".".join(parts[:-1]) + ".")]
    found = sorted({s.path for s in scope if s.path.split(".")[-1] == leaf or leaf in s.aliases})
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"'{key}' could be {' or '.join(found)}: give the whole name")
    raise ConfigError(_unknown(key, schema))


def _unknown(key: str, schema: dict[str, Setting]) -> str:
    candidates = {path: path for path in schema}
    if "." not in key:
        candidates = {path.split(".")[-1]: path.split(".")[-1] for path in schema}
        candidates |= {alias: alias for s in schema.values() for alias in s.aliases}
    hint = nearest(key, candidates)
    return f"unknown setting '{key}'" + (f"; did you mean '{hint}'?" if hint else "; twofold show lists all")


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate with the smallest edit distance, if it is near enough to be a slip."""
    limit = max(2, len(word) // 3)
    near = [c for c in candidates if abs(len(c) - len(word)) <= limit]
    best = min(((edit_distance(word, c), abs(len(c) - len(word)), c) for c in near), default=None)
    return best[2] if best is not None and best[0] <= limit else None


def edit_distance(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn one word into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


# ---- typed values -----------------------------------------------------------------------------------------------


def is_dict(kind: Any) -> bool:
    return kind is dict or get_origin(kind) is dict


def convert(path: str, value: Any, kind: Any) -> Any:
    """The value as the declared type, or an error that names setting, type and value."""
    origin = get_origin(kind)
    if kind is Any or (is_dict(kind) and isinstance(value, dict)):
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(path, value, get_args(kind))
    if origin is Literal:
        if value in get_args(kind) and not isinstance(value, bool):
            return value
        hint = nearest(str(value), [str(choice) for choice in get_args(kind)])
        raise ConfigError(
            f"{path} must be one of {', '.join(map(str, get_args(kind)))}, got {value!r}"
            + (f"; did you mean '{hint}'?" if hint else "")
        )
    if origin is tuple:
        inner = get_args(kind)[0]
        values = value if isinstance(value, (list, tuple)) else [value]
        return tuple(convert(path, v, inner) for v in values)
    return _convert_scalar(path, value, kind)


def _convert_union(path: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    if value is None and type(None) in kinds:
        return None
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return convert(path, value, kind)
            except ConfigError as error:
                errors.append(error)
    raise errors[0]


def _convert_scalar(path: str, value: Any, kind: Any) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and number and math.isfinite(value) and float(value).is_integer():
        return int(value)
    if kind is float and number and math.isfinite(value):
        return float(value)
    if kind is str and (isinstance(value, str) or number):
        return str(value)
    wanted = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}
    raise ConfigError(f"{path} must be {wanted.get(kind, kind)}, got {value!r}")
