"""A setting is declared once: type, default, bounds, unit, meaning, other names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from twofold.base.errors import ConfigError

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)


class _Required(Enum):
    """Where a default stands, that there is none."""

    NONE = 0


def setting(
    meaning: str,
    *,
    default: Value | _Required = _Required.NONE,
    factory: Callable[[], Value] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    unit: str = "",
    aliases: tuple[str, ...] = (),
    neutral: bool = False,
) -> Value:
    """One line of meaning, the default (or what makes it), bounds, unit, other names; `neutral` changes no byte."""
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    about: dict[str, Any] = {  # Any: pydantic's Field has a type of its own for each argument
        "description": meaning,
        "json_schema_extra": {"unit": unit, "aliases": list(aliases), "neutral": neutral},
    }
    about |= {name: bound for name, bound in bounds.items() if bound is not None}
    if factory is not None:
        return cast(Value, Field(default_factory=factory, **about))
    return cast(Value, Field(**about) if default is _Required.NONE else Field(default, **about))


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def settings(cls: Class) -> Class:
    """A frozen dataclass of settings whose types and bounds are checked whenever one is made."""
    # Any: what pydantic puts onto a class is in no type, and a class's __init__ is not to be replaced by mypy's.
    made: Any = dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))(cls)
    checked = made.__init__

    @functools.wraps(checked)
    def __init__(self: object, *args: object, **kwargs: object) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise ConfigError(
                "; ".join(problem(_by_name(one, list(made.__pydantic_fields__))) for one in error.errors())
            ) from None

    made.__init__ = __init__
    return cast(Class, made)


def _by_name(error: ErrorDetails, names: list[str]) -> ErrorDetails:
    """The finding with the name of an argument that was given by its place."""
    first, *rest = error["loc"]
    return {**error, "loc": (names[first], *rest)} if isinstance(first, int) else error


_WANTED = {
    "int": "a whole number",
    "float": "a finite number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "tuple": "a list",
    "dict": "a group of settings",
    "dataclass": "a group of settings",
}


def problem(error: ErrorDetails, prefix: str = "") -> str:
    """One of pydantic's findings in our words: which setting, what it must be, what it was."""
    path = prefix + ".".join(str(part) for part in error["loc"])
    return f"{path} {_must(error)}, got {_shortened(error['input'])}"


def _must(error: ErrorDetails) -> str:
    kind, about = error["type"], error.get("ctx", {})
    limits = {"greater_than": "above", "greater_than_equal": "at least", "less_than": "below"}
    limits["less_than_equal"] = "at most"
    if kind in limits:
        bound = next(iter(about.values()))
        return f"must be {limits[kind]} {bound:g}"
    if kind == "literal_error":
        return f"must be one of {about['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    wanted = _WANTED.get(kind.split("_")[0])
    return f"must be {wanted}" if wanted else f"is refused ({error['msg']})"


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
