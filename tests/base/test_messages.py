"""What is said to a user: no escape codes, no broken letters, no books."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.base.messages import printable
from twofold.base.surroundings import extra_of, told


@pytest.mark.parametrize("letter", ["\x1b[31m", "\0", "\r", "\x9b2J", "\u202e", "\ud800", "\x07"])
def test_what_a_terminal_would_obey_is_written_out(letter: str) -> None:
    shown = printable(f"a{letter}b")
    assert shown.isprintable() and shown.startswith("a") and shown.endswith("b")
    shown.encode()


def test_errors_quote_strangers_safely() -> None:
    assert "\x1b" not in str(UserError("the file says \x1b[2J"))


def test_a_message_of_megabytes_is_cut() -> None:
    assert len(str(UserError("x" * 5_000_000))) < 5_000
    assert "4,996,000 more letters" in str(UserError("x" * 5_000_000))


def test_lines_of_a_report_stay_lines() -> None:
    assert printable("one\n\ttwo") == "one\n\ttwo"


def test_a_missing_package_is_named_with_what_installs_it() -> None:
    line = told(ModuleNotFoundError("No module named 'ase'", name="ase.io"))
    assert "'ase'" in line and "pip install" in line and ("crystal" in line or "'ase>=" in line)


def test_extras_are_found_in_the_metadata() -> None:
    assert extra_of("ase") == "crystal" and extra_of("no_such_package") == "all"


def test_files_are_named_with_the_reason() -> None:
    assert told(OSError(errno.EROFS, "Read-only file system", "/x")) == "/x: Read-only file system"


def test_a_vanished_working_directory_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError(errno.ENOENT, "gone")))
    assert "working directory is gone" in told(FileNotFoundError(errno.ENOENT, "No such file or directory"))


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), ImportError("libfoo.so")])
def test_every_error_of_the_surroundings_is_one_line(error: BaseException) -> None:
    assert told(error) and "\n" not in told(error)
