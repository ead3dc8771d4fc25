from __future__ import annotations

from pathlib import Path

import pytest

from twofold.base.foreign_json import read_json
from twofold.store import files
from twofold.store.selection import Selection


def offered(selection: Selection, scores: dict[int, float]) -> None:
    for step, worth in scores.items():
        selection.offer(step, worth, lambda step=step: str(step).encode())


def kept(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text() for path in folder.glob("*.safetensors")}


def test_with_one_place_only_the_best_is_kept(tmp_path: Path) -> None:
    offered(Selection(tmp_path, 1), {0: 1.0, 10: 5.0, 20: 5.0, 30: 4.0})
    assert kept(tmp_path) == {"best": "10"}


def test_a_better_policy_pushes_the_worst_finalist_out(tmp_path: Path) -> None:
    selection = Selection(tmp_path, 2)
    offered(selection, {0: 1.0, 10: 5.0, 20: 4.0, 30: 3.0})
    assert kept(tmp_path) == {"best": "10", "finalist_10": "10", "finalist_20": "20"}
    assert selection.finalists == {10: 5.0, 20: 4.0}


def test_the_chosen_finalist_becomes_the_best(tmp_path: Path) -> None:
    selection = Selection(tmp_path, 2)
    offered(selection, {10: 5.0, 20: 4.0})
    selection.choose(20, {"chosen": 20})
    assert kept(tmp_path)["best"] == "20" and read_json(tmp_path / "finalists.json") == {"chosen": 20}


def test_a_policy_waits_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    selection = Selection(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(files, "replace_bytes", full)
        offered(selection, {10: 5.0})
    assert kept(tmp_path) == {}
    selection.write()
    assert kept(tmp_path) == {"best": "10"}


def test_what_is_restored_goes_on_alike(tmp_path: Path) -> None:
    one, other = Selection(tmp_path, 2), Selection(tmp_path, 2)
    offered(one, {10: 5.0, 20: 4.0})
    other.load_state_dict(one.state_dict())
    offered(other, {30: 4.5})
    assert other.best == 5.0 and set(kept(tmp_path)) == {"best", "finalist_10", "finalist_30"}
