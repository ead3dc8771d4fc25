"""What --help says, from what the commands declare, in lines that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

from twofold.base.command import Asked, Command

_COLUMN = 30  # where meanings begin
Row = tuple[str, str]


def width() -> int:
    """Columns to write into: those of the terminal, between 60 and 100."""
    return min(max(shutil.get_terminal_size().columns, 60), 100)


def overview(groups: dict[str, tuple[Command, ...]]) -> str:
    """All commands by heading."""
    text = ["twofold: reinforcement learning that people can really use", ""]
    text += _wrapped("usage: twofold COMMAND [RUN] [--option=value ...] [key=value ...]", "", "    ")
    for heading, commands in groups.items():
        shown = {command.name.split(" ")[0]: command for command in commands if not command.when}
        rows = [(name, _family(name, commands) or one.about) for name, one in shown.items()]
        text += ["", f"{heading}:" if heading else "commands:", *_table(rows, column=18)]
    text += ["", "start with:", "  twofold demo", "  twofold train --env-config=pendulum --run=runs/first"]
    text += ["", "twofold COMMAND --help shows more."]
    return "\n".join(text)


def _family(name: str, commands: Iterable[Command]) -> str:
    """`make, gather, split, show` for a command that has several verbs."""
    verbs = [one.name.split(" ")[1] for one in commands if one.name.startswith(f"{name} ")]
    return f"{', '.join(verbs)}: twofold {name} VERB --help" if verbs else ""


def family(name: str, commands: Iterable[Command]) -> str:
    """The verbs of a command such as `partners`."""
    own = [one for one in commands if one.name.startswith(f"{name} ")]
    rows = [(one.name.split(" ")[1], one.about) for one in own]
    examples = [line for one in own for example in one.examples for line in _shell(example)]
    text = [f"usage: twofold {name} VERB ...", "", *_table(rows, column=18), "", "examples:", *examples]
    return "\n".join(text)


def of(command: Command, variants: Sequence[Command] = ()) -> str:
    """The help of one command; `variants` are those of its name that an option chooses."""
    text = [*_wrapped(usage(command), "", "    "), "", *_wrapped(_sentence(command.about))]
    for line in command.more.split("\n") if command.more else ():
        text += _wrapped(line)
    text += _options(command)
    if command.matters:
        head = (
            "sections of settings:"
            if command.name == "show"
            else "settings that matter (twofold show --explain: all):"
        )
        text += ["", head, *_table(list(command.matters), column=36)]
    for variant in variants:
        text += [
            "",
            *_wrapped(f"with --{variant.when}: {variant.about}"),
            *_wrapped(usage(variant), "  ", "      "),
        ]
        text += _options(variant)
    examples = [example for one in (command, *variants) for example in one.examples]
    text += ["", "examples:", *(line for one in examples for line in _shell(one))]
    return "\n".join(text)


def usage(command: Command) -> str:
    """The shape of a command line."""
    asked = command.asked()
    places = [one.metavar if _needed(one) else f"[{one.metavar}]" for one in asked if one.role == "place"]
    given = [f"{one.flag}={one.metavar or one.name.upper()}" for one in asked if one.name == command.when]
    options = ["[options]"] if any(one.role == "option" for one in asked) else []
    settings = ["[key=value ...]"] if any(one.role == "settings" for one in asked) else []
    return " ".join(["usage: twofold", command.name, *places, *given, *options, *settings])


def _needed(one: Asked) -> bool:
    return one.required or bool(one.least)


def _options(command: Command) -> list[str]:
    asked = command.asked()
    places = [(one.metavar, one.meaning) for one in asked if one.role == "place"]
    options = [(_typed(one), _meaning(one)) for one in asked if one.role == "option" and one.meaning]
    rows = places + options
    return ["", *_table(rows)] if rows else []


def _typed(one: Asked) -> str:
    short = f"{one.short}, " if one.short else ""
    value = "|".join(one.choices) or one.metavar or one.name.upper()
    if one.switch:
        return f"{short}{one.flag}"
    return f"{short}{one.flag}[={value}]" if one.bare else f"{short}{one.flag}={value}"


def _meaning(one: Asked) -> str:
    silent = one.switch or one.required or one.default in (None, ()) or "(default" in one.meaning
    return one.meaning if silent else f"{one.meaning} (default {one.default})"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return textwrap.wrap(
        text, width(), initial_indent=first, subsequent_indent=later, break_on_hyphens=False
    ) or [""]


def _table(rows: Sequence[Row], column: int = _COLUMN) -> list[str]:
    """Names on the left, meanings beside them; a long name has a line of its own."""
    lines = []
    for name, meaning in rows:
        beside = len(name) + 4 <= column
        if not beside:
            lines.append(f"  {name}")
        first = f"  {name:<{column - 2}}" if beside else " " * column
        lines += _wrapped(meaning, first, " " * column)
    return lines


def _shell(command: str) -> list[str]:
    """A command line, broken as a shell would take it."""
    lines = textwrap.wrap(command, width() - 8, break_long_words=False, break_on_hyphens=False)
    return [
        f"  {line}" if n == 0 else f"      {line}" for n, line in enumerate(" \\\n".join(lines).split("\n"))
    ]
