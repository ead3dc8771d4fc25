"""Which command a command line means."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.base.command import Command
from twofold.base.errors import UserError
from twofold.base.names import nearest

# What other codes call them.
_ELSEWHERE = {
    "eval": ("evaluate", "test"),
    "play": ("enjoy", "render", "video", "watch"),
    "train": ("learn", "run"),
}
_ELSEWHERE |= {"resume": ("continue", "restart"), "runs": ("ls",), "page": ("tensorboard", "dashboard", "ui")}


def find(argv: list[str], known: Sequence[Command]) -> tuple[Command | None, list[str]]:
    """The command and the words behind it; None for one whose verb is not named yet."""
    names = {one.name for one in known}
    families = {name.split(" ")[0] for name in names if " " in name}
    first = argv[0]
    if first.startswith("-"):
        raise UserError(_misplaced(argv, names | families))
    if first in families:
        return _verb(argv, known, names)
    if first not in names:
        same = next((ours for ours, theirs in _ELSEWHERE.items() if first.lower() in theirs), None)
        hint = same or nearest(first, names | families)
        did = f"did you mean '{hint}'?" if hint else "twofold --help shows all"
        raise UserError(f"no command '{first}'; {did}")
    return _variant([one for one in known if one.name == first], argv[1:]), argv[1:]


def _verb(argv: list[str], known: Sequence[Command], names: set[str]) -> tuple[Command | None, list[str]]:
    """The command of two words that is meant."""
    first, *rest = argv
    if not rest or rest[0] in ("-h", "--help"):
        return None, []
    whole = f"{first} {rest[0]}"
    if whole not in names:
        verbs = [name.split(" ")[1] for name in sorted(names) if name.startswith(f"{first} ")]
        hint = nearest(rest[0], verbs)
        did = f"did you mean '{hint}'?" if hint else f"there are {', '.join(verbs)}"
        raise UserError(f"no command 'twofold {whole}'; {did}")
    return _variant([one for one in known if one.name == whole], rest[1:]), rest[1:]


def _variant(named: Sequence[Command], rest: list[str]) -> Command:
    """Among commands of one name, the one whose option is given."""
    given = {word.partition("=")[0].replace("_", "-") for word in rest if word.startswith("--")}
    chosen = [one for one in named if one.when and f"--{one.when}" in given]
    return chosen[0] if chosen else next(one for one in named if not one.when)


def _misplaced(argv: list[str], names: set[str]) -> str:
    """Options stand behind the command; the line as it should have been, if a command is in it."""
    place = next((n for n, word in enumerate(argv) if word in names), None)
    if place is None:
        return f"'{argv[0]}' is not a command: twofold COMMAND [options]; twofold --help shows all"
    right = " ".join(["twofold", argv[place], *argv[:place], *argv[place + 1 :]])
    return f"options stand behind the command: {right}"
