"""All runs below a folder, kept up to date: a file is read again only when it has changed."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

import numpy as np

from twofold.base.errors import UserError
from twofold.base.foreign_json import log_records
from twofold.base.regular import is_folder
from twofold.base.values import Values
from twofold.lab import statistics
from twofold.lab.figures import BAND_SEEDS, aligned, averaged, band, possible
from twofold.lab.groups import Group, differences, group_runs
from twofold.lab.report import film_paths
from twofold.lab.runs import RunRecord, current, find_runs, read_run
from twofold.lab.statistics import FEW, Estimate
from twofold.store.lock import held_locks
from twofold.store.records import last_record

_WATCHED = ("config.json", "evaluations.jsonl", "metrics.jsonl", "test.json", "provenance.json", "state.json")
TRAINING = "learning: "  # before the names of metrics that the learner wrote
_PAUSE = 0.5  # seconds that a look at the folder stays fresh
_FIRST, _NEXT = 0.25, 1.5  # seconds of reading before the first picture, and before it is drawn again
Stamp = tuple[tuple[int, int, int], ...]


@dataclass
class Entry:
    """One run and the state of its files when it was read."""

    id: str
    record: RunRecord
    stamp: Stamp
    problems: list[str] = field(default_factory=list)


class Catalogue:
    """Runs by an id that says nothing of where they are; requests name ids, never paths."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.version = 0  # grows whenever anything changes
        self.entries: dict[Path, Entry] = {}
        self.problems: dict[Path, tuple[Stamp, str]] = {}
        self.waiting = 0  # runs that are found and not read yet
        self._looked = 0.0
        self._lock = threading.Lock()
        self._ids: dict[str, Path] = {}
        self._groups: tuple[int, dict[str, Group]] = (-1, {})

    # ---- keeping up to date ----

    def refresh(self) -> None:
        """Look at the folder again, unless that was a moment ago; reading many new runs goes on at the next look."""
        with self._lock:
            if time.monotonic() - self._looked < _PAUSE and not self.waiting:
                return
            self._refresh()
            self._looked = time.monotonic()

    def _refresh(self) -> None:
        folders = find_runs([self.place]) if is_folder(self.place) else []  # it may come, and it may go
        changed = self._forget(set(folders))
        until = time.monotonic() + (_NEXT if self.entries else _FIRST)
        stale = [f for f in folders if self._stale(f)]
        for index, folder in enumerate(stale):
            if time.monotonic() > until and index:
                break
            self._read(folder)
            changed = True
        remaining = sum(self._stale(f) for f in stale) if stale else 0
        changed = self._states() or changed or remaining != self.waiting
        self.waiting = remaining
        self.version += changed

    def _forget(self, there: set[Path]) -> bool:
        gone = [f for f in (*self.entries, *self.problems) if f not in there]
        for folder in gone:
            self.entries.pop(folder, None)
            self.problems.pop(folder, None)
        return bool(gone)

    def _stale(self, folder: Path) -> bool:
        entry, problem = self.entries.get(folder), self.problems.get(folder)
        known = entry.stamp if entry else problem[0] if problem else None
        return known is None or known != stamp(folder)

    def _read(self, folder: Path) -> None:
        seen = stamp(folder)
        try:
            record, problems = read_run(folder)
        except UserError as error:
            self.entries.pop(folder, None)
            self.problems[folder] = (seen, str(error))
            return
        self.problems.pop(folder, None)
        self._ids[run_id(folder)] = folder
        self.entries[folder] = Entry(run_id(folder), record, seen, [p.message for p in problems])

    def _states(self) -> bool:
        """True if a process came or went."""
        locks, changed = held_locks(), False
        for entry in self.entries.values():
            now = current(entry.record, locks)
            changed = changed or now is not entry.record
            entry.record = now
        return changed

    # ---- asking ----

    def run(self, id: str) -> RunRecord | None:
        """The run of an id, None if there is none."""
        entry = self.entries.get(self._ids.get(id, Path()))
        return entry.record if entry else None

    def groups(self) -> dict[str, Group]:
        """All groups by id, in the order of the folders."""
        with self._lock:
            if self._groups[0] != self.version:
                entries = sorted(self.entries.items())
                found = group_runs(entry.record for _, entry in entries)
                self._groups = (self.version, {group_id(group): group for group in found})
            return self._groups[1]


def stamp(folder: Path) -> Stamp:
    """What changes whenever a file of the run changes."""
    found = []
    for name in _WATCHED:
        try:
            status = os.lstat(folder / name)
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append((0, 0, 0))
    return tuple(found)


@lru_cache(maxsize=100_000)
def run_id(folder: Path) -> str:
    return _short(str(folder.resolve()))


def group_id(group: Group) -> str:
    return _short(f"{group.world} {sorted(group.settings.items(), key=str)} {sorted(group.physics.items())}")


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


# ---- as data ------------------------------------------------------------------------------------------------------


def overview(catalogue: Catalogue) -> Values:
    """Everything the table of runs shows."""
    version, groups = catalogue.version, catalogue.groups()
    varied = [d.setting for d in differences(list(groups.values()))] if groups else []
    return {
        "version": version,
        "place": str(catalogue.place),
        "waiting": catalogue.waiting,
        "metrics": metric_names(list(groups.values())),
        "groups": [{"id": id, **group_data(group, varied)} for id, group in groups.items()],
        "problems": [message for _, message in catalogue.problems.values()],
    }


def metric_names(groups: Sequence[Group]) -> list[str]:
    """What can be drawn: metrics of the evaluations, the return first, those of other worlds, those of the learning."""
    runs = [run for group in groups for run in group.runs]
    evaluated = {m for run in runs for m in run.curves.get(run.headline, {})}
    elsewhere = {f"{w}: {m}" for run in runs for w, ms in run.curves.items() if w != run.headline for m in ms}
    learning = {TRAINING + m for g in groups[:20] for m in _last_line(g.runs[0].folder / "metrics.jsonl")}
    first = sorted(evaluated, key=lambda name: (name != "return", name))
    return [*first, *sorted(elsewhere), *sorted(learning)]


def group_data(group: Group, varied: Sequence[str]) -> Values:
    """One row of the table, with its runs."""
    scores = [score for run in group.runs if (score := test_score(run)) is not None]
    everyone = sorted([*group.runs, *group.copies], key=lambda run: run.seed)
    return {
        "name": group.name,
        "world": group.world,
        "steps": group.steps,
        "seeds": len(group.runs),
        "scores": len(scores),
        "settings": {key: group.settings[key] for key in varied if key in group.settings},
        **_numbers(tuple(scores)),
        "runs": [run_data(run, run in group.copies) for run in everyone],
    }


def test_score(run: RunRecord) -> float | None:
    """The score that counts: on test seeds, of a run that has ended."""
    tested = run.test.get(run.headline, {}).get("return")
    return tested.mean if tested is not None and run.state in ("finished", "failed") else None


@lru_cache(maxsize=4096)
def _numbers(scores: tuple[float, ...]) -> Values:
    """Mean, interquartile mean and the worst of some scores; the same scores are not resampled twice."""
    if not scores:
        return {"mean": None, "iqm": None, "worst": None}
    values = np.array(scores)
    middle = statistics.bootstrap(statistics.iqm, [values]) if len(values) >= FEW else None
    return {
        "mean": _estimate(statistics.mean_interval(values)),
        "iqm": _estimate(middle),
        "worst": min(scores),
    }


def _estimate(estimate: Estimate | None) -> list[float | None] | None:
    return None if estimate is None else [estimate.value, estimate.low, estimate.high]


def run_data(run: RunRecord, copy: bool = False) -> Values:
    """One run of the table."""
    curve = run.curves.get(run.headline, {}).get("return")
    return {
        "id": run_id(run.folder),
        "seed": run.seed,
        "state": run.state,
        "reason": run.reason,
        "step": run.step,
        "steps": run.steps,
        "best": None if curve is None else float(curve.mean.max()),
        "last": None if curve is None else float(curve.mean[-1]),
        "test": test_score(run),
        "points": 0 if curve is None else len(curve.steps),
        "changed": run.changed,
        "folder": str(run.folder),
        "copy": copy,
    }


class Points(TypedDict):
    """A curve as columns."""

    x: Sequence[float]
    y: Sequence[float]


def curve_data(run: RunRecord, metric: str, hours: bool) -> Points:
    """A metric of a run as columns; x in steps, or in hours that it was at work."""
    if metric.startswith(TRAINING):
        steps, values = _learning(run.folder, metric.removeprefix(TRAINING), stamp(run.folder))
    else:
        curve = run.curve(metric)
        steps, values = ([], []) if curve is None else (curve.steps.tolist(), curve.mean.tolist())
    return {"x": active_hours(run.folder, steps) if hours else steps, "y": values}


def mean_data(group: Group, metric: str) -> Values | None:
    """The mean over seeds and its interval, as figures and reports have it; None where there is none."""
    runs = averaged([run for run in group.runs if run.curve(metric) is not None])
    steps, values = aligned(runs, metric)
    if len(steps) == 0:
        return None
    found = {"x": steps.tolist(), "y": values.mean(axis=0).tolist(), "seeds": len(runs)}
    if len(runs) >= BAND_SEEDS:
        low, high = band(values, possible([group], metric))
        found |= {"low": low.tolist(), "high": high.tolist()}
    return found


@lru_cache(maxsize=512)
def _learning(folder: Path, metric: str, _: Stamp) -> tuple[list[int], list[float]]:
    """A metric of the learning; the stamp makes a grown log another question."""
    steps, values = [], []
    try:
        for line in log_records(folder / "metrics.jsonl"):
            step, value = line.get("step"), line.get(metric)
            if isinstance(step, int) and isinstance(value, (int, float)) and np.isfinite(value):
                steps.append(step)
                values.append(float(value))
    except UserError:
        return [], []
    return steps, values


def _last_line(path: Path) -> list[str]:
    """The names of the numbers in the last whole line of a log."""
    try:
        record = last_record(path)
    except UserError:
        return []
    named = record if isinstance(record, dict) else {}
    return [k for k, v in named.items() if k != "step" and isinstance(v, (int, float))][:200]


def active_hours(folder: Path, steps: Sequence[int]) -> list[float]:
    """How long the run had worked at each of these steps; time that it was stopped does not count."""
    known_steps, known_hours = [0], [0.0]
    try:
        for line in log_records(folder / "timing.jsonl"):
            step, speed = line.get("step"), line.get("steps_per_second")
            if (
                isinstance(step, int)
                and isinstance(speed, (int, float))
                and speed > 0
                and step > known_steps[-1]
            ):
                known_hours.append(known_hours[-1] + (step - known_steps[-1]) / speed / 3600)
                known_steps.append(step)
    except UserError:
        return [0.0] * len(steps)
    return [float(h) for h in np.interp(steps, known_steps, known_hours)]


def run_files(run: RunRecord) -> dict[str, list[str]]:
    """Films, panels and checkpoints of a run, by name."""
    return {
        "films": [path.name for path in film_paths(run.folder)],
        "panels": [path.stem for path in panel_paths(run.folder)],
        "checkpoints": _names(run.folder / "checkpoints", folders=True),
    }


def panel_paths(folder: Path) -> list[Path]:
    """Panels in the run directory; links are left alone."""
    return [folder / "panels" / name for name in _names(folder / "panels") if name.endswith(".json")]


def _names(folder: Path, folders: bool = False) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    kind = [e.is_dir(follow_symlinks=False) if folders else e.is_file(follow_symlinks=False) for e in entries]
    return [e.name for e, fits in zip(entries, kind, strict=True) if fits and not e.name.startswith(".")][
        :200
    ]
