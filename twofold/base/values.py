"""Values whose type only their reader can tell: numbers in arrays, settings by name, JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # Any: numpy's own way to say: of any dtype
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Values: TypeAlias = dict[str, object]  # settings or findings by name; whoever reads one asks for its type


def inside(value: Json, *path: str) -> Json:
    """What stands below these names; KeyError or TypeError where nothing does."""
    for name in path:
        value = table(value)[name]
    return value


def table(value: Json, *path: str) -> dict[str, Json]:
    """The values by name that stand below these names."""
    found = inside(value, *path)
    if not isinstance(found, dict):
        raise TypeError(f"values by name were expected, found {str(found)[:40]!r}")
    return found


def listed(value: Json, *path: str) -> list[Json]:
    """The list that stands below these names."""
    found = inside(value, *path)
    if not isinstance(found, list):
        raise TypeError(f"a list was expected, found {str(found)[:40]!r}")
    return found


def number(value: Json, *path: str) -> float:
    """The number that stands below these names, as it was written: a whole one stays whole."""
    found = inside(value, *path)
    if not isinstance(found, (int, float)):
        raise TypeError(f"a number was expected, found {str(found)[:40]!r}")
    return found


def text(value: Json, *path: str) -> str:
    """The text that stands below these names."""
    found = inside(value, *path)
    if not isinstance(found, str):
        raise TypeError(f"a text was expected, found {str(found)[:40]!r}")
    return found
