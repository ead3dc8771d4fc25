"""4. A worker that is killed, raises or hangs is replaced and its step made again; one that fails again is cut."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty import make
from harness import HERE, Driver, command, newest

from twofold.base.errors import WorldError
from twofold.core.experience import Steps
from twofold.core.writers import TransitionWriter
from twofold.rows.workers import WorkerRows

ROWS = 2


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


def rows(fault: str, marker: Path | None, **more: Any) -> WorkerRows:
    kwargs = {"fault": fault, "at": 5, "marker": "" if marker is None else str(marker)}
    return WorkerRows(partial(make, **kwargs), ROWS, workers=more.pop("workers", 1), **more)


def collected(world: WorkerRows, steps: int, n_step: int) -> tuple[list[Any], list[int]]:
    """(transitions, steps at which rows were broken) of a collector that does just what the real one does."""
    writer = TransitionWriter(
        ROWS, world.single_observation_space, world.single_action_space, n_step=n_step, gamma=0.5
    )
    items, broken = [], []
    obs, _ = world.reset(seed=[10, 20], options={"reset_mask": np.ones(ROWS, bool)})
    for i in range(steps):
        action = np.zeros((ROWS, 1), np.float32)
        next_obs, reward, terminated, truncated, info = world.step(action)
        valid = ~info.get("broken", np.zeros(ROWS, bool))
        if not valid.all():
            broken.append(i)
            assert truncated[~valid].all() and not terminated[~valid].any()
        if (
            new := writer.step(Steps(obs, action, reward, next_obs, terminated, truncated, valid))
        ) is not None:
            items += [
                tuple(np.copy(x) for x in row)
                for row in zip(new.items.obs, new.items.next_obs, new.items.reward, strict=True)
            ]
        obs = next_obs
        if (done := terminated | truncated).any():
            obs, _ = world.reset(seed=[100 + i, 200 + i], options={"reset_mask": done})
    return items, broken


CAUSES = {"kill": "exit code -9", "raise": "the simulator exploded", "hang": "no answer within 1 s"}


@pytest.mark.parametrize("fault", ["kill", "raise", "hang"])
def test_a_worker_that_fails_once_gives_the_same_bytes(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    disturbed, quiet = rows(fault, marker, hang_limit=1.0), rows("none", None)
    try:
        items, broken = collected(disturbed, 20, 3)
        wanted, _ = collected(quiet, 20, 3)
    finally:
        disturbed.close()
        quiet.close()
    assert broken == [] and len(items) == len(wanted)
    for one, other in zip(items, wanted, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert [CAUSES[fault] in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize("n_step", [1, 3])
def test_rows_that_fail_twice_at_one_step_are_cut_and_nothing_wrong_is_learnt(n_step: int) -> None:
    world = rows("raise", None, max_restarts=100)
    try:
        items, broken = collected(world, 12, n_step)
    finally:
        world.close()
    assert broken == [4, 9]  # training went on after each
    assert items
    for obs, next_obs, reward in items:
        assert next_obs[0] == obs[0]  # never into another episode
        steps = int(next_obs[1] - obs[1])
        assert 1 <= steps <= n_step
        assert reward == sum(0.5**k * (obs[1] + k) for k in range(steps))


def test_rows_that_are_no_function_of_seed_and_actions_are_cut_by_a_failure(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    world = rows("raise random", marker)
    try:
        _, broken = collected(world, 10, 1)
        assert broken == [4]
    finally:
        world.close()


def test_worker_that_dies_in_reset_leaves_its_other_rows_where_they_were(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    world = rows("reset kill", marker)
    try:
        world.reset(seed=[10, 20], options={"reset_mask": np.ones(ROWS, bool)})
        for _ in range(7):
            world.step(np.zeros((ROWS, 1), np.float32))
        marker.touch()
        obs, _ = world.reset(seed=[30, 99], options={"reset_mask": np.array([True, False])})
        assert obs.tolist() == [[30, 0], [20, 7]]
        assert world.step(np.zeros((ROWS, 1), np.float32))[0].tolist() == [[30, 1], [20, 8]]
    finally:
        world.close()


def test_too_many_failures_stop_with_the_cause(tmp_path: Path) -> None:
    world = rows("raise", None, max_restarts=2)
    try:
        with pytest.raises(
            WorldError, match=r"failed 3 times within 600 s.*max_restarts=2.*simulator exploded"
        ):
            collected(world, 40, 1)
    finally:
        world.close()


def test_failures_longer_ago_than_the_window_do_not_count(tmp_path: Path) -> None:
    world = rows("raise", None, max_restarts=1, window=1e-3)
    try:
        _, broken = collected(world, 20, 1)
        assert broken == [4, 9, 14, 19]
    finally:
        world.close()


def test_environment_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="nonsense"):
        WorkerRows(partial(make, nonsense=1), 1, 1)


def test_training_goes_on_when_a_worker_is_killed_from_outside(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = command(
        folder, "env_args.id=Faulty-v0", "trainer.rows=2", "trainer.workers=2", "trainer.steps=400", env="gym"
    )
    child = driver.start([*argv, f"--import={HERE / 'faulty.py'}"])
    child.wait_for_step(20)
    workers = children(child.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert child.wait() == 0, child.output()
    assert newest(folder) == 400
    assert child.output().count("restarted") == 1 and "Traceback" not in child.output()
    assert not any(alive(pid) for pid in workers)


def test_no_worker_outlives_a_killed_parent_even_when_it_hangs(driver: Driver, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    faults = ("env_args.kwargs.fault=hang", "env_args.kwargs.at=5", f"env_args.kwargs.marker={marker}")
    long = (
        "trainer.steps=100_000",
        "trainer.eval_every=100_000",
        "trainer.hang_limit=60",
        "trainer.warmup=100_000",
    )
    argv = command(tmp_path / "run", "env_args.id=Faulty-v0", "trainer.workers=1", *faults, *long, env="gym")
    child = driver.start([*argv, f"--import={HERE / 'faulty.py'}"])
    child.wait_for_step(1)
    marker.touch()
    while marker.exists():
        time.sleep(0.01)
    workers = children(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    end = time.monotonic() + 10
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """Worker processes of a process; the helper that multiprocessing starts with them is not one."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in found if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


def alive(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
    except OSError:
        return False
