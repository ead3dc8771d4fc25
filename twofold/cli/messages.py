"""What commands say beside their results: complaints, and hints that name what works."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twofold.base.errors import UnknownPart, UnknownSetting, UserError


def complain(message: str) -> None:
    """A message to the user, in red where there is a terminal."""
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}twofold: {message}{plain}", file=sys.stderr)


def better(error: UserError, command: Any, asked: Any) -> UserError:
    """The error with what this command line adds to it: an option that was meant, or code that was not imported."""
    if isinstance(error, UnknownSetting) and not error.sure:
        return _meant_option(error, command)
    if isinstance(error, UnknownPart):
        return _not_imported(error, asked)
    return error


def _meant_option(error: UnknownSetting, command: Any) -> UserError:
    from twofold.base.names import nearest

    flags = [one.flag[2:] for one in command.asked() if one.role == "option"]
    hint = nearest(error.key.replace("_", "-"), flags)
    return UserError(f"unknown option or setting '{error.key}'; did you mean '--{hint}'?") if hint else error


def _not_imported(error: UnknownPart, asked: Any) -> UserError:
    """Naming what a run was made with is not importing it: that stays the user's word."""
    from twofold.store.provenance import imports_of

    given = getattr(asked, "import_", ())
    places = [getattr(asked, name, None) for name in ("run", "from_")]
    made_with = [name for place in places if place for name in imports_of(Path(place)) if name not in given]
    if not made_with:
        return error
    words = " ".join(f"--import={name}" for name in dict.fromkeys(made_with))
    return UserError(f"{error}. This run was made with {words}: add it")
