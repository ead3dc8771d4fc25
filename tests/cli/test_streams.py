"""Standard streams: whatever stands behind them, and whatever runs are called."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.cli.streams import printable_output
from twofold.lab.text import aligned


def test_what_is_printed_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with printable_output():
        print("runs/\x1b]0;title\x07\x9b31m\ttab")
    assert capsys.readouterr().out == "runs/\\x1b]0;title\\x07\\x9b31m\ttab\n"


def test_a_letter_that_the_terminal_lacks_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    below = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", below)
    with printable_output():
        print("±1 ü\udcff")
    assert sys.stdout is below and below.errors == "strict"
    assert below.buffer.getvalue() == b"\\xb11 \\xfc\\udcff\n"  # type: ignore[attr-defined]  # a BytesIO


def test_a_stream_that_fails_does_not_hide_what_was_wrong_before(monkeypatch: pytest.MonkeyPatch) -> None:
    full = io.TextIOWrapper(io.FileIO("/dev/full", "w"), encoding="utf8")
    monkeypatch.setattr(sys, "stdout", full)
    with pytest.raises(UserError, match="the reason"), printable_output():
        print("words that no disk takes")
        raise UserError("the reason")
    with contextlib.suppress(OSError):
        full.close()


def test_a_cell_of_a_table_is_one_line() -> None:
    assert aligned([["a\nb", "1"], ["c\x1b[2J", "2"]], left=(0, 1)) == ["a\\nb      1", "c\\x1b[2J  2"]


def test_a_complaint_about_a_file_quotes_its_name_safely(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["show", str(tmp_path / "no\x1b[31mrun")]) == 2
    assert "\x1b" not in capsys.readouterr().err


_WITHOUT_STREAMS = """
import os
for number in (0, 1, 2):
    os.close(number)
os.execv({python!r}, [{python!r}, "-c", "import twofold.cli; code = twofold.cli.main(['runs', '.']); "
    "open('codes', 'w').write(str(code)); open('number', 'w').write(str(os.open('codes', 0)))" \
    .replace("import", "import os,", 1)])
"""


def test_a_command_without_any_stream_works_and_no_file_takes_their_numbers(tmp_path: Path) -> None:
    house = str(Path(__file__).resolve().parents[2])
    code = _WITHOUT_STREAMS.format(python=sys.executable)
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": house}, check=True
    )
    assert (tmp_path / "codes").read_text() == "0"
    assert int((tmp_path / "number").read_text()) > 2
