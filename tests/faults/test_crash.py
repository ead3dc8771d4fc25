"""2. Killed before every single change that a run makes on the disk, and in the middle of every line that it writes.

A start, saves, the end (the finalists' choice, the curve, the test), a longer run, and a resume: whatever the moment,
the same command goes on and leaves the same bytes in every file. TensorBoard's files are left out: they show what
metrics.jsonl holds, its own package writes them, and a resumed run adds a second one by design.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from digest import digest
from harness import Driver, at, command, leftovers

from twofold.lab.runs import read_run

SHORTEST = (
    "trainer.steps=8",
    "trainer.warmup=2",
    "trainer.eval_every=4",
    "trainer.log_every=3",
    "trainer.save_every=4",
    "trainer.finalists=2",
    "trainer.finalist_episodes=1",
    "replay.batch_size=2",
    "replay.buffer_size=6",
    "networks.actor_hidden=4",
    "networks.critic_hidden=4",
    'env_args.kwargs={"max_episode_steps":3}',
)
LONGER = (*SHORTEST, "trainer.steps=12")
# What says when and by whom something was done, and is another every time.
TIMES = {"lock", "timing.jsonl", "provenance.json", "starts.jsonl", "log.txt", "state.json"}
FEW = 5  # moments of each scenario that the short form tries


def contents(folder: Path) -> dict[str, str]:
    """Checksums of all that a run has written, but for the times; what the newest checkpoint holds."""
    files = {p.name: p for p in folder.iterdir() if p.is_file() and p.name not in TIMES}
    return digest(folder) | {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in sorted(files.items())}


def sound(folder: Path) -> None:
    """What is not the same every time is whole, and the run says that it is finished."""
    assert leftovers(folder) == []
    provenance, state = (
        json.loads((folder / f"{name}.json").read_bytes()) for name in ("provenance", "state")
    )
    assert provenance["packages"] and state["state"] == "finished"
    for name in ("starts.jsonl", "timing.jsonl"):
        for line in (folder / name).read_text().split("\n")[:-1]:  # readers leave half a last line out
            assert isinstance(json.loads(line), dict), f"{name}: {line[:200]}"
    record, problems = read_run(folder)
    assert (record.state, problems) == ("finished", [])


def done(driver: Driver, argv: list[str], code: int = 0) -> None:
    found, child = driver.run(argv)
    assert found == code, child.output()


class Scenario:
    """A command, and what lies in its run directory when it is given."""

    def __init__(self, driver: Driver, place: Path, name: str) -> None:
        self.driver, self.start, self.settings = driver, place / "start", SHORTEST
        if name == "a longer run":
            done(driver, command(self.start, *SHORTEST))
            self.settings = LONGER
        if name == "a resume":
            code, child = driver.run(command(self.start, *SHORTEST), at("collect", 6, signal.SIGTERM))
            assert code == 143, child.output()
        straight = self.prepared(place / "straight")
        code, child = driver.run(command(straight, *self.settings))
        assert code == 0, child.output()
        sound(straight)
        self.changes, self.wanted = child.changes(), contents(straight)

    def prepared(self, folder: Path) -> Path:
        if self.start.exists():
            shutil.copytree(self.start, folder)
        return folder

    def killed_at(self, n: int, folder: Path) -> None:
        """Kill it at its n-th change; the same command must bring it to the same end."""
        self.prepared(folder)
        code, child = self.driver.run(command(folder, *self.settings), at("disk", n, signal.SIGKILL))
        assert code == -9, f"change {n}: {child.output()}"
        code, child = self.driver.run(command(folder, *self.settings))
        assert code == 0, f"after change {n}: {child.output()}"
        assert "Traceback" not in child.output(), f"after change {n}: {child.output()}"
        sound(folder)
        assert contents(folder) == self.wanted, f"after change {n}"
        shutil.rmtree(folder)


NAMES = ("start, saves and end", "a longer run", "a resume")


def spread(changes: int) -> Iterator[int]:
    """A few moments over the whole, the first and the last among them."""
    return (1 + round(i * (changes - 1) / (FEW - 1)) for i in range(FEW))


@pytest.mark.parametrize("name", NAMES)
def test_a_few_changes_at_which_it_is_killed_leave_no_trace(
    driver: Driver, tmp_path: Path, name: str
) -> None:
    scenario = Scenario(driver, tmp_path, name)
    for n in spread(scenario.changes):
        scenario.killed_at(n, tmp_path / f"at{n}")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_change_at_which_it_is_killed_leaves_a_trace(driver: Driver, tmp_path: Path, name: str) -> None:
    scenario = Scenario(driver, tmp_path, name)
    for n in range(1, scenario.changes + 1):
        scenario.killed_at(n, tmp_path / f"at{n}")
