"""7. Every truncation and every flipped bit is noticed, and the checkpoint before is taken with one warning."""

from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path

import pytest
from digest import digest
from harness import Driver, command, newest

from twofold.base.errors import CheckpointError
from twofold.store.checkpoint import Checkpoints
from twofold.store.policy_file import unseal

Straight = tuple[Path, dict[str, str]]


def loaded(folder: Path, caplog: pytest.LogCaptureFixture) -> tuple[int, list[str]]:
    """(step that was taken, warnings) of loading a copy: falling back moves the damaged checkpoint aside."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "twofold"):
        found = Checkpoints(folder / "checkpoints").load()
    assert found is not None
    aside = folder / "checkpoints" / "damaged"
    if aside.exists():
        shutil.move(aside, folder / "checkpoints" / "step_000000000600")
    return found[0], [record.getMessage() for record in caplog.records]


def checkpoint_files(folder: Path) -> list[Path]:
    found = sorted((folder / "checkpoints" / "step_000000000600").iterdir())
    names = {path.name.split("_")[0] for path in found}
    assert names == {"MANIFEST.json", "replay", "state.json", "state.safetensors"}
    return found


@pytest.fixture
def copy(straight: Straight, tmp_path: Path) -> Path:
    """A run of two checkpoints, 550 and 600."""
    shutil.copytree(straight[0], tmp_path / "run")
    return tmp_path / "run"


def test_every_file_truncated_at_twenty_places_is_noticed(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in checkpoint_files(copy):
        content = path.read_bytes()
        for place in sorted({int(len(content) * i / 20) for i in range(20)}):
            path.write_bytes(content[:place])
            step, warnings = loaded(copy, caplog)
            assert (step, len(warnings)) == (550, 1), f"{path.name} cut at {place}: {warnings}"
        path.write_bytes(content)
    assert loaded(copy, caplog) == (600, [])


def test_two_hundred_flipped_bits_are_noticed(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance, found = random.Random(0), checkpoint_files(copy)
    for _ in range(200):
        path = chance.choice(found)
        content = bytearray(path.read_bytes())
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        content[place] ^= 1 << bit
        path.write_bytes(content)
        step, warnings = loaded(copy, caplog)
        assert (step, len(warnings)) == (550, 1), f"{path.name}, bit {bit} of byte {place}: {warnings}"
        content[place] ^= 1 << bit
        path.write_bytes(content)
    assert loaded(copy, caplog) == (600, [])


@pytest.mark.slow
def test_every_bit_of_the_manifest_and_of_the_policy_is_guarded(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = copy / "checkpoints" / "step_000000000600" / "MANIFEST.json"
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            assert loaded(copy, caplog)[0] == 550, (place, bit)


def test_a_missing_file_is_noticed(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in checkpoint_files(copy):
        content = path.read_bytes()
        path.unlink()
        assert loaded(copy, caplog)[0] == 550
        path.write_bytes(content)


def test_newest_two_checkpoints_share_no_file(straight: Straight) -> None:
    inodes = [
        {p.stat().st_ino for p in folder.iterdir()} for folder in (straight[0] / "checkpoints").glob("step_*")
    ]
    assert len(inodes) == 2 and not inodes[0] & inodes[1]


def test_run_goes_on_exactly_from_the_checkpoint_before(
    driver: Driver, copy: Path, straight: Straight
) -> None:
    (copy / "test.json").unlink()
    piece = max((copy / "checkpoints" / "step_000000000600").glob("replay_*"))
    piece.write_bytes(piece.read_bytes()[:-1])
    code, child = driver.run(command(copy))
    assert code == 0, child.output()
    assert child.output().count("warning:") == 1 and "Traceback" not in child.output()
    assert digest(copy) == straight[1]


def test_damaged_checkpoint_is_never_linked_from_nor_counted(
    driver: Driver, copy: Path, straight: Straight
) -> None:
    """The pieces of the damaged checkpoint must not come into the next one."""
    (copy / "test.json").unlink()
    first = min((copy / "checkpoints" / "step_000000000600").glob("replay_*"))
    first.write_bytes(b"\0" * first.stat().st_size)
    code, child = driver.run(command(copy))
    assert code == 0, child.output()
    assert Checkpoints(copy / "checkpoints").steps() == [600, 550]
    assert digest(copy) == straight[1]


def test_all_checkpoints_damaged_is_an_error_not_a_fresh_start(driver: Driver, copy: Path) -> None:
    (copy / "test.json").unlink()
    for path in (copy / "checkpoints").glob("step_*/state.json"):
        path.write_bytes(b"")
    code, child = driver.run(command(copy))
    assert code == 2 and "no checkpoint in" in child.output() and "Traceback" not in child.output()
    assert newest(copy) == 600  # nothing was touched


def test_checkpoint_whose_log_lost_lines_is_refused(driver: Driver, copy: Path, straight: Straight) -> None:
    (copy / "test.json").unlink()
    metrics = copy / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-40])  # the last line, written between 550 and 600
    code, child = driver.run(command(copy))
    assert code == 0, child.output()
    assert child.output().count("warning:") == 1 and "lines are missing" in child.output()
    assert digest(copy) == straight[1]


def test_damaged_policy_file_is_refused(straight: Straight, tmp_path: Path) -> None:
    content, path = (straight[0] / "best.safetensors").read_bytes(), tmp_path / "best.safetensors"
    chance = random.Random(1)
    for _ in range(200):
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
        with pytest.raises(CheckpointError):
            unseal(path)
    for place in range(0, len(content), max(1, len(content) // 20)):
        path.write_bytes(content[:place])
        with pytest.raises(CheckpointError):
            unseal(path)
