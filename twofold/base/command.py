"""A command is declared once: what it asks for, with type and meaning; parser, help and completion read it."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

Value = TypeVar("Value")
Role = Literal["place", "option", "settings"]
# What the shell offers behind an option, or in a place.
Kind = Literal["", "config", "env-config", "zoo", "run", "file", "folder"]
_USUAL = {"kind": "", "short": "", "least": None, "most": None, "many": False, "bare": "", "raw": False}


@dataclass(frozen=True)
class Asked:
    """One thing that a command asks for, as it was declared."""

    name: str
    role: Role
    type: object
    default: object  # MISSING: it must be given
    meaning: str
    metavar: str
    kind: Kind
    short: str  # such as -k
    least: float | None
    most: float | None
    many: bool  # an option that takes all words up to the next option
    bare: str  # what an option means without a value; empty: it needs one
    raw: bool  # settings whose values are kept as they were typed

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.rstrip('_').replace('_', '-')}"

    @property
    def several(self) -> bool:
        """Whether it may be given more than once."""
        return get_origin(self.type) is tuple

    @property
    def switch(self) -> bool:
        """Whether it takes no value."""
        return self.type is bool

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def single(self) -> object:
        """The type of one value: of an element of a list, of what may also be None."""
        if self.several:
            return get_args(self.type)[0]
        if get_origin(self.type) in (Union, types.UnionType):
            return next(kind for kind in get_args(self.type) if kind is not type(None))
        return self.type

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.single) if get_origin(self.single) is Literal else ()


def _declared(default: Value, about: dict[str, object]) -> Value:
    return dataclasses.field(default=default, metadata={"asked": about})


def place(
    meaning: str, metavar: str, *, default: Value, kind: Kind = "", at_least: int | None = None
) -> Value:
    """A word without dashes, in the order of declaration; a tuple takes all that are left, `at_least` of them."""
    about: dict[str, object] = {
        "role": "place",
        "meaning": meaning,
        "metavar": metavar,
        "kind": kind,
        "least": at_least,
    }
    return _declared(default, about)


def needed(meaning: str, metavar: str, *, type: type[Value], kind: Kind = "") -> Value:
    """A word without dashes that must be there."""
    about = {"role": "place", "meaning": meaning, "metavar": metavar, "kind": kind}
    made: Value = dataclasses.field(metadata={"asked": about})
    return made


def option(
    meaning: str,
    *,
    default: Value,
    metavar: str = "",
    kind: Kind = "",
    short: str = "",
    least: float | None = None,
    most: float | None = None,
    many: bool = False,
    bare: str = "",
) -> Value:
    """`--name=value`, or `--name` alone where its type is bool; the name loses an underscore at its end."""
    about: dict[str, object] = {
        "role": "option",
        "meaning": meaning,
        "metavar": metavar,
        "kind": kind,
        "short": short,
    }
    return _declared(default, about | {"least": least, "most": most, "many": many, "bare": bare})


def settings_given(*, factory: Callable[[], dict[str, Value]], raw: bool = False) -> dict[str, Value]:
    """All other words of the form key=value or --key=value, as a dictionary; `raw`: of texts as they were typed."""
    about = {"role": "settings", "meaning": "any setting", "metavar": "key=value", "raw": raw}
    made: dict[str, Value] = dataclasses.field(default_factory=factory, metadata={"asked": about})
    return made


Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(place, needed, option, settings_given))
def asks(cls: Class) -> Class:
    """A frozen dataclass of what a command asks for."""
    return cast(Class, dataclass(frozen=True)(cls))


@dataclass(frozen=True)
class Command:
    """One command of the command line; a domain lists its own, and nothing heavy is imported to show it."""

    name: str  # as it is typed; 'partners make' is two words
    about: str  # one line
    asks: type  # a dataclass of `place`, `option` and `settings_given`
    does: str  # 'module:function' that takes an instance of `asks` and gives the exit code
    examples: tuple[str, ...] = ()  # command lines that work
    more: str = ""  # further paragraphs of its help
    matters: Sequence[tuple[str, str]] = ()  # settings that matter most: (key=value, meaning)
    when: str = ""  # an option that chooses this command among several of one name

    def asked(self) -> list[Asked]:
        """Everything that it asks for, in order of declaration."""
        hints = typing.get_type_hints(self.asks)
        found = []
        for field in dataclasses.fields(self.asks):
            about = _USUAL | field.metadata["asked"]
            found.append(Asked(field.name, type=hints[field.name], default=field.default, **about))
        return found
