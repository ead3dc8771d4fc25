"""The run directory: config, provenance, metrics, evaluations, checkpoints, policies; one process at a time."""

from __future__ import annotations

import logging
import math
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import read_json
from twofold.base.regular import is_folder, is_there, names_in, read_regular
from twofold.base.statistics import summaries
from twofold.base.values import table
from twofold.core.protocols import Episodes, State, Summary
from twofold.settings.config import Resolved, from_values, neutral, plain
from twofold.store import files
from twofold.store.checkpoint import Checkpoints
from twofold.store.formats import from_format_1, without_gone
from twofold.store.journal import Journal
from twofold.store.jsonlines import JsonLines
from twofold.store.lock import RunLock
from twofold.store.policy_file import weights_digest
from twofold.store.provenance import provenance
from twofold.store.records import read_test
from twofold.store.sinks import Sinks

FORMAT = 2  # of config.json
_ENGINE = "learner.engine"  # how updates are computed, to rounding the same: may change while a run goes on


# What a start that was interrupted before config.json was written may have left.
_BEGINNINGS = {"provenance.json", ".provenance.json.tmp", ".config.json.tmp", "lock"}
_MAX_LOCK = 400  # bytes
# What a run holds before its first step.
_STARTED = _BEGINNINGS | {"config.json", "state.json", ".state.json.tmp", "starts.jsonl", "log.txt"}
log = logging.getLogger("twofold")


class Run:
    """One run directory."""

    def __init__(self, folder: Path, resolved: Resolved) -> None:
        self.folder, self.resolved = folder, resolved
        self.metrics = JsonLines(folder / "metrics.jsonl")
        self.evaluations = JsonLines(folder / "evaluations.jsonl")
        self.timing = JsonLines(folder / "timing.jsonl")
        self.checkpoints = Checkpoints(folder / "checkpoints", resolved.config.trainer.keep_checkpoints)
        self.changed = (
            False  # more steps were asked for than when it began, or a setting that changes no byte
        )
        self.fresh = False  # made by this process
        self.made: list[Path] = []  # folders that were made for it, innermost first
        self.command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        self.journal = Journal(folder, resolved.config.trainer.steps, self.checkpoints.newest)
        self._lock = RunLock(folder)
        self._sinks = Sinks(folder, resolved)

    # ---- making and opening ----

    @classmethod
    def create(cls, folder: Path, resolved: Resolved, command: str, imports: tuple[str, ...] = ()) -> Run:
        """A new directory, or an existing one of this config, which is then resumed, perhaps for more steps."""
        _refuse_foreign(folder)
        if is_there(folder / "config.json"):
            cls.open(folder).with_changes(resolved, command)  # other settings are refused, nothing is touched
        lock = RunLock(folder)
        try:
            made = [above for above in (folder, *folder.parents) if not is_there(above)]
            folder.mkdir(parents=True, exist_ok=True)
            lock.take()  # before anything is written: another process may be about to begin here, too
            run = cls._begun(folder, resolved, command, imports)
        except BaseException as error:
            lock.release()
            if isinstance(error, OSError):
                why = error.strerror
                raise UserError(f"cannot make the run directory {folder}: {why}") from None
            raise
        run._lock = lock
        run.made = made if run.fresh else []
        return run

    @classmethod
    def _begun(cls, folder: Path, resolved: Resolved, command: str, imports: tuple[str, ...]) -> Run:
        """The run that is there, or a new one; nobody else is at it now."""
        if is_there(folder / "config.json"):
            return cls.open(folder).with_changes(resolved, command)
        run = cls(folder, resolved)
        run.command, run.fresh = command, True
        with files.disk_full_explained(folder, 100_000):
            files.replace_bytes(folder / "provenance.json", files.to_json(provenance(command, imports)))
        run.keep_config()
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run directory."""
        if not is_there(folder / "config.json"):
            raise UserError(f"{folder} is not a run directory (no config.json in it)")
        record = read_json(folder / "config.json", finite=False)
        if not isinstance(record, dict) or not isinstance(record.get("values"), dict):
            raise CheckpointError(f"{folder / 'config.json'} is damaged")
        given = table(record, "values")
        values = without_gone(given) if record.get("format") == FORMAT else from_format_1(given)
        resolved = from_values(values, str(folder / "config.json"))
        noted = record.get("origin")
        origin = {k: str(v) for k, v in noted.items()} if isinstance(noted, dict) else {}
        return cls(folder, Resolved(resolved.config, resolved.values, origin))

    def with_changes(self, resolved: Resolved, command: str) -> Run:
        """This run with more steps, another engine or settings that change no byte; other changes are refused."""
        _refuse_changes(self.resolved, resolved, self.folder)
        run = self
        if resolved.config.trainer.steps >= self.resolved.config.trainer.steps and (
            plain(resolved.values) != plain(self.resolved.values)
        ):
            run = Run(self.folder, resolved)
            run.changed = True
        run.command = command
        return run

    def keep_config(self) -> None:
        """Write every setting and the layer that set it."""
        record = {"format": FORMAT, "values": plain(self.resolved.values), "origin": self.resolved.origin}
        with files.disk_full_explained(self.folder, 100_000):
            files.replace_bytes(self.folder / "config.json", files.to_json(record))

    def keep_engine(self, name: str, step: int) -> None:
        """Note in the provenance what computes the updates from this step on, where it is something new."""
        path = self.folder / "provenance.json"
        try:
            record = table(read_json(path))
        except (CheckpointError, OSError, TypeError, ValueError):
            return  # lost or damaged: nothing that training needs
        known = str(record.get("engine", ""))
        if known.split()[-1:] == [name]:
            return
        engine = f"{known}, from step {step} on {name}" if known and step else name
        with files.disk_full_explained(self.folder, 100_000):
            files.replace_bytes(path, files.to_json({**record, "engine": engine}))

    def lock(self) -> None:
        """Refuse a second process; then write what changed in the settings."""
        self._lock.take()
        for left in self.folder.glob(".*.tmp"):  # of a process that died while writing
            with suppress(OSError):  # a directory of that name is not ours
                left.unlink()
        if self.changed:
            self.keep_config()

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
        with suppress(OSError):  # somebody else's file is in one of them by now
            if not self.fresh or {entry.name for entry in self.folder.iterdir()} - _STARTED:
                return
            for name in _STARTED:
                (self.folder / name).unlink(missing_ok=True)
            for folder in self.made:
                folder.rmdir()

    def check_lock(self) -> None:
        """Stop if the directory or its lock was taken away."""
        self._lock.check()

    def close(self) -> None:
        for lines in (self.metrics, self.evaluations, self.timing):
            lines.close()
        self._sinks.close()
        self._lock.release()

    # ---- logging ----

    def log(self, step: int, values: dict[str, float]) -> None:
        """Metrics that are a function of the run alone: a resumed run writes the same bytes."""
        self._lock.beat()
        self.metrics.append({"step": step, **values})
        self._sinks.scalars(step, values)

    def log_timing(self, step: int, values: dict[str, float]) -> None:
        """Speeds and other values that differ from one execution to the next."""
        self.timing.append({"step": step, **values})
        self._sinks.scalars(step, {f"timing/{k}": v for k, v in values.items()})

    def log_evaluation(self, step: int, world: str, summary: dict[str, dict[str, float]]) -> None:
        self.evaluations.append({"step": step, "world": world, **summary})
        self._sinks.scalars(step, {f"{world}/{name}": s["mean"] for name, s in summary.items()})

    def lengths(self) -> dict[str, int]:
        """How long the logs are at a checkpoint, everything in them durable."""
        return {"metrics": self.metrics.length(), "evaluations": self.evaluations.length()}

    def check_logs(self, state: State) -> None:
        """Refuse a checkpoint that knows of more lines than the logs hold."""
        self.metrics.check(int(state["logs"]["metrics"]))
        self.evaluations.check(int(state["logs"]["evaluations"]))

    def cut(self, lengths: dict[str, int]) -> None:
        """Cut the logs back to a checkpoint."""
        self.metrics.cut(int(lengths["metrics"]))
        self.evaluations.cut(int(lengths["evaluations"]))

    # ---- the best policy and its score ----

    @property
    def best_policy(self) -> Path:
        return self.folder / "best.safetensors"

    def keep_test(self, found: dict[str, Episodes], seeds: list[int], step: int) -> None:
        """Write the final score with its episodes, and with the policy and the step that it belongs to."""
        about = {
            "seeds": [seeds[0], seeds[-1]],
            "step": step,
            "policy": weights_digest(self.best_policy),
        }
        content = files.to_json(about | {name: _with_values(values) for name, values in found.items()})
        with files.disk_full_explained(self.folder, len(content)):
            files.replace_bytes(self.folder / "test.json", content)

    def saved_step(self) -> int:
        """The step of the newest checkpoint."""
        return self.checkpoints.newest()

    def test_scores(self) -> dict[str, dict[str, Summary]] | None:
        """The final score of a run that has come to its end, empty if no test was asked for; or None."""
        step, wanted = self.saved_step(), self.resolved.config.trainer
        ended = self.journal.finished_at(step)
        if wanted.test_episodes == 0:
            return {} if ended else None
        path = self.folder / "test.json"
        if not is_there(path) or not (ended or step >= wanted.steps):
            return None
        try:
            tested = read_test(path, finite=False)
        except CheckpointError as error:
            raise CheckpointError(f"{error}: remove it to have it made again") from None
        if tested.step != step or tested.policy != weights_digest(self.best_policy):
            return None  # of a shorter run: the test is made again
        return {
            world: {metric: score.numbers for metric, score in scores.items()}
            for world, scores in tested.worlds.items()
        }


def _with_values(found: Episodes) -> dict[str, dict[str, object]]:
    """Every metric's summary, and its value in each episode in the order of the seeds."""
    each = {name: [float(v) if math.isfinite(v) else None for v in values] for name, values in found.items()}
    return {name: {**summary, "values": each[name]} for name, summary in summaries(found).items()}


def _refuse_foreign(folder: Path) -> None:
    """Refuse a folder that holds anything but a run or the beginnings of one."""
    if is_there(folder) and not is_folder(folder):
        raise UserError(
            f"cannot make the run directory {folder}: something else has that name; give another --run"
        )
    found = names_in(folder)
    if "config.json" not in found and (
        set(found) - _BEGINNINGS or not all(_is_ours(folder / n) for n in found)
    ):
        raise UserError(
            f"{folder} exists and is not a run directory: nothing was touched; give another --run"
        )


def _is_ours(path: Path) -> bool:
    """Whether a file is what an interrupted start left, and not a file of the user's that has the same name."""
    try:
        if path.name == "lock":
            content = read_regular(path, _MAX_LOCK)
            return not content or content[:1].isdigit()
        if path.name == "provenance.json":
            record = read_json(path)
            return isinstance(record, dict) and {"command", "started", "twofold"} <= record.keys()
    except CheckpointError:
        return False
    return True  # a temporary name of ours


def _refuse_changes(old: Resolved, new: Resolved, folder: Path) -> None:
    """A run continues only with the settings it began with, but for more steps, the engine and what changes no byte."""
    ours, theirs = plain(old.values), plain(new.values)
    free = neutral() | {_ENGINE}
    changed = sorted(k for k in (ours.keys() | theirs.keys()) - free if ours.get(k) != theirs.get(k))
    if new.config.trainer.steps > old.config.trainer.steps:
        changed.remove("trainer.steps")
    if changed:
        key = changed[0]
        raise UserError(
            f"{folder} holds a run with other settings ({key}: {ours.get(key)!r} there, {theirs.get(key)!r} now"
            f"{f', and {len(changed) - 1} more' if len(changed) > 1 else ''}): give another --run"
        )
