"""What the fault tests share: tiny runs, the driver's other end, and checks of a run directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.store.checkpoint import Checkpoints

HERE = Path(__file__).parent
TINY = (
    "trainer.steps=600",
    "trainer.warmup=100",
    "trainer.eval_every=200",
    "trainer.eval_episodes=1",
    "trainer.test_episodes=1",
    "trainer.log_every=50",
    "trainer.save_every=50",
    "trainer.tensorboard=false",
    "replay.batch_size=16",
    "replay.buffer_size=300",
    "networks.actor_hidden=8",
    "networks.critic_hidden=8",
)


def command(folder: Path, *settings: str, env: str = "pendulum") -> list[str]:
    """A tiny training run, as typed."""
    return ["train", "--config=td3", f"--env-config={env}", f"--run={folder}", *TINY, *settings]


@dataclass
class Child:
    """A `twofold` process: its pid, its output, and the step that it had reached when it ended."""

    driver: Driver
    pid: int
    log: Path
    progress: Path

    def wait(self, seconds: float = 600) -> int:
        """The exit code; negative if a signal ended it."""
        code = self.driver.ask({"wait": self.pid, "seconds": seconds})
        if code is None:
            os.kill(self.pid, 9)
            raise TimeoutError(f"still running after {seconds} s: {self.output()}")
        return int(code)

    def output(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def reached(self) -> int:
        text = self.progress.read_bytes() if self.progress.exists() else b""
        return int(text[:12].strip(b"\0") or 0)

    def changes(self) -> int:
        """How often it changed something in its run directory, if it came to its end."""
        return int(self.progress.read_bytes()[12:])

    def wait_for_step(self, step: int, seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while self.reached() < step:
            assert time.monotonic() < end, self.output()
            time.sleep(0.005)


class Driver:
    """One interpreter with everything imported, which forks a child for each command."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent.parent)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"

    def ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, argv: list[str], *hooks: dict[str, Any], rlimit: dict[str, int] | None = None) -> Child:
        self.count += 1
        log, progress = self.folder / f"{self.count}.log", self.folder / f"{self.count}.steps"
        request = {"argv": argv, "hooks": hooks, "log": str(log), "progress": str(progress)}
        request["folder"] = next((a.removeprefix("--run=") for a in argv if a.startswith("--run=")), argv[-1])
        pid = self.ask({**request, "rlimit": rlimit or {}})
        return Child(self, pid, log, progress)

    def run(
        self, argv: list[str], *hooks: dict[str, Any], rlimit: dict[str, int] | None = None
    ) -> tuple[int, Child]:
        """Start and wait: (exit code, child)."""
        child = self.start(argv, *hooks, rlimit=rlimit)
        return child.wait(), child

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(120)


def at(event: str, n: int, signum: int, after: int | None = None) -> dict[str, Any]:
    """A fault: `signum` at the n-th `event`, counted after the fault number `after` has struck."""
    return {"event": event, "at": n, "signal": signum, "after": after}


def newest(folder: Path) -> int:
    """The step of the newest checkpoint; 0 if there is none."""
    return next(iter(Checkpoints(folder / "checkpoints").steps()), 0)


def leftovers(folder: Path) -> list[str]:
    """Temporary names that nothing will ever look at again."""
    found = [p.name for p in folder.rglob("*") if p.name.endswith(".tmp") or p.name.startswith(".tmp")]
    return found + [p.name for p in folder.rglob("replaced_*")]
