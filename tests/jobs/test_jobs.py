"""Jobs survive kill -9 of anything at any moment, leave no process, and go on when repeated."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.made import make_run

from twofold.base.errors import UserError
from twofold.jobs import running
from twofold.jobs.launchers import Child, Processes
from twofold.jobs.running import Outcome, Progress, View, last_words, run_jobs
from twofold.lab.experiment import Job

FAKE = Path(__file__).parent.parent / "lab" / "fake_train.py"
COORDINATOR = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from jobs.test_jobs import Silent, jobs_in
from twofold.jobs.running import run_jobs
outcome = run_jobs(jobs_in(Path({folder!r}), {count}, {steps}, {pause}), Path({folder!r}), Silent(), limit=2, tick=0.02)
sys.exit(0 if outcome.done else 128 + (outcome.signal or 0))
"""


class Silent:
    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def show(self, jobs: Sequence[Progress]) -> None:
        pass


def job(folder: Path, seed: int, steps: int = 3, pause: float = 0.0, crash: int = -1) -> Job:
    place = folder / f"seed_{seed}"
    words = (str(place), str(seed), str(steps), str(pause), str(crash))
    return Job("pendulum", "default", seed, place, steps, (sys.executable, str(FAKE), *words))


def jobs_in(folder: Path, count: int, steps: int, pause: float) -> list[Job]:
    return [job(folder, seed, steps, pause) for seed in range(1, count + 1)]


def run(jobs: list[Job], folder: Path, limit: int = 2) -> Outcome:
    return run_jobs(jobs, folder, Silent(), limit=limit, tick=0.02)


def content(folder: Path) -> dict[str, bytes]:
    names = ("metrics.jsonl", "evaluations.jsonl", "test.json")
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for n in names for p in sorted(folder.rglob(n))}


def processes_of(folder: Path) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words:
                found.append(int(entry.name))
    return found


def wait_until(claim: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_all_jobs_are_done_and_a_repetition_does_nothing(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, 3, 4, 0.0)
    assert run(jobs, tmp_path).done
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")}
    again = run(jobs, tmp_path)
    assert again.done and [p.step for p in again.jobs] == [4, 4, 4]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")} == before
    assert processes_of(tmp_path) == []


def test_a_job_that_fails_twice_at_the_same_step_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    outcome = run([job(tmp_path, 1, crash=2), job(tmp_path, 2)], tmp_path)
    broken, fine = outcome.jobs
    assert (broken.state, broken.step, broken.ends) == ("failed", 1, [(1, False), (1, False)])
    assert broken.message == "the world broke at step 2"
    assert fine.state == "done"
    assert outcome.failed == [broken] and not outcome.done


def test_a_killed_child_is_started_again_and_writes_the_same_bytes(tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 2, 40, 0.0), tmp_path / "calm").done
    folder = tmp_path / "wild"
    killer = Killing(folder, kills=3)
    assert run_jobs(jobs_in(folder, 2, 40, 0.01), folder, killer, limit=2, tick=0.02).done
    assert killer.killed == 3
    assert content(folder) == content(tmp_path / "calm")
    assert processes_of(folder) == []


class Killing(Silent):
    """A view that kills a child now and then."""

    def __init__(self, folder: Path, kills: int) -> None:
        self.left, self.killed, self.random = kills, 0, random.Random(3)

    def show(self, jobs: Sequence[Progress]) -> None:
        running = [p.handle.process for p in jobs if isinstance(p.handle, Child) and p.step > 3]
        if running and self.left and self.random.random() < 0.3:
            self.random.choice(running).kill()
            self.left, self.killed = self.left - 1, self.killed + 1


def coordinator(
    folder: Path, count: int = 4, steps: int = 40, pause: float = 0.01
) -> subprocess.Popen[bytes]:
    code = COORDINATOR.format(
        tests=str(FAKE.parent.parent), folder=str(folder), count=count, steps=steps, pause=pause
    )
    return subprocess.Popen([sys.executable, "-c", code])


def test_a_killed_coordinator_leaves_no_process_and_goes_on_when_repeated(tmp_path: Path) -> None:
    assert run(jobs_in(tmp_path / "calm", 4, 40, 0.0), tmp_path / "calm").done
    folder, chance = tmp_path / "wild", random.Random(1)
    for _ in range(2):
        process = coordinator(folder)
        started = len(list(folder.rglob("metrics.jsonl")))
        wait_until(lambda: len(list(folder.rglob("metrics.jsonl"))) > started or process.poll() is not None)  # noqa: B023
        time.sleep(0.2 * chance.random())
        process.kill()
        process.wait()
        wait_until(lambda: processes_of(folder) == [])
    assert coordinator(folder).wait() == 0
    assert content(folder) == content(tmp_path / "calm")
    assert processes_of(folder) == []


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_children_and_says_so(tmp_path: Path, signum: int) -> None:
    process = coordinator(tmp_path, pause=0.05)
    wait_until(lambda: list(tmp_path.rglob("metrics.jsonl")))
    process.send_signal(signum)
    assert process.wait() == 128 + signum
    assert processes_of(tmp_path) == []


def test_a_second_coordinator_is_refused(tmp_path: Path) -> None:
    process = coordinator(tmp_path, pause=0.05)
    wait_until(lambda: list(tmp_path.rglob("metrics.jsonl")))
    with pytest.raises(UserError, match="another process runs the jobs"):
        run(jobs_in(tmp_path, 4, 40, 0.05), tmp_path)
    process.terminate()
    process.wait()


def test_a_child_that_somebody_stopped_is_not_started_again(tmp_path: Path) -> None:
    class Stopping(Silent):
        def show(self, jobs: Sequence[Progress]) -> None:
            for progress in jobs:
                if progress.handle is not None and progress.step == 2:
                    progress.handle.stop()

    outcome = run_jobs([job(tmp_path, 1, 200, 0.02)], tmp_path, Stopping(), tick=0.005)
    assert [p.state for p in outcome.jobs] == ["stopped"]


def test_a_directory_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    import fcntl

    made = make_run(tmp_path / "seed_1", score=None)
    waited: list[str] = []

    class Watching(Silent):
        def show(self, jobs: Sequence[Progress]) -> None:
            waited.append(jobs[0].message)
            if len(waited) == 3:
                lock.close()

    lock = open(made / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    (made / "metrics.jsonl").unlink()
    assert run_jobs([job(tmp_path, 1)], tmp_path, Watching(), tick=0.02).done
    assert waited[:3] == [f"process {os.getpid()} still has it"] * 3


def test_what_a_child_leaves_in_its_session_goes_with_it(tmp_path: Path) -> None:
    place = tmp_path / "seed_1"
    script = f"sleep 300 & mkdir -p {place}; echo $! > {tmp_path / 'left'}; exit 7"
    outcome = run([Job("w", "v", 1, place, 3, ("/bin/sh", "-c", script))], tmp_path)
    assert outcome.jobs[0].state == "failed"
    left = int((tmp_path / "left").read_text())
    wait_until(lambda: not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text())


def test_at_least_one_job_must_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--jobs must be at least 1"):
        run([], tmp_path, limit=0)


def test_last_words_are_the_reason(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 9000 + b"\nfirst\ntwofold: the reason \xff\n\n")
    assert last_words(tmp_path / "log") == "twofold: the reason \ufffd"
    assert last_words(tmp_path / "absent") == ""


class Nowhere(Processes):
    """A cluster that is not there."""

    def __enter__(self) -> Processes:
        raise UserError("no cluster")


def test_jobs_that_cannot_begin_leave_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cluster"):
        run_jobs([], tmp_path / "runs" / "mine", Silent(), launcher=Nowhere())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs").mkdir()
    with pytest.raises(UserError, match="no cluster"):
        run_jobs([], tmp_path / "runs", Silent(), launcher=Nowhere())
    assert (tmp_path / "runs").is_dir()


def test_a_job_whose_files_say_that_it_is_done_is_done_though_its_machine_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silenced:
        """A task whose machine was cut off after its work."""

        def code(self) -> None:
            return None

        def stop(self) -> None:
            """Nobody hears it."""

    class Far(Processes):
        def start(self, job: Job, log: Path) -> Any:
            child = super().start(job, log)
            wait_until(lambda: child.code() is not None, 60)
            return Silenced()

    monkeypatch.setattr(running, "_SILENCE", 0.2)
    found = run_jobs(jobs_in(tmp_path, 2, 4, 0.0), tmp_path, Silent(), limit=2, tick=0.05, launcher=Far())
    assert found.done and [p.step for p in found.jobs] == [4, 4]
