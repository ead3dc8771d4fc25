"""Run directories as typed records: read strictly, within limits, and without torch.

Nothing in a run directory is trusted: what is damaged is told and left out, nothing is followed, nothing is imported.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from twofold.base.errors import CheckpointError, UserError
from twofold.base.values import Json, number
from twofold.lab.state import Known, RunState, lock_holder, place_of, read_state, state_now
from twofold.settings.config import neutral
from twofold.store import files

Content = TypeVar("Content")  # of a file, of a setting
MAX_RUNS = 10_000
MAX_DEPTH = 8
MAX_LOG_BYTES = 256_000_000
_MAX_PACKAGES = 200
_MAX_METRICS = 200  # names in one line of a log


@dataclass(frozen=True)
class Curve:
    """One metric over the evaluations of a run."""

    steps: NDArray[np.int64]
    mean: NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """One metric over the episodes of one evaluation; `low` and `high` are about episodes, never about runs."""

    mean: float
    std: float
    low: float
    high: float
    min: float
    episodes: int
    values: tuple[float | None, ...] = ()  # of each episode; None where an episode has none


@dataclass(frozen=True)
class Provenance:
    """Where a run comes from."""

    command: str = ""
    started: str = ""
    twofold: str = ""
    commit: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    cpu: str = ""


@dataclass(frozen=True)
class RunRecord:
    """What a run directory says, checked."""

    folder: Path
    settings: Mapping[str, Json]
    origin: Mapping[str, str]  # the layer that set each
    curves: Mapping[str, Mapping[str, Curve]]  # by evaluation world and metric
    test: Mapping[str, Mapping[str, Summary]]  # likewise; empty until the run is tested
    provenance: Provenance
    state: RunState
    reason: str  # why it stopped or failed, as far as is known
    step: int  # world steps done
    changed: float  # when it last wrote, as the system's clock says
    known: Known  # what its state is judged by

    @property
    def seed(self) -> int:
        return int(number(self.settings.get("seed", 0)))

    @property
    def steps(self) -> int:
        """World steps that were asked for."""
        return int(number(self.settings.get("trainer.steps", 0)))

    @cached_property
    def variant(self) -> str:
        """What the run shares with all other seeds of it, as one text."""
        return json.dumps(variant_settings(self.settings), sort_keys=True, default=str)

    @property
    def headline(self) -> str:
        """The evaluation world that chooses the best policy: the first."""
        return next(iter(self.curves), next(iter(self.test), "eval"))


def current(record: RunRecord, locks: Mapping[str, int]) -> RunRecord:
    """The record with the state it has now; a process may come or go without writing anything."""
    state, reason = state_now(record.known, locks.get(place_of(record.folder / "lock")))
    same = (state, reason) == (record.state, record.reason)
    return record if same else replace(record, state=state, reason=reason)


def _at_its_end(
    settings: Mapping[str, Json], curves: Mapping[str, Mapping[str, Curve]], tested: bool, step: int
) -> bool:
    """True if the files of a run that says nothing of its state show that it is over."""
    wanted = settings.get("trainer.stop_at")
    first = next(iter(curves.values()), {}).get("return")
    good = isinstance(wanted, (int, float)) and first is not None and bool(first.mean.max() >= wanted)
    reached = step >= number(settings.get("trainer.steps", 0)) or good
    return reached and bool(curves) and (tested or not settings.get("trainer.test_episodes", 1))


def variant_settings(settings: Mapping[str, Content]) -> dict[str, Content]:
    """The settings that make a variant: all but the seed and those that cannot change the bytes."""
    return {k: v for k, v in settings.items() if k != "seed" and k not in neutral()}


@dataclass(frozen=True)
class Problem:
    """A directory or file that was left out, and why."""

    place: Path
    message: str


@dataclass(frozen=True)
class Found:
    """All runs below some places, and what could not be read."""

    runs: tuple[RunRecord, ...]
    problems: tuple[Problem, ...]


# ---- finding ------------------------------------------------------------------------------------------------------


def read_runs(places: Sequence[Path]) -> Found:
    """Every run in or below the places; what cannot be read is listed, not raised."""
    runs, problems = [], []
    for folder in find_runs(places):
        try:
            record, complaints = read_run(folder)
            runs.append(record)
            problems += complaints
        except UserError as error:
            problems.append(Problem(folder, str(error)))
    return Found(tuple(runs), tuple(problems))


def find_runs(places: Sequence[Path]) -> list[Path]:
    """Run directories in or below the places, in order of their names; links are not followed."""
    found: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise UserError(
                f"{place} is not a directory: give run directories, or a directory that holds some"
            )
        for folder in _below(place, MAX_DEPTH):
            found[folder] = None
            if len(found) > MAX_RUNS:
                raise UserError(f"more than {MAX_RUNS:,} runs below {place}: name a smaller directory")
    return list(found)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if os.path.lexists(folder / "config.json"):
        yield folder
        return
    try:
        inside = sorted(e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))
    except OSError:
        return
    if depth > 0:
        for name in inside:
            if not name.startswith("."):
                yield from _below(folder / name, depth - 1)


# ---- reading ------------------------------------------------------------------------------------------------------


def read_run(folder: Path) -> tuple[RunRecord, list[Problem]]:
    """One run directory; raises UserError if its settings or evaluations are damaged, lists smaller damage."""
    record = _dict(files.read_json(folder / "config.json"), folder / "config.json")
    settings = _dict(record.get("values"), folder / "config.json")
    if not all(isinstance(settings.get(k, 0), int) for k in ("seed", "trainer.steps")):
        raise CheckpointError(f"{folder / 'config.json'} is damaged: seed and steps must be whole numbers")
    origin = {k: v for k, v in _dict(record.get("origin", {}), folder).items() if isinstance(v, str)}
    problems: list[Problem] = []
    curves = read_curves(folder / "evaluations.jsonl")
    untested: dict[str, dict[str, Summary]] = {}
    test = _tolerated(folder / "test.json", read_test, untested, problems)
    provenance = _tolerated(folder / "provenance.json", read_provenance, Provenance(), problems)
    step = max([last_step(folder), *(int(c.steps[-1]) for w in curves.values() for c in w.values())])
    said = _tolerated(folder / "state.json", read_state, None, problems)
    known = Known(folder, said, step, _at_its_end(settings, curves, bool(test), step))
    state, reason = state_now(known, lock_holder(folder / "lock"))
    made = RunRecord(
        folder, settings, origin, curves, test, provenance, state, reason, step, _changed(folder), known
    )
    return made, problems


def _tolerated(
    path: Path, read: Callable[[Path], Content], default: Content, problems: list[Problem]
) -> Content:
    """A file that a run can do without: damage is noted."""
    if not os.path.lexists(path):
        return default
    try:
        return read(path)
    except UserError as error:
        problems.append(Problem(path, str(error)))
        return default


def read_curves(path: Path) -> dict[str, dict[str, Curve]]:
    """Every evaluation by world and metric; steps must grow, values must be finite."""
    points: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for record in read_lines(path):
        step, world = _whole(record.get("step"), path), record.get("world")
        if not isinstance(world, str):
            raise CheckpointError(f"{path} is damaged: an evaluation without the name of its world")
        for metric, summary in record.items():
            if metric in ("step", "world"):
                continue
            steps, means = points.setdefault(world, {}).setdefault(metric, ([], []))
            if steps and step <= steps[-1]:
                raise CheckpointError(f"{path} is damaged: step {step} comes after step {steps[-1]}")
            steps.append(step)
            means.append(_number(_dict(summary, path).get("mean"), path))
    return {w: {m: Curve(np.array(s), np.array(v)) for m, (s, v) in ms.items()} for w, ms in points.items()}


def read_lines(path: Path) -> list[dict[str, Json]]:
    """Every whole line of a log as a dict; a half-written last one is left out."""
    if not os.path.lexists(path):
        return []
    lines = [line for line in files.read_regular(path, MAX_LOG_BYTES).split(b"\n")[:-1] if line]
    if lines and (longest := max(map(len, lines))) > files.MAX_JSON_BYTES:
        raise CheckpointError(f"{path} has a line of {longest:,} bytes: refused")
    # One call for all lines is twice as fast; lines that are whole only together are counted out.
    records = files.parse_json(b"[" + b",".join(lines) + b"]", path)
    if not isinstance(records, list) or len(records) != len(lines):
        raise CheckpointError(f"{path} is damaged: its lines are not one record each")
    found = [_dict(record, path) for record in records]
    for record in found:
        if len(record) > _MAX_METRICS:
            raise CheckpointError(f"{path} has a line of {len(record):,} names: refused")
    return found


def read_test(path: Path) -> dict[str, dict[str, Summary]]:
    """The scores on test seeds, by world and metric; beside the worlds stands what was tested, and on which seeds."""
    record = _dict(files.read_json(path), path)
    worlds = {name: metrics for name, metrics in record.items() if isinstance(metrics, dict)}
    return {w: {m: _summary(s, path) for m, s in metrics.items()} for w, metrics in worlds.items()}


def _summary(value: Json, path: Path) -> Summary:
    record = _dict(value, path)
    mean, std, low, high, least = (
        _number(record.get(k), path) for k in ("mean", "std", "low", "high", "min")
    )
    values = record.get("values", [])
    if not isinstance(values, list):
        raise CheckpointError(f"{path} is damaged: values must be a list")
    each = tuple(None if v is None else _number(v, path) for v in values)
    return Summary(mean, std, low, high, least, _whole(record.get("episodes"), path), each)


def read_provenance(path: Path) -> Provenance:
    """Command, code and packages; what is not text is left out."""
    record = _dict(files.read_json(path), path)
    text = {
        key: value[:10_000]
        for key in ("command", "started", "twofold", "commit", "python")
        if isinstance(value := record.get(key), str)
    }
    packages = _dict(record.get("packages", {}), path)
    kept = {k: v for k, v in list(packages.items())[:_MAX_PACKAGES] if isinstance(v, str)}
    cpu = _dict(record.get("machine", {}), path).get("cpu", "")
    return Provenance(**text, packages=kept, cpu=cpu if isinstance(cpu, str) else "")


def last_step(folder: Path) -> int:
    """The step of the last whole line of the metrics, read from the end of the file; 0 before the first."""
    try:
        with files.open_regular(folder / "metrics.jsonl") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 64_000))
            lines = file.read().split(b"\n")[:-1]
        return _whole(json.loads(lines[-1])["step"], folder) if lines else 0
    except (UserError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def _dict(value: Json, path: Path) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path} is damaged: found {type(value).__name__} where names and values belong"
        )
    return value


def _number(value: Json, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e300:
        raise CheckpointError(f"{path} is damaged: {str(value)[:40]!r} is not a number")
    if not math.isfinite(value):
        raise CheckpointError(f"{path} holds a value that is not finite")
    return float(value)


def _whole(value: Json, path: Path) -> int:
    number = _number(value, path)
    if number < 0 or not number.is_integer() or number > 1e15:
        raise CheckpointError(f"{path} is damaged: {number} is not a count")
    return int(number)


def _changed(folder: Path) -> float:
    """When the run last wrote a log."""
    times = [0.0]
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl", "test.json", "lock"):
        try:
            times.append(os.lstat(folder / name).st_mtime)
        except OSError:
            continue
    return max(times)
