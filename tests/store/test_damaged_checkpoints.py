"""A damaged newest checkpoint never hides a good older one, whatever lies beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from twofold.base.errors import CheckpointError
from twofold.store.checkpoint import Checkpoints


def kept(folder: Path) -> Checkpoints:
    """Two checkpoints, the newer one damaged."""
    store = Checkpoints(folder)
    store.save(10, {"n": 10}, None)
    store.save(20, {"n": 20}, None)
    (folder / "step_000000000020" / "state.json").write_bytes(b"{}")
    return Checkpoints(folder)


BESIDE: dict[str, Callable[[Path], object]] = {
    "a file named damaged": lambda folder: (folder / "damaged").touch(),
    "a link named damaged": lambda folder: (folder / "damaged").symlink_to("/nowhere"),
    "a full folder named damaged": lambda folder: (folder / "damaged" / "x").mkdir(parents=True),
    "damaged twice over": lambda folder: [(folder / name).touch() for name in ("damaged", "damaged_2")],
    "a step with a line break": lambda folder: (folder / "step_999999999999\n").mkdir(),
    "a step in Arabic digits": lambda folder: (folder / "step_٩٩٩٩٩٩٩٩٩٩٩٩").mkdir(),
    "an empty newer step": lambda folder: (folder / "step_999999999999").mkdir(),
    "a file named like a step": lambda folder: (folder / "step_000000000030").touch(),
    "a link named like a step": lambda folder: (folder / "step_000000000030").symlink_to("/nowhere"),
    "a pipe named like a step": lambda folder: os.mkfifo(folder / "step_000000000030"),
    "a file named like what was replaced": lambda folder: (folder / "replaced_000000000040").touch(),
    "a link named like what was replaced": lambda folder: (folder / "replaced_000000000040").symlink_to(
        "/etc"
    ),
    "a file named like what is being written": lambda folder: (folder / ".tmp_000000000030").touch(),
    "a pipe named like what is being written": lambda folder: os.mkfifo(folder / ".tmp_000000000030"),
    "a stranger's notes": lambda folder: (folder / "README").write_text("hello"),
}


@pytest.mark.parametrize("put", BESIDE.values(), ids=BESIDE.keys())
def test_the_older_one_is_taken_and_the_run_can_save_again(
    put: Callable[[Path], object], tmp_path: Path
) -> None:
    store = kept(tmp_path / "c")
    put(tmp_path / "c")
    assert store.load() == (10, {"n": 10}, [])
    store.save(30, {"n": 30}, None)
    assert Checkpoints(tmp_path / "c").load() == (30, {"n": 30}, [])


def test_looking_at_another_run_changes_nothing_there(tmp_path: Path) -> None:
    store = kept(tmp_path / "c")
    (tmp_path / "c" / ".tmp_000000000030").mkdir()
    before = sorted(str(path) for path in (tmp_path / "c").rglob("*"))
    assert store.look() == (10, {"n": 10}, [])
    assert sorted(str(path) for path in (tmp_path / "c").rglob("*")) == before


def test_a_damaged_one_that_cannot_be_moved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = kept(tmp_path / "c")

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(CheckpointError, match=r"Read-only file system.*move it away"):
        store.load()
