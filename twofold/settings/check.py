"""Values of the declared types: from what files and command lines hold to an instance of a class of settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from twofold.base.errors import ConfigError
from twofold.base.setting import problem
from twofold.base.values import Values
from twofold.settings.schema import Schema, nearest

Instance = TypeVar("Instance")


@lru_cache(maxsize=128)
def _adapter(cls: type) -> TypeAdapter[Any]:  # Any: lru_cache forgets that it is one of `cls`
    return TypeAdapter(cls)


def checked(cls: type[Instance], values: Values, prefix: str, schema: Schema) -> Instance:
    """An instance of `cls` from nested values; the first wrong one is an error that names it."""
    try:
        return _validated(cls, values)
    except ValidationError as error:
        if not _mended(values, error):
            raise _named(error, prefix, schema) from None
    try:
        return _validated(cls, values)
    except ValidationError as error:
        raise _named(error, prefix, schema) from None


def _validated(cls: type[Instance], values: Values) -> Instance:
    # As JSON, in which a list may be a tuple while nothing else changes its type on the way.
    made: Instance = _adapter(cast(Hashable, cls)).validate_json(json.dumps(values, default=str), strict=True)
    return made


def _mended(values: Values, error: ValidationError) -> bool:
    """Put right in place what people write and JSON's types refuse: 25e3, one number for a list, 5 for a text."""
    changed = False
    for one in error.errors():
        holder: object = values
        for part in one["loc"][:-1]:
            holder = _inside(holder, part)
        key, kind = one["loc"][-1], one["type"]
        given = _inside(holder, key)
        number = isinstance(given, (int, float)) and not isinstance(given, bool)
        if kind == "int_type" and isinstance(given, float) and given.is_integer():
            changed |= _put(holder, key, int(given))
        elif kind == "tuple_type" and not isinstance(given, (dict, list)) and given is not None:
            changed |= _put(holder, key, [_whole(given)])
        elif kind == "string_type" and number:
            changed |= _put(holder, key, str(given))
    return changed


def _inside(holder: object, part: int | str) -> object:
    if isinstance(holder, dict):
        return holder.get(part)
    return holder[part] if isinstance(holder, list) and isinstance(part, int) and part < len(holder) else None


def _put(holder: object, part: int | str, value: object) -> bool:
    if isinstance(holder, dict):
        holder[part] = value
    elif isinstance(holder, list):
        holder[int(part)] = value
    return isinstance(holder, (dict, list))


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _named(error: ValidationError, prefix: str, schema: Schema) -> ConfigError:
    """The first finding in our words, with the nearest right one of several choices."""
    one = error.errors()[0]
    path = prefix + ".".join(map(str, one["loc"]))
    if one["type"] == "missing" and isinstance(one["loc"][-1], int):
        parent = path.rpartition(".")[0]
        return ConfigError(
            f"{parent} needs more values than it was given: number {one['loc'][-1] + 1} is missing"
        )
    if one["type"] == "missing":
        return ConfigError(f"the setting {path} has no default: give {path}=...")
    if one["type"] == "unexpected_keyword_argument":
        return ConfigError(f"unknown setting '{path}'; twofold show --explain lists all")
    declared = schema.leaves.get(path)
    hint = None
    if declared is not None and get_origin(declared.type) is Literal:
        hint = nearest(str(one["input"]), [str(choice) for choice in get_args(declared.type)])
    return ConfigError(problem(one, prefix) + (f"; did you mean '{hint}'?" if hint else ""))


def flat(instance: object, prefix: str = "") -> Values:
    """The settings of an instance by dotted name; an absent group is one None, a dictionary one value."""
    found: Values = {}
    if not dataclasses.is_dataclass(instance):
        raise TypeError(f"{instance!r} is not an instance of a class of settings")
    for entry in dataclasses.fields(instance):
        value, path = getattr(instance, entry.name), f"{prefix}{entry.name}"
        if dataclasses.is_dataclass(value):
            found |= flat(value, f"{path}.")
        else:
            found[path] = _plain_dict(value) if isinstance(value, dict) else value
    return found


def _plain_dict(value: Values) -> Values:
    return {k: _plain(v) for k, v in value.items()}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value
