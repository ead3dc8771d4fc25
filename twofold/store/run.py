"""The run directory: config, provenance, metrics, evaluations, checkpoints, policies; one process at a time."""

from __future__ import annotations

import fcntl
import importlib.metadata
import logging
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from twofold.base.errors import CheckpointError, UserError
from twofold.core.protocols import Summary
from twofold.settings.config import Resolved, from_values, plain
from twofold.settings.domains import domains
from twofold.store import files
from twofold.store.checkpoint import Checkpoints
from twofold.store.formats import from_format_1
from twofold.store.jsonlines import JsonLines
from twofold.store.policy_file import weights_digest

FORMAT = 2  # of config.json
_PACKAGES = ("torch", "numpy", "pydantic")  # besides those that the domains name
_ABOUT_TEST = ("seeds", "step", "policy")  # what test.json says of itself; the rest are worlds


# What a start that was interrupted before config.json was written may have left.
_BEGINNINGS = {"provenance.json", ".provenance.json.tmp", ".config.json.tmp", "lock"}
log = logging.getLogger("twofold")


class Run:
    """One run directory."""

    def __init__(self, folder: Path, resolved: Resolved) -> None:
        self.folder, self.resolved = folder, resolved
        self.metrics = JsonLines(folder / "metrics.jsonl")
        self.evaluations = JsonLines(folder / "evaluations.jsonl")
        self.timing = JsonLines(folder / "timing.jsonl")
        self.checkpoints = Checkpoints(folder / "checkpoints", resolved.config.trainer.keep_checkpoints)
        self.longer = False  # more steps were asked for than when it began
        self.fresh = False  # made by this process
        self.made: list[Path] = []  # folders that were made for it, innermost first
        self._lock: Any = None
        self._board: Any = None

    # ---- making and opening ----

    @classmethod
    def create(cls, folder: Path, resolved: Resolved, command: str, imports: tuple[str, ...] = ()) -> Run:
        """A new directory, or an existing one of this config, which is then gone on with, perhaps for more steps."""
        try:
            if os.path.lexists(folder / "config.json"):
                run = cls.open(folder)
                _refuse_changes(run.resolved, resolved, folder)
                if resolved.config.trainer.steps > run.resolved.config.trainer.steps:
                    run = cls(folder, resolved)
                    run.longer = True
                return run
            if folder.exists() and {entry.name for entry in folder.iterdir()} - _BEGINNINGS:
                raise UserError(
                    f"{folder} exists and is not a run directory: nothing was touched; give another --run"
                )
            run = cls(folder, resolved)
            run.made = [above for above in (folder, *folder.parents) if not above.exists()]
            run.fresh = True
            folder.mkdir(parents=True, exist_ok=True)
            with files.disk_full_explained(folder, 100_000):
                files.replace_bytes(folder / "provenance.json", files.to_json(provenance(command, imports)))
            run.keep_config()
        except OSError as error:
            raise UserError(f"cannot make the run directory {folder}: {error.strerror}") from None
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run directory."""
        if not os.path.lexists(folder / "config.json"):
            raise UserError(f"{folder} is not a run directory (no config.json in it)")
        record = files.read_json(folder / "config.json")
        if not isinstance(record, dict) or not isinstance(record.get("values"), dict):
            raise CheckpointError(f"{folder / 'config.json'} is damaged")
        values = record["values"] if record.get("format") == FORMAT else from_format_1(record["values"])
        resolved = from_values(values, str(folder / "config.json"))
        origin = record.get("origin")
        return cls(
            folder, Resolved(resolved.config, resolved.values, origin if isinstance(origin, dict) else {})
        )

    def keep_config(self) -> None:
        """Write every setting and the layer that set it."""
        record = {"format": FORMAT, "values": plain(self.resolved.values), "origin": self.resolved.origin}
        with files.disk_full_explained(self.folder, 100_000):
            files.replace_bytes(self.folder / "config.json", files.to_json(record))

    def lock(self) -> None:
        """Refuse a second process; the lock of a dead one is free by itself."""
        path = self.folder / "lock"
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            self._lock = os.fdopen(handle, "r+")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = self._lock.read(20).strip() or "unknown"
            self._lock.close()
            self._lock = None
            raise UserError(
                f"{self.folder} is in use by process {owner}: stop it first, or give another --run"
            ) from None
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        for left in self.folder.glob(".*.tmp"):  # of a process that died while writing
            left.unlink()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The directory for this process alone; a start that fails before anything was kept leaves nothing."""
        self.lock()
        try:
            yield
        except BaseException:
            self.close()
            self._leave_nothing()
            raise
        self.close()

    def _leave_nothing(self) -> None:
        """Remove a start that never began, and the folders that were made for it."""
        if not self.fresh or {entry.name for entry in self.folder.iterdir()} - _BEGINNINGS - {"config.json"}:
            return
        for name in (*_BEGINNINGS, "config.json"):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's file is in one of them by now
            for folder in self.made:
                folder.rmdir()

    def check_lock(self) -> None:
        """Stop if the directory or its lock was taken away: another process could be writing there."""
        if self._lock is None:
            return
        try:
            ours = os.path.samestat(os.fstat(self._lock.fileno()), os.lstat(self.folder / "lock"))
        except OSError:
            ours = False
        if not ours:
            raise UserError(
                f"the run directory {self.folder} vanished or lost its lock: nothing can be saved, training stops"
            )

    def close(self) -> None:
        for lines in (self.metrics, self.evaluations, self.timing):
            lines.close()
        if self._board:
            try:
                self._board.close()
            except OSError as error:
                log.error("TensorBoard's file is incomplete: %s", error.strerror)
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
        """TensorBoard only shows what metrics.jsonl holds: if it fails, that is told once and training goes on."""
        if not self.resolved.config.trainer.tensorboard or self._board is False:
            return
        try:
            if self._board is None:
                from torch.utils.tensorboard import (
                    SummaryWriter,
                )  # half a second: only when something is logged

                folder = files.real_folder(self.folder / "tensorboard")
                self._board = SummaryWriter(str(folder), purge_step=step)
            for name, value in values.items():
                self._board.add_scalar(name, value, step)
        except OSError as error:
            log.error("TensorBoard's file cannot be written (%s): going on without it", error.strerror)
            self._board = False

    def lengths(self) -> dict[str, int]:
        """How long the logs are at a checkpoint, everything in them durable."""
        return {"metrics": self.metrics.length(), "evaluations": self.evaluations.length()}

    def check_logs(self, state: Any) -> None:
        """Refuse a checkpoint that knows of more lines than the logs hold."""
        self.metrics.check(int(state["logs"]["metrics"]))
        self.evaluations.check(int(state["logs"]["evaluations"]))

    def cut(self, lengths: dict[str, int]) -> None:
        """Cut the logs back to a checkpoint."""
        self.metrics.cut(lengths["metrics"])
        self.evaluations.cut(lengths["evaluations"])

    # ---- the best policy and its score ----

    @property
    def best_policy(self) -> Path:
        return self.folder / "best.safetensors"

    def keep_test(self, found: dict[str, dict[str, Summary]], seeds: list[int], step: int) -> None:
        """Write the final score, with the policy and the step that it belongs to."""
        about = {
            "seeds": [seeds[0], seeds[-1]],
            "step": step,
            "policy": weights_digest(self.best_policy),
        }
        content = files.to_json(about | found)
        with files.disk_full_explained(self.folder, len(content)):
            files.replace_bytes(self.folder / "test.json", content)

    def test_scores(self) -> dict[str, dict[str, Summary]] | None:
        """The final score of a run that has come to its end, or None; it is the last thing that a run writes."""
        steps = self.checkpoints.steps()
        path = self.folder / "test.json"
        if not path.is_file() or not steps or steps[0] < self.resolved.config.trainer.steps:
            return None
        record = files.read_json(path)
        if not isinstance(record, dict):
            raise CheckpointError(f"{path} is damaged: remove it to have it made again")
        if record.get("step") != steps[0] or record.get("policy") != weights_digest(self.best_policy):
            return None  # of a shorter run: the test is made again
        return {name: scores for name, scores in record.items() if name not in _ABOUT_TEST}


def _refuse_changes(old: Resolved, new: Resolved, folder: Path) -> None:
    """A run goes on only with the settings it began with; more steps are allowed."""
    ours, theirs = plain(old.values), plain(new.values)
    changed = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
    if new.config.trainer.steps > old.config.trainer.steps:
        changed.remove("trainer.steps")
    if changed:
        key = changed[0]
        raise UserError(
            f"{folder} holds a run with other settings ({key}: {ours.get(key)!r} there, {theirs.get(key)!r} now"
            f"{f', and {len(changed) - 1} more' if len(changed) > 1 else ''}): give another --run"
        )


def versions() -> dict[str, str]:
    """The installed versions of what a result depends on."""
    found = {}
    wanted = (*_PACKAGES, *(package for domain in domains().values() for package in domain.packages))
    for name in dict.fromkeys(wanted):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def imports_of(place: Path) -> list[str]:
    """The --import names that a run was made with, of a run directory or of a policy file inside of one.

    They are only ever shown: what is imported is the user's word alone.
    """
    folder = place if place.is_dir() else place.parent
    try:
        record = files.read_json(folder / "provenance.json")
    except CheckpointError:
        return []
    names = record.get("imports") if isinstance(record, dict) else None
    return [name for name in names if _can_be_shown(name)] if isinstance(names, list) else []


def _can_be_shown(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) < 200 and name.isprintable()


def provenance(command: str, imports: tuple[str, ...] = ()) -> dict[str, Any]:
    """Where a result comes from: command, code, packages, machine."""
    here = Path(__file__).resolve().parent
    command_line = ["git", "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(
            command_line, cwd=here, capture_output=True, text=True, check=False
        ).stdout.strip()
    except OSError:
        commit = ""  # no git here
    try:
        own = importlib.metadata.version("twofold")
    except importlib.metadata.PackageNotFoundError:
        own = "uninstalled"
    return {
        "command": command,
        "imports": list(imports),
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
