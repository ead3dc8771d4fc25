"""Settings by name: every leaf of a class of settings with all that was declared of it, and slips of the finger."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Union, get_args, get_origin

from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from twofold.base.errors import ConfigError, UnknownSetting
from twofold.base.names import edit_distance as edit_distance
from twofold.base.names import nearest as nearest
from twofold.settings.foreign import HINTS, STANDS_FOR

REQUIRED = dataclasses.MISSING


@dataclass(frozen=True)
class Setting:
    """One setting as it was declared."""

    path: str
    type: object
    default: object  # REQUIRED where there is none
    meaning: str = ""
    bounds: str = ""
    unit: str = ""
    aliases: tuple[str, ...] = ()
    neutral: bool = False  # cannot change the bytes of a run


@dataclass(frozen=True)
class Schema:
    """The settings of a run: leaves, and groups that a bare value may stand for (a schedule, or null)."""

    leaves: dict[str, Setting]
    groups: dict[str, Setting]

    @cached_property
    def all(self) -> dict[str, Setting]:
        return self.leaves | self.groups

    def __or__(self, other: Schema) -> Schema:
        return Schema(self.leaves | other.leaves, self.groups | other.groups)

    def dict_above(self, path: str) -> str | None:
        """The setting that is a dictionary and holds this path, if there is one."""
        parts = path.split(".")
        above = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
        return next((p for p in above if p in self.leaves and is_dict(self.leaves[p].type)), None)


def group_of(kind: object) -> type | None:
    """The class of settings that a type is, or may be beside None."""
    options = [k for k in get_args(kind) if k is not type(None)] if get_origin(kind) in _UNIONS else [kind]
    only = options[0] if len(options) == 1 else None
    return only if isinstance(only, type) and dataclasses.is_dataclass(only) else None


_UNIONS = (Union, types.UnionType)


def schema_of(cls: type, prefix: str = "", given: object = None) -> Schema:
    """Every setting of a class by dotted name; nested classes are opened, `given` is their default instance."""
    hints = typing.get_type_hints(cls)
    leaves: dict[str, Setting] = {}
    groups: dict[str, Setting] = {}
    for entry in dataclasses.fields(cls):
        path, kind = f"{prefix}{entry.name}", hints[entry.name]
        info = cls.__pydantic_fields__.get(entry.name) if is_pydantic_dataclass(cls) else None
        default = _default(entry, info) if given is None else getattr(given, entry.name)
        inner, declared = group_of(kind), _declared(path, kind, default, info, entry)
        if inner is None:
            leaves[path] = declared
            continue
        below = schema_of(inner, f"{path}.", None if default in (None, REQUIRED) else default)
        leaves, groups = leaves | below.leaves, groups | {path: declared} | below.groups
    return Schema(leaves, groups)


def _default(entry: dataclasses.Field[object], info: FieldInfo | None) -> object:
    if info is not None:
        default = info.get_default(call_default_factory=True)
        return REQUIRED if default is PydanticUndefined else default
    made = entry.default_factory
    return entry.default if made is dataclasses.MISSING else made()


_SIGNS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _declared(
    path: str, kind: object, default: object, info: FieldInfo | None, entry: dataclasses.Field[object]
) -> Setting:
    if info is None:  # a plain dataclass says less
        return Setting(path, kind, default, aliases=tuple(entry.metadata.get("aliases", ())))
    limits = [
        (word, getattr(m, sign)) for m in info.metadata for sign, word in _SIGNS.items() if hasattr(m, sign)
    ]
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    aliases = extra.get("aliases")
    bounds = ", ".join(f"{word} {limit:g}" for word, limit in limits)
    return Setting(
        path,
        kind,
        default,
        info.description or "",
        bounds,
        str(extra.get("unit", "")),
        tuple(map(str, aliases)) if isinstance(aliases, list) else (),
        bool(extra.get("neutral", False)),
    )


def type_name(kind: object) -> str:
    """A type as a reader of settings knows it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in _UNIONS:
        return " | ".join("null" if k is type(None) else type_name(k) for k in inner)
    if origin is tuple:
        return f"list of {type_name(inner[0])}"
    if is_dict(kind):
        inside = group_of(inner[1]) if inner else None
        return "dictionary" if inside is None else f"dictionary of {inside.__name__}"
    names: dict[object, str] = {int: "whole number", float: "number", bool: "true | false", str: "text"}
    own = origin or kind
    return names.get(kind, own.__name__ if isinstance(own, type) else str(kind))


def is_dict(kind: object) -> bool:
    return kind is dict or get_origin(kind) is dict


# ---- names ------------------------------------------------------------------------------------------------------


def resolve_names(key: str, schema: Schema) -> tuple[str, ...]:
    """The settings that a name stands for: one, or those that another code sets by one name."""
    try:
        return (resolve_name(key, schema),)
    except UnknownSetting:
        meant = STANDS_FOR.get(key.replace("-", "_").split(".")[-1], ())
        if meant and all(path in schema.all for path in meant):
            return meant
        raise


def resolve_name(key: str, schema: Schema) -> str:
    """The full dotted name of a setting given whole, by its bare name, or by an alias; hyphen equals underscore."""
    key = key.replace("-", "_")
    if key in schema.all or schema.dict_above(key) is not None:
        return key
    parts = key.split(".")
    found = [path for path, setting in schema.all.items() if _named(parts, path, setting.aliases)]
    depth = min((path.count(".") for path in found), default=0)
    found = sorted(path for path in found if path.count(".") == depth)
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"'{key}' could be {' or '.join(found)}: give the whole name")
    raise _unknown(key, schema)


def _named(parts: list[str], path: str, aliases: tuple[str, ...]) -> bool:
    """Whether a path ends in the given parts, the last of which may be an alias."""
    own = path.split(".")
    return own[-len(parts) : -1] == parts[:-1] and (own[-1] == parts[-1] or parts[-1] in aliases)


def _unknown(key: str, schema: Schema) -> UnknownSetting:
    """The error for a name that no setting has: what another code's users meant, or the nearest name."""
    last = key.split(".")[-1]
    if said := HINTS.get(last):
        return UnknownSetting(f"unknown setting '{key}': {said}", key, sure=True)
    candidates = list(schema.all)
    if "." not in key:
        candidates = [path.split(".")[-1] for path in candidates]
        candidates += [alias for s in schema.all.values() for alias in s.aliases]
    hint = nearest(key, candidates)
    did = f"did you mean '{hint}'?" if hint else "twofold show lists all"
    return UnknownSetting(f"unknown setting '{key}'; {did}", key, sure=hint is not None)
