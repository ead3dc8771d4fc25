"""1. A run stopped in the middle and gone on with by a new process ends with the same bytes as one never stopped."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from digest import digest
from harness import Driver, at, command, newest

SHORT = ("trainer.steps=300", "trainer.eval_every=150")
WALKS = (*SHORT, "trainer.eval_every=300")
# In processes of their own; every learner, world and setting is stopped everywhere by test_resume.py.
# Name, --env-config, settings, and the call of the collector that is interrupted.
RUNS = [
    ("in the warm-up", "pendulum", SHORT, 60),
    ("two threads", "pendulum", (*SHORT, "threads=2"), 170),
    ("three rows", "pendulum", (*SHORT, "trainer.rows=3"), 61),
    ("fast walker", "walker", (*WALKS, "trainer.rows=3"), 61),
    ("BipedalWalker", "bipedal", WALKS, 170),
    ("HalfCheetah", "halfcheetah", WALKS, 170),
]


@pytest.mark.parametrize(("env", "settings", "call"), [run[1:] for run in RUNS], ids=[run[0] for run in RUNS])
def test_split_run_equals_straight_run(
    driver: Driver, tmp_path: Path, env: str, settings: tuple[str, ...], call: int
) -> None:
    code, child = driver.run(command(tmp_path / "straight", *settings, env=env))
    assert code == 0, child.output()
    split = command(tmp_path / "split", *settings, env=env)
    code, child = driver.run(split, at("collect", call, signal.SIGTERM))
    assert code == 143, child.output()
    assert newest(tmp_path / "split") == child.reached() < 300
    code, child = driver.run(split)
    assert code == 0, child.output()
    assert digest(tmp_path / "split") == digest(tmp_path / "straight")


def test_digest_sees_one_changed_bit_of_the_best_policy(
    driver: Driver, straight: tuple[Path, dict[str, str]]
) -> None:
    folder, before = straight
    path = folder / "best.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    changed = {part for part, value in digest(folder).items() if value != before[part]}
    path.write_bytes(content)
    assert changed == {"best"}


def test_another_seed_has_another_digest(
    driver: Driver, straight: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    code, _ = driver.run(command(tmp_path / "other", "--seed=1"))
    assert code == 0
    same = {part for part, value in digest(tmp_path / "other").items() if value == straight[1][part]}
    assert same == set()
