"""The run directory: config, provenance, metrics, evaluations, checkpoints, policies; one process at a time."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from . import files
from .checkpoint import Checkpoints
from .config import Resolved, from_values, plain
from .errors import CheckpointError, UserError

_PACKAGES = (
    "torch",
    "numpy",
    "gymnasium",
    "mujoco",
    "box2d",
    "ase",
    "matscipy",
    "pettingzoo",
    "mpe2",
    "lbforaging",
)


class JsonLines:
    """A file of one JSON object per line that can be cut back to an earlier length."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None

    def append(self, record: dict[str, Any]) -> None:
        if self._file is None:
            self._file = open(self.path, "ab")
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def length(self) -> int:
        """Bytes on disk, made durable."""
        if self._file is not None:
            os.fsync(self._file.fileno())
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, length: int) -> None:
        """Forget what came after a checkpoint."""
        self.close()
        if self.path.exists():
            os.truncate(self.path, length)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self) -> list[dict[str, Any]]:
        """Every whole line; a half-written last one is left out."""
        if not self.path.exists():
            return []
        lines = files.read_regular(self.path).split(b"\n")[:-1]
        return [files.parse_json(line, self.path) for line in lines if line]


class Run:
    """One run directory."""

    def __init__(self, folder: Path, resolved: Resolved) -> None:
        self.folder, self.resolved = folder, resolved
        self.metrics = JsonLines(folder / "metrics.jsonl")
        self.evaluations = JsonLines(folder / "evaluations.jsonl")
        self.timing = JsonLines(folder / "timing.jsonl")
        self.checkpoints = Checkpoints(folder / "checkpoints", resolved.config.trainer.keep_checkpoints)
        self._lock: Any = None
        self._board: Any = None

    # ---- making and opening ----

    @classmethod
    def create(cls, folder: Path, resolved: Resolved, command: str) -> Run:
        """A new directory, or an existing one of exactly this config, which is then gone on with."""
        if (folder / "config.json").exists():
            run = cls.open(folder)
            _refuse_changes(run.resolved, resolved, folder)
            return run
        if folder.exists() and any(folder.iterdir()):
            raise UserError(
                f"{folder} exists and is not a run directory: nothing was touched; give another --run"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the run directory {folder}: {error.strerror}") from None
        run = cls(folder, resolved)
        files.replace_bytes(folder / "provenance.json", files.to_json(provenance(command)))
        record = {"values": plain(resolved.values), "origin": resolved.origin}
        files.replace_bytes(folder / "config.json", files.to_json(record))
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run directory."""
        if not (folder / "config.json").exists():
            raise UserError(f"{folder} is not a run directory (no config.json in it)")
        record = files.read_json(folder / "config.json")
        if not isinstance(record, dict) or not isinstance(record.get("values"), dict):
            raise CheckpointError(f"{folder / 'config.json'} is damaged")
        resolved = from_values(record["values"], str(folder / "config.json"))
        return cls(folder, Resolved(resolved.config, resolved.values, record.get("origin", {})))

    def lock(self) -> None:
        """Refuse a second process; the lock of a dead one is free by itself."""
        try:
            self._lock = open(self.folder / "lock", "a+")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise UserError(
                f"{self.folder} is in use by process {owner}: stop it first, or give another --run"
            ) from None
        except OSError as error:
            raise UserError(f"cannot write into {self.folder}: {error.strerror}") from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def close(self) -> None:
        for log in (self.metrics, self.evaluations, self.timing):
            log.close()
        if self._board is not None:
            self._board.close()
            self._board = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # ---- logging ----

    def log(self, step: int, values: dict[str, float]) -> None:
        """Metrics that are a function of the run alone: a resumed run writes the same bytes."""
        self.metrics.append({"step": step, **values})
        self._scalars(step, values)

    def log_timing(self, step: int, values: dict[str, float]) -> None:
        """Speeds and other values that differ from one execution to the next."""
        self.timing.append({"step": step, **values})
        self._scalars(step, {f"timing/{k}": v for k, v in values.items()})

    def log_evaluation(self, step: int, world: str, summary: dict[str, dict[str, float]]) -> None:
        self.evaluations.append({"step": step, "world": world, **summary})
        self._scalars(step, {f"{world}/{name}": s["mean"] for name, s in summary.items()})

    def _scalars(self, step: int, values: dict[str, float]) -> None:
        if not self.resolved.config.trainer.tensorboard:
            return
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter  # half a second: only when something is logged

            self._board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=step)
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def lengths(self) -> dict[str, int]:
        """How long the logs are at a checkpoint."""
        return {"metrics": self.metrics.length(), "evaluations": self.evaluations.length()}

    def cut(self, lengths: dict[str, int]) -> None:
        """Cut the logs back to a checkpoint."""
        self.metrics.cut(lengths["metrics"])
        self.evaluations.cut(lengths["evaluations"])


def _refuse_changes(old: Resolved, new: Resolved, folder: Path) -> None:
    """A run goes on only with the settings it began with; more steps are allowed."""
    ours, theirs = plain(old.values), plain(new.values)
    changed = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
    if changed:
        key = changed[0]
        raise UserError(
            f"{folder} holds a run with other settings ({key}: {ours.get(key)!r} there, {theirs.get(key)!r} now"
            f"{f', and {len(changed) - 1} more' if len(changed) > 1 else ''}): give another --run"
        )


def versions() -> dict[str, str]:
    """The installed versions of what a result depends on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def provenance(command: str) -> dict[str, Any]:
    """Where a result comes from: command, code, packages, machine."""
    here = Path(__file__).resolve().parent
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    ).stdout.strip()
    try:
        own = importlib.metadata.version("twofold")
    except importlib.metadata.PackageNotFoundError:
        own = "uninstalled"
    return {
        "command": command,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "twofold": own,
        "commit": commit or None,
        "python": platform.python_version(),
        "packages": versions(),
        "machine": {"system": platform.platform(), "cpu": cpu_name(), "cores": os.cpu_count()},
    }


def cpu_name() -> str:
    """The processor as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
