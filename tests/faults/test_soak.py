"""11. A long run: memory stays where it is once replay is full, and no process or file handle is left."""

from __future__ import annotations

import gc
import os
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.assemble import assemble
from twofold.settings import config
from twofold.store.run import Run


def resident() -> float:
    """Megabytes of memory that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def soak(folder: Path, steps: int, env: str, **more: Any) -> tuple[float, int]:
    """(growth in MB per 10k steps after replay is full, file handles left over) of a whole run."""
    import faulty  # noqa: F401  (registers the environments)

    trained = {"steps": steps, "warmup": 200, "eval_every": steps // 20, "eval_episodes": 1, "log_every": 500}
    resolved = config.load(
        "td3",
        "gym",
        env_args={"id": env},
        networks={"actor_hidden": [8], "critic_hidden": [8]},
        replay={"batch_size": 8, "buffer_size": 1000},
        trainer={
            **trained,
            "updates_per_item": 0.05,
            "save_every": steps // 40,
            "tensorboard": False,
            **more,
        },
    )
    resource_tracker.ensure_running()  # Python's own: one for the whole life of a process that spawns others
    gc.collect()  # what other tests have left
    handles = len(os.listdir("/proc/self/fd"))
    own = str(Path(__file__).parent / "faulty.py")
    made = assemble(Run.create(folder, resolved, "test"), (own,)).trainer
    collect, seen = made._collect, []

    def collected() -> None:
        collect()
        if made.steps % (steps // 40) < made.cfg.rows and made.steps >= steps // 4:
            gc.collect()
            seen.append((made.steps, resident()))

    made._collect = collected  # type: ignore[method-assign]
    made.keeper.run.lock()
    made.train()
    made.collector.world.close()
    for world in made.evaluations.values():
        world.close()
    made.keeper.run.close()
    at, memory = np.array(seen).T
    return float(np.polyfit(at, memory, 1)[0] * 10_000), len(os.listdir("/proc/self/fd")) - handles


def test_memory_and_handles_stay_where_they_are(tmp_path: Path) -> None:
    growth, left = soak(tmp_path / "run", 20_000, "Faulty-v0")
    assert growth < 1 and left <= 0


@pytest.mark.slow
@pytest.mark.parametrize(("env", "more"), [("Faulty-v0", {}), ("Faulty-v0", {"rows": 4, "workers": 2})])
def test_memory_and_handles_stay_over_two_hundred_thousand_steps(tmp_path: Path, env: str, more: Any) -> None:
    growth, left = soak(tmp_path / "run", 220_000, env, **more)
    assert growth < 1 and left == 0


def test_episode_without_end_takes_bytes_not_kilobytes_for_each_step() -> None:
    """The log of actions that exact resuming needs grows by the action alone."""
    from twofold.rows.envs import EpisodeLog

    log, action = EpisodeLog(1), np.zeros(6, np.float32)
    log.start(0, 7)
    before = resident()
    for _ in range(200_000):
        log.step(0, action)
    assert resident() - before < 20  # 24 bytes each, with room to double
    assert log.played(0).shape == (200_000, 6)
