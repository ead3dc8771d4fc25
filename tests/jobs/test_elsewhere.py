"""Machines that are unlike the one that sends a job are refused, by name and reason."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from twofold.jobs import elsewhere
from twofold.jobs.elsewhere import UNLIKE, Facts, Order, carry_out, difference

HERE = Facts("head", "3.11.7", {"numpy": "2.4", "ase": "3.29"}, "word")


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (HERE, ""),
        (replace(HERE, host="node1"), ""),
        (replace(HERE, host="node1", token=""), "node1 does not see the folder of the runs"),
        (replace(HERE, host="node1", python="3.12.1"), "node1 has Python 3.12.1, head 3.11.7"),
        (
            replace(HERE, host="n", packages={"numpy": "2.3", "ase": "3.29"}),
            "n has numpy 2.3, head 2.4: install",
        ),
        (replace(HERE, host="n", packages={"numpy": "2.4"}), "n has ase none, head 3.29"),
    ],
)
def test_what_differs_is_said(there: Facts, message: str) -> None:
    assert difference(HERE, there).startswith(message) and bool(difference(HERE, there)) == bool(message)


def order(folder: Path, *argv: str) -> Order:
    here = elsewhere.write_token(folder)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "run").mkdir(exist_ok=True)
    return Order(argv, str(folder / "run"), str(folder / "logs" / "a.txt"), str(folder), here)


def test_a_command_runs_in_its_folder_and_its_end_is_told(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd()); raise SystemExit(7)"
    assert carry_out(order(tmp_path, sys.executable, "-c", code)) == 7
    assert (tmp_path / "logs" / "a.txt").read_text().strip() == str(tmp_path)


def test_a_machine_that_is_unlike_does_not_begin(tmp_path: Path) -> None:
    asked = order(tmp_path, sys.executable, "-c", "open('began', 'w')")
    asked = replace(asked, facts=replace(asked.facts, python="2.7"))
    assert carry_out(asked) == UNLIKE
    assert "has Python" in (tmp_path / "logs" / "a.txt").read_text() and not (tmp_path / "began").exists()


def test_a_lock_that_a_vanished_machine_left_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = order(tmp_path, sys.executable, "-c", "")
    lock = tmp_path / "run" / "lock"
    lock.write_text("7 far.example abcd")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        os.utime(lock, (time.time() - 1_000,) * 2)

    monkeypatch.setattr(elsewhere.time, "sleep", sleep)
    assert carry_out(asked) == 0 and waited
