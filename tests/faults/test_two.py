"""10. Two processes on one run directory, at every interleaving that a stop of the first can force.

The first is stopped just before its n-th change on the disk, the second runs from its start to its end meanwhile, then
the first goes on. Whoever trains, the directory holds that run alone, whole, with its settings.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from harness import Child, Driver, at, command
from test_crash import SHORTEST, contents, done, sound

SEEDS = {"the same settings": "seed=0", "other settings": "seed=1"}


def stopped(child: Child, seconds: float = 120) -> None:
    """Wait until the process lies still."""
    end = time.monotonic() + seconds
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, child.output()
        time.sleep(0.005)


class Pair:
    """Two commands for one directory, and what each would have left alone."""

    def __init__(self, driver: Driver, place: Path, second: str) -> None:
        self.driver, self.place, self.second = driver, place, second
        self.wanted = {}
        for setting in {"seed=0", second}:
            folder = place / setting
            done(driver, command(folder, *SHORTEST, setting))
            self.wanted[setting] = contents(folder)

    def interleaved(self, n: int) -> None:
        folder = self.place / f"at{n}"
        first = self.driver.start(command(folder, *SHORTEST, "seed=0"), at("disk", n, signal.SIGSTOP))
        stopped(first)
        code, second = self.driver.run(command(folder, *SHORTEST, self.second))
        os.kill(first.pid, signal.SIGCONT)
        codes = [first.wait(), code]
        said = first.output() + second.output()
        assert "Traceback" not in said, said
        trained = f"seed={json.loads((folder / 'config.json').read_bytes())['values']['seed']}"
        if self.second == "seed=0":  # whoever comes late only reports what it finds, or is refused
            assert 0 in codes and set(codes) <= {0, 2}, said
        else:
            assert codes == ([0, 2] if trained == "seed=0" else [2, 0]), said
        sound(folder)
        assert contents(folder) == self.wanted[trained]
        shutil.rmtree(folder)


@pytest.mark.parametrize("second", SEEDS.values(), ids=SEEDS)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_a_second_process_in_the_middle_of_a_start_harms_nothing(
    driver: Driver, tmp_path: Path, second: str, n: int
) -> None:
    Pair(driver, tmp_path, second).interleaved(n)


@pytest.mark.slow
@pytest.mark.parametrize("second", SEEDS.values(), ids=SEEDS)
def test_a_second_process_at_every_change_of_a_whole_run_harms_nothing(
    driver: Driver, tmp_path: Path, second: str
) -> None:
    pair = Pair(driver, tmp_path, second)
    code, child = driver.run(command(tmp_path / "counted", *SHORTEST))
    assert code == 0, child.output()
    for n in range(1, child.changes() + 1):
        pair.interleaved(n)
