"""A setting is declared once: type, default, bounds, unit, meaning, other names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from twofold.base.errors import ConfigError

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)
_NONE: Any = object()


def setting(
    meaning: str,
    *,
    default: Value = _NONE,
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
    about: dict[str, Any] = {
        "description": meaning,
        "json_schema_extra": {"unit": unit, "aliases": list(aliases), "neutral": neutral},
    }
    about |= {name: bound for name, bound in bounds.items() if bound is not None}
    if factory is not None:
        return cast(Value, Field(default_factory=factory, **about))
    return cast(Value, Field(**about) if default is _NONE else Field(default, **about))


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def settings(cls: Class) -> Class:
    """A frozen dataclass of settings whose types and bounds are checked whenever one is made."""
    made = cast(Any, dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))(cls))
    checked = made.__init__

    @functools.wraps(checked)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            checked(self, *args, **kwargs)
        except ValidationError as error:
            raise ConfigError("; ".join(problem(_by_name(one, made)) for one in error.errors())) from None

    made.__init__ = __init__
    return cast(Class, made)


def _by_name(error: Any, cls: Any) -> Any:
    """The finding with the name of an argument that was given by its place."""
    first, *rest = error["loc"]
    return error | {"loc": (list(cls.__pydantic_fields__)[first], *rest)} if isinstance(first, int) else error


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


def problem(error: Any, prefix: str = "") -> str:
    """One of pydantic's findings in our words: which setting, what it must be, what it was."""
    path = prefix + ".".join(str(part) for part in error["loc"])
    return f"{path} {_must(error)}, got {_shortened(error['input'])}"


def _must(error: Any) -> str:
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


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
