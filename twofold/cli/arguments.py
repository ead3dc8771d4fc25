"""Splitting a command line into places, options and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.base.values import Values


@dataclass
class Arguments:
    """What was typed: places, options of the command, and settings."""

    places: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    settings: Values = field(default_factory=dict)
    imports: tuple[str, ...] = ()  # of --import, which may be given several times


def parse(argv: list[str], options: tuple[str, ...]) -> Arguments:
    """Split a command line; a key of `options` is the command's, every other one is a setting."""
    from twofold.settings.presets import parse_value

    found, rest = Arguments(), list(argv)
    while rest:
        word = rest.pop(0)
        if word == "with":
            continue
        if word.startswith("--"):
            key, equals, text = word[2:].partition("=")
            if (
                not equals
                and rest
                and not rest[0].startswith("--")
                and "=" not in rest[0]
                and rest[0] != "with"
            ):
                text = rest.pop(0)
            elif not equals:
                text = "true"
        elif "=" in word:
            key, _, text = word.partition("=")
        else:
            found.places.append(word)
            continue
        if key.replace("_", "-") in options:
            _add_option(found, key.replace("_", "-"), text)
        else:
            found.settings[key] = parse_value(text)
    return found


def _add_option(found: Arguments, key: str, text: str) -> None:
    if key == "import":
        found.imports = (*found.imports, text)
    else:
        found.options[key] = text


def one_place(typed: Arguments, what: str) -> str:
    from twofold.base.errors import UserError

    if typed.settings:
        raise UserError(f"unknown option '{next(iter(typed.settings))}' for this command; see --help")
    if len(typed.places) != 1:
        raise UserError(f"give exactly one place: {what}; got {len(typed.places)}")
    return typed.places[0]
