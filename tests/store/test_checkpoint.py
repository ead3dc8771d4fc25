from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from parts import batch, written

from twofold.base import tree
from twofold.base.errors import CheckpointError
from twofold.core.replay import Ring
from twofold.store.checkpoint import Checkpoints, load_replay, pack, unpack

STATE = {"a": {"w": np.arange(6.0).reshape(2, 3)}, "n": 3, "text": "x", "none": None, "list": [1.5, 2]}


def ring(items: int) -> Ring:
    made = Ring(1000, batch(0), np.random.default_rng(0))
    made.segment_items = 10
    made.add(written(batch(items)))
    return made


def test_any_nested_state_comes_back() -> None:
    arrays, rest = pack(STATE | {"tensor": torch.ones(2), "scalar": np.float64(0.1)})
    back = unpack(rest, arrays)
    assert back["a"]["w"].tolist() == STATE["a"]["w"].tolist()  # type: ignore[index]
    assert (back["n"], back["text"], back["none"], back["list"]) == (3, "x", None, [1.5, 2])
    assert back["tensor"].tolist() == [1, 1] and back["scalar"] == 0.1


def test_the_newest_checkpoint_is_loaded_with_its_replay(tmp_path: Path) -> None:
    kept, replay = Checkpoints(tmp_path / "c"), ring(25)
    kept.save(10, {"n": 1}, replay)
    replay.add(written(batch(7, seed=1)))
    kept.save(20, {"n": 2}, replay)
    step, state, pieces = kept.load()  # type: ignore[misc]
    fresh = Ring(1000, batch(0), np.random.default_rng(0))
    fresh.load_state_dict(replay.state_dict())
    load_replay(fresh, pieces)
    assert (step, state) == (20, {"n": 2})
    assert tree.equal(tree.copy(replay.take(np.arange(32))), fresh.take(np.arange(32)))


def test_pieces_of_replay_are_shared_with_the_last_checkpoint_but_one(tmp_path: Path) -> None:
    kept, replay = Checkpoints(tmp_path / "c", keep=3), ring(25)
    for step in (10, 20, 30):
        kept.save(step, {}, replay)
    name = "replay_000000000000_000000000010.safetensors"
    files = [os.stat(kept.path(step) / name).st_ino for step in (10, 20, 30)]
    assert files[0] == files[2] != files[1]


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "c", keep=2)
    for step in (1, 2, 3):
        kept.save(step, {}, None)
    assert kept.steps() == [3, 2]


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Checkpoints(tmp_path / "c")
    kept.save(1, {"n": 1}, None)
    kept.save(2, STATE, None)
    path = kept.path(2) / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert kept.load()[:2] == (1, {"n": 1})  # type: ignore[index]


def test_when_all_are_damaged_the_error_says_so(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "c")
    kept.save(1, STATE, None)
    (kept.path(1) / "state.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match=r"no checkpoint .* can be read"):
        kept.load()


def test_no_checkpoint_at_all_is_not_an_error(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "c").load() is None
