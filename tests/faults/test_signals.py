"""3. SIGTERM and SIGINT save everything and stop, wherever they come; a second one stops at once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from digest import digest
from harness import Driver, at, command, newest

Straight = tuple[Path, dict[str, str]]
# Name, event, its number, signal, exit code.
MOMENTS = [
    ("warm-up", "collect", 30, signal.SIGTERM, 143),
    ("collecting", "collect", 317, signal.SIGINT, 130),
    ("updating", "update", 123, signal.SIGTERM, 143),
    ("evaluating at step 0", "evaluate", 1, signal.SIGTERM, 143),
    ("evaluating", "evaluate", 3, signal.SIGINT, 130),
    ("saving the first checkpoint", "moment", 18, signal.SIGTERM, 143),
    ("saving", "moment", 77, signal.SIGINT, 130),
    ("a closed terminal", "collect", 317, signal.SIGHUP, 129),
]


@pytest.mark.parametrize(
    ("event", "n", "signum", "code"), [m[1:] for m in MOMENTS], ids=[m[0] for m in MOMENTS]
)
def test_signal_loses_no_step(
    driver: Driver, tmp_path: Path, straight: Straight, event: str, n: int, signum: int, code: int
) -> None:
    folder = tmp_path / "run"
    found, child = driver.run(command(folder), at(event, n, signum))
    assert found == code, child.output()
    assert newest(folder) == child.reached()  # the very step that was reached
    assert (folder / "checkpoints" / f"step_{child.reached():012d}" / "MANIFEST.json").exists()
    assert "saved" in child.output() and "Traceback" not in child.output()
    found, child = driver.run(command(folder))
    assert found == 0, child.output()
    assert digest(folder) == straight[1]


def test_signal_in_the_final_save_is_not_swallowed(
    driver: Driver, tmp_path: Path, straight: Straight
) -> None:
    folder = tmp_path / "run"
    code, child = driver.run(
        command(folder), at("evaluate", 4, signal.SIGUSR1)
    )  # ends the process: no handler
    assert code == -signal.SIGUSR1, child.output()
    code, child = driver.run(command(folder), at("evaluate", 1, 0), at("moment", 12, signal.SIGTERM, after=0))
    assert code == 143 and newest(folder) == 600, child.output()
    code, child = driver.run(command(folder))
    assert code == 0
    assert digest(folder) == straight[1]


def test_signal_in_the_final_test_stops_and_the_test_is_made_again(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, child = driver.run(command(folder), at("evaluate", 5, signal.SIGTERM))
    assert code == 143, child.output()
    assert newest(folder) == 600 and not (folder / "test.json").exists()
    code, child = driver.run(command(folder))
    assert code == 0 and (folder / "test.json").exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_stops_at_once_and_harms_nothing(
    driver: Driver, tmp_path: Path, straight: Straight, signum: int
) -> None:
    folder = tmp_path / "run"
    code, child = driver.run(command(folder), at("collect", 317, signum), at("moment", 5, signum, after=0))
    assert code == -signum, child.output()  # ended by the signal itself, in the middle of saving
    assert newest(folder) == 300
    code, child = driver.run(command(folder))
    assert code == 0, child.output()
    assert digest(folder) == straight[1]


def test_signal_while_tensorboard_writes(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = [*command(folder), "trainer.tensorboard=true", "trainer.log_every=1", "trainer.steps=200"]
    code, child = driver.run(argv, at("collect", 150, signal.SIGTERM))
    assert code == 143 and newest(folder) == child.reached() == 150, child.output()
    code, child = driver.run(argv)
    assert code == 0, child.output()
