"""What bench.py needs besides the races: the peers' venv, machine facts, start-up time, replay memory."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from updates import machine_seconds

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "benchmarks" / "peers-constraints.txt"
PEERS = ("stable-baselines3", "sbx-rl", "tianshou", "torch", "gymnasium[mujoco]", "tensorboard")


def peers_python() -> Path:
    """The interpreter of the peers' venv, which is made if its pins have changed or it is not there."""
    venv = ROOT / ".venv-peers"
    python = venv / "bin" / "python"
    stamp = venv / f".pins-{hashlib.sha256(PINS.read_bytes() + repr(PEERS).encode()).hexdigest()[:16]}"
    if stamp.exists():
        return python
    print("installing the peers into .venv-peers (minutes, once)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", PINS, *PEERS], check=True)
    for old in venv.glob(".pins-*"):
        old.unlink()
    stamp.touch()
    return python


def machine() -> dict[str, Any]:
    """The hardware and system that the numbers belong to."""
    from twofold.store.provenance import cpu_name

    return {
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def commit_of(folder: str) -> str:
    """The commit that a checkout stands at, "unknown" if it is none."""
    asked = ["git", "-C", folder, "log", "-1", "--format=%h"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return said or "unknown"


def busy_cores(seconds: float = 0.5) -> float:
    """Cores that all processes together use while this one sleeps."""
    start, busy = time.perf_counter(), machine_seconds()
    time.sleep(seconds)
    return (machine_seconds() - busy) / (time.perf_counter() - start)


def help_seconds(times: int) -> float:
    """Median wall time of `twofold --help` in a new process."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        command = [sys.executable, "-m", "twofold", "--help"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def replay_memory(items: int = 1_000_000, chunk: int = 10_000) -> dict[str, float]:
    """Memory that a full replay of HalfCheetah takes, against its numbers as float32."""
    import gymnasium as gym
    import numpy as np

    from twofold.base import tree
    from twofold.core.experience import Written
    from twofold.core.replay import Ring
    from twofold.core.writers import TransitionWriter
    from twofold.rows.envs import EnvRows

    world = EnvRows(lambda: gym.make("HalfCheetah-v5"), 1)
    obs, action = world.single_observation_space, world.single_action_space
    blank = TransitionWriter(1, obs, action, n_step=1, gamma=0.99).blank()
    world.close()
    # The discount of n-step returns is our addition: not in the raw size.
    needed = [leaf for name, leaf in tree.items(blank) if name != "discount"]
    raw = 4 * items * sum(int(np.prod(leaf.shape[1:])) for leaf in needed)
    some = tree.map(lambda leaf: np.ones((chunk, *leaf.shape[1:]), leaf.dtype), blank)
    written = Written(some, np.zeros(chunk, np.int64), np.zeros(chunk, bool))
    before = resident_bytes()
    ring = Ring(items, blank, np.random.default_rng(0))
    for _ in range(items // chunk):
        ring.add(written)
    taken = resident_bytes() - before
    return {
        "items": items,
        "raw_bytes": raw,
        "array_bytes": ring.nbytes,
        "resident_bytes": taken,
        "ratio": max(taken, ring.nbytes) / raw,
    }


def resident_bytes() -> int:
    """Memory of this process that is really there."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
