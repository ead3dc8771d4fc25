"""SIGTERM and SIGHUP anywhere: one line, the exit code of the signal, nothing half written."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from twofold.base.signals import Terminated, unwinding
from twofold.cli import main
from twofold.store.whole import whole


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """Whatever started the tests: a shell's background job ignores Ctrl-C, and nohup a closed terminal."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {signum: signal.signal(signum, handler) for signum, handler in usual.items()}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def stopping(*_: object, **__: object) -> None:
    signal.raise_signal(signal.SIGTERM)


def stopped(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 128 + signal.SIGTERM
    message = capsys.readouterr().err
    assert "stopped by SIGTERM" in message and "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("place", "argv"),
    [
        ("twofold.demo.demo", ["demo"]),
        ("twofold.assemble.make_world", ["train", "--env-config=pendulum"]),
        ("twofold.assemble.score", ["eval", "--zoo=pendulum"]),
        ("twofold.learners.export.export_onnx", ["export", "--zoo=pendulum"]),
        ("twofold.recsys.prepare.dataset", ["fit", "--env-config=synthetic_users"]),
        ("twofold.recsys.standings.standings", ["standings"]),
        ("twofold.crystal.relaxing._relaxed", ["relax", "Cu"]),
        ("twofold.crystal.commands.compare", ["relax-compare", "Cu", "--out=out"]),
        ("twofold.team.partners.resolve", ["partners", "make", "set", "--env-config=lbf"]),
        ("twofold.lab.listing.list_runs", ["runs", "."]),
        ("twofold.lab.conduct.conduct", ["lab", "x.yaml"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_sigterm_stops_every_command_with_one_line(
    place: str,
    argv: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, stopping)
    stopped(capsys, *argv)
    assert [entry for entry in os.listdir(tmp_path) if entry not in ("out",)] == []


def test_a_structure_is_written_whole_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, atoms: object) -> None:
        path.write_text("half a structure")
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("twofold.crystal.relaxing.write", half)
    stopped(capsys, "relax", "Cu", f"--out={tmp_path / 'out.cif'}")
    assert os.listdir(tmp_path) == []


def test_a_user_model_is_written_whole_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twofold.store.files.moment", stopping)
    small = ["env_args.synthetic.users=20", "env_args.model.kind=deepfm", "env_args.model.deepfm.epoch=1"]
    stopped(capsys, "fit", "--env-config=synthetic_users", f"--run={tmp_path / 'users'}", *small)
    assert os.listdir(tmp_path / "users") == []


def test_what_another_library_writes_replaces_a_file_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "POSCAR"
    path.write_text("old")
    with pytest.raises(Terminated), unwinding(), whole(path) as beside:
        assert beside.name == "POSCAR"
        beside.write_text("half")
        signal.raise_signal(signal.SIGHUP)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["POSCAR"]
    with whole(path) as beside:
        beside.write_text("new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["POSCAR"]


def test_the_callers_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with unwinding():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_ctrl_c_is_one_line_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("twofold.demo.demo", lambda: signal.raise_signal(signal.SIGINT))
    assert main(["demo"]) == 130
    assert "stopped by SIGINT" in capsys.readouterr().err
