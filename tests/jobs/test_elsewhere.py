"""Machines that are unlike the one that sends a job are refused, by name and reason."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twofold.jobs import elsewhere, on_ray
from twofold.jobs.elsewhere import UNLIKE, Facts, Order, carry_out, difference
from twofold.store.alike import Software

from .test_jobs import job, processes_of, wait_until

HEAD = Software("head", "3.11.7", {"numpy": "2.4", "ase": "3.29"}, "c0de")
HERE = Facts(HEAD, "word")


def node(**other: Any) -> Facts:
    return Facts(replace(HEAD, host="n", **other), "word")


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (HERE, ""),
        (node(), ""),
        (replace(node(), token=""), "n does not see the folder of the runs"),
        (replace(node(), cwd=False), "n does not see the folder from which this was started"),
        (node(python="3.12.1"), "n has Python 3.12.1, head 3.11.7"),
        (node(packages={"numpy": "2.3", "ase": "3.29"}), "n has numpy 2.3, head 2.4: install"),
        (node(packages={"numpy": "2.4"}), "n has ase none, head 3.29"),
        (node(code="0ther"), "n has another twofold (files 0ther, head c0de)"),
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
    other = replace(asked.facts.software, python="2.7")
    asked = replace(asked, facts=replace(asked.facts, software=other))
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


def test_a_command_has_the_python_of_its_machine_and_the_variables_of_the_one_who_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, sys; print(sys.executable, os.environ['TWOFOLD_DATA'], os.environ.get('SECRET'))"
    asked = order(tmp_path, "/of/the/other/machine/python", "-c", code)
    asked = replace(asked, python="/of/the/other/machine/python", environment=(("TWOFOLD_DATA", "/data"),))
    assert carry_out(asked) == 0
    assert (tmp_path / "logs" / "a.txt").read_text().split() == [sys.executable, "/data", "None"]


def test_an_order_takes_along_what_is_named_for_twofold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_RUNS", "/shared/runs")
    monkeypatch.setenv("SECRET", "no")
    here = elsewhere.write_token(tmp_path)
    found = Order.of(job(tmp_path, 1, 2, 0.0), tmp_path / "logs" / "a.txt", here)
    names = [name for name, _ in found.environment]
    assert "TWOFOLD_RUNS" in names and "SECRET" not in names and found.python == sys.executable


def test_an_interruption_is_heard_where_a_script_had_it_ignored(tmp_path: Path) -> None:
    code = "import time; open('began', 'w').close(); time.sleep(600)"
    asked, before = order(tmp_path, sys.executable, "-c", code), signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        wait_until((tmp_path / "began").exists, 60)
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            carry_out(asked)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert processes_of(tmp_path) == []


def test_a_task_whose_node_was_cut_off_is_given_up_and_one_that_waits_for_a_node_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_ray, "_LOOK", -1.0)
    cancelled: list[bool] = []
    nodes = [{"NodeID": "one", "Alive": True}, {"NodeID": "two", "Alive": False}]
    ray: Any = SimpleNamespace(
        wait=lambda *_, **__: ([], []),
        nodes=lambda: nodes,
        cancel=lambda _, force: cancelled.append(force),
    )
    log = tmp_path / "a.txt"
    task = on_ray.RayTask(ray, object(), log)
    assert [task.code() for _ in range(9)] == [None] * 9
    on_ray.node_file(log).write_text("one")
    assert [task.code() for _ in range(9)] == [None] * 9 and not cancelled
    on_ray.node_file(log).write_text("two")
    assert [task.code() for _ in range(4)] == [None, None, None, -signal.SIGKILL] and cancelled == [True]
