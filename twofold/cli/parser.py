"""The one parser: argparse reads the options that a command declares; places and settings are what is left."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from twofold.base.command import Asked, Command
from twofold.base.errors import UserError

_KEY = re.compile(r"[A-Za-z_][\w.-]*=")
_COMMON = ("--help", "--debug")


class Typed(UserError):
    """A command line that a command cannot take."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises in place of leaving, in the words of the other messages."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument ([^:]+): expected (?:one|at least one) argument", message):
            flag = found.group(1).split("/")[-1]
            raise Typed(f"{flag} needs a value: {flag}=...; {self.prog} --help shows more")
        if found := re.match(r"argument ([^:]+): ignored explicit argument (.*)", message):
            raise Typed(
                f"{found.group(1).split('/')[-1]} is a switch and takes no value, got {found.group(2)}"
            )
        raise Typed(re.sub(r"^argument [^:]*?(--?[\w-]+): ", r"\1", message))


def parser_of(command: Command) -> argparse.ArgumentParser:
    """A parser of the command's options."""
    parser = _Parser(prog=f"twofold {command.name}", add_help=False, allow_abbrev=False)
    parser.add_argument("--debug", action="store_true", dest="_debug")
    for asked in command.asked():
        if asked.role == "option":
            _add(parser, asked)
    return parser


def _add(parser: argparse.ArgumentParser, asked: Asked) -> None:
    names = [name for name in (asked.short, *_spellings(asked.flag)) if name]
    if asked.switch:
        parser.add_argument(*names, dest=asked.name, action="store_true")
        return
    how = {"action": "extend", "nargs": "*"} if asked.many else {"action": "append"} if asked.several else {}
    read, absent = _reader(asked), argparse.SUPPRESS  # argparse would read a default as if it had been typed
    parser.add_argument(*names, dest=asked.name, default=absent, type=read, **how)  # type: ignore[arg-type]


def _spellings(flag: str) -> list[str]:
    """PyMARL writes underscores."""
    return list(dict.fromkeys((flag, "--" + flag[2:].replace("-", "_"))))


def _reader(asked: Asked) -> Callable[[str], object]:
    """What makes a typed word a value, or says what it must be."""
    kind = asked.single
    if asked.choices:
        return lambda text: _chosen(text, asked)
    if kind in (int, float):
        return lambda text: _number(text, asked)
    return _path if kind is Path else _text


def _path(text: str) -> Path:
    # A shell leaves the ~ of --run=~/runs as it is, and a folder of that name is not what anybody means.
    return Path(os.path.expanduser(_text(text)))


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError(" needs a value, got none behind the =")
    return text


def _chosen(text: str, asked: Asked) -> str:
    if text not in asked.choices:
        raise argparse.ArgumentTypeError(f" must be one of {', '.join(asked.choices)}, got '{text}'")
    return text


def _number(text: str, asked: Asked) -> float:
    whole = asked.single is int
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (whole and (abs(number) > 1e18 or number != int(number))):
        wanted = "a whole number" if whole else "a finite number"
        raise argparse.ArgumentTypeError(f" must be {wanted}, got '{text}'")
    if asked.least is not None and number < asked.least:
        raise argparse.ArgumentTypeError(f" must be at least {asked.least:g}, got {text}")
    if asked.most is not None and number > asked.most:
        raise argparse.ArgumentTypeError(f" must be at most {asked.most:g}, got {text}")
    return int(number) if whole else number


# ---- a whole command line -----------------------------------------------------------------------------------------


def parse(command: Command, argv: list[str]) -> object:
    """An instance of what the command asks for."""
    asked = command.asked()
    bare = {name: f"{name}={one.bare}" for one in asked if one.bare for name in _spellings(one.flag)}
    _no_setting_as_a_value(argv, asked)
    found, left = parser_of(command).parse_known_args([bare.get(word, word) for word in argv])
    values = {one.name: _value(found, one) for one in asked if one.role == "option"}
    words, settings = _sorted(left, command, asked)
    keeper = next((one for one in asked if one.role == "settings"), None)
    if keeper is not None:
        values[keeper.name] = settings | ({"debug": True} if found._debug else {})
    values |= _places(command, [one for one in asked if one.role == "place"], words)
    return command.asks(**values)


def _no_setting_as_a_value(argv: list[str], asked: list[Asked]) -> None:
    """Refuse `--run trainer.steps=10`: the value was forgotten, and the setting would become a folder's name."""
    if not any(one.role == "settings" for one in asked):
        return
    options = [one for one in asked if one.role == "option" and not (one.switch or one.many or one.bare)]
    flags = {name for one in options for name in (one.short, *_spellings(one.flag)) if name}
    for word, after in itertools.pairwise(argv):
        if word in flags and _KEY.match(after):
            raise Typed(f"{word} needs a value: {word}=...; '{after}' behind it is a setting")


def _value(found: argparse.Namespace, asked: Asked) -> object:
    given = vars(found).get(asked.name, asked.default)
    return tuple(given) if asked.several else given


def _sorted(left: list[str], command: Command, asked: list[Asked]) -> tuple[list[str], dict[str, object]]:
    """What argparse did not know: places, and settings where the command takes some; anything else is refused."""
    takes = [one for one in asked if one.role == "settings"]
    read = str if takes and takes[0].raw else _setting
    takes_words = any(one.role == "place" for one in asked)
    words: list[str] = []
    settings: dict[str, object] = {}
    rest = list(left)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words, rest = [*words, *rest], []
        elif word.startswith("-") and len(word) > 1:
            key, equals, text = word.lstrip("-").partition("=")
            if not takes or not word.startswith("--"):
                raise Typed(unknown_option(word.partition("=")[0], command))
            bare = not equals and not takes_words and rest and not rest[0].startswith("--")
            if bare and "=" not in rest[0] and rest[0] != "with":
                equals, text = "=", rest.pop(0)
            settings[key] = read(text if equals else "true")
        elif takes and word == "with":
            continue
        elif takes and _KEY.match(word) and not (takes_words and os.path.exists(word)):
            key, _, text = word.partition("=")
            settings[key] = read(text)
        else:
            words.append(word)
    return words, settings


def _setting(text: str) -> object:
    from twofold.settings.presets import parse_value

    return parse_value(text)


def unknown_option(word: str, command: Command) -> str:
    """What is wrong with an option, and the one that was probably meant."""
    from twofold.base.names import nearest

    known = [*_COMMON, *(one.flag for one in command.asked() if one.role == "option")]
    hint = nearest(word.replace("_", "-"), known)
    did = f"did you mean '{hint}'?" if hint else f"twofold {command.name} --help shows those it has"
    return f"unknown option '{word}' of twofold {command.name}; {did}"


def _places(command: Command, asked: list[Asked], words: list[str]) -> dict[str, object]:
    """The words without dashes, given to the places in their order."""
    values: dict[str, object] = {}
    rest = list(words)
    for one in asked:
        if one.several:
            if len(rest) < (one.least or 0):
                raise Typed(_missing(command, one))
            values[one.name], rest = tuple(_read(one, word) for word in rest) or one.default, []
        elif rest:
            values[one.name] = _read(one, rest.pop(0))
        elif one.required:
            raise Typed(_missing(command, one))
    if rest:
        raise Typed(_too_many(command, asked, words, rest[0]))
    return values


def _read(one: Asked, word: str) -> object:
    try:
        return _reader(one)(word)
    except argparse.ArgumentTypeError as error:
        raise Typed(f"{one.metavar}{error}") from None


def _missing(command: Command, one: Asked) -> str:
    return (
        f"twofold {command.name} needs {one.metavar}: {one.meaning}; twofold {command.name} --help shows more"
    )


def _too_many(command: Command, asked: list[Asked], words: list[str], first: str) -> str:
    if any(one.role == "settings" for one in command.asked()):
        return f"'{first}' is not a setting: write key=value, or --key=value"
    takes = " ".join(one.metavar for one in asked) or "no words"
    if _KEY.match(first):
        return (
            f"twofold {command.name} takes {takes} and no settings, got '{first}'; `twofold train` takes them"
        )
    return f"twofold {command.name} takes {takes}, got {len(words)} words: '{first}' is one too many"
