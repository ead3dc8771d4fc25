"""What commands say beside their results: complaints, and hints that name what works."""

from __future__ import annotations

import sys
from pathlib import Path

from twofold.base.command import Command
from twofold.base.errors import UnknownPart, UnknownSetting, UserError
from twofold.base.messages import printable


def complain(message: str) -> None:
    """A message to the user, in red where there is a terminal."""
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}twofold: {printable(message)}{plain}", file=sys.stderr)


def better(error: UserError, command: Command, asked: object) -> UserError:
    """The error with what this command line adds to it: an option that was meant, or code that was not imported."""
    if isinstance(error, UnknownSetting) and not error.sure:
        return _meant_option(error, command)
    if isinstance(error, UnknownPart):
        return _not_imported(error, {one.name: getattr(asked, one.name) for one in command.asked()})
    return error


def _meant_option(error: UnknownSetting, command: Command) -> UserError:
    from twofold.base.names import nearest

    flags = [one.flag[2:] for one in command.asked() if one.role == "option"]
    hint = nearest(error.key.replace("_", "-"), flags)
    return UserError(f"unknown option or setting '{error.key}'; did you mean '--{hint}'?") if hint else error


def _not_imported(error: UnknownPart, given: dict[str, object]) -> UserError:
    """Naming what a run was made with is not importing it: that stays the user's word."""
    from twofold.store.provenance import imports_of

    imported = given.get("import_", ())
    places = [Path(str(given[name])) for name in ("run", "from_", "policy") if given.get(name)]
    names = [name for place in places for name in imports_of(place)]
    missing = [name for name in names if not isinstance(imported, tuple) or name not in imported]
    if not missing:
        return error
    words = " ".join(f"--import={name}" for name in dict.fromkeys(missing))
    return UserError(f"{error}. This run was made with {words}: add it")
