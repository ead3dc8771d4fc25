"""Run directories as typed records: read strictly, within limits, and without torch.

Nothing in a run directory is trusted: what is damaged is told and left out, nothing is followed, nothing is imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import names, read_json
from twofold.base.regular import is_folder, is_there
from twofold.base.values import Json, number
from twofold.lab.state import Known, RunState, read_state, state_now
from twofold.settings.config import neutral
from twofold.store.lock import lock_holder, place_of
from twofold.store.records import (
    Curve,
    Provenance,
    Summary,
    Tested,
    last_step,
    read_curves,
    read_provenance,
    read_test,
)

Content = TypeVar("Content")  # of a file, of a setting
MAX_RUNS = 10_000
MAX_DEPTH = 8


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
        found = {k: v for k, v in variant_settings(self.settings).items() if not is_off(v)}
        return json.dumps(found, sort_keys=True, default=str)

    @property
    def headline(self) -> str:
        """The evaluation world that chooses the best policy: the first."""
        return next(iter(self.curves), next(iter(self.test), "eval"))

    def curve(self, metric: str) -> Curve | None:
        """A metric of the evaluations: of the headline world, or of another as 'WORLD: METRIC'."""
        world, _, name = metric.rpartition(": ")
        return self.curves.get(world or self.headline, {}).get(name)

    def tested(self, metric: str) -> Summary | None:
        """A metric of the test, named as for `curve`."""
        world, _, name = metric.rpartition(": ")
        return self.test.get(world or self.headline, {}).get(name)


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


def is_off(value: object) -> bool:
    """A setting that is off is as one that did not exist yet: runs of earlier versions stay what they are."""
    return value is None or value is False


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
        if not is_folder(place):
            raise UserError(
                f"{place} is not a directory: give run directories, or a directory that holds some"
            )
        for folder in folders_with("config.json", place):
            found[folder] = None
            if len(found) > MAX_RUNS:
                raise UserError(f"more than {MAX_RUNS:,} runs below {place}: name a smaller directory")
    return list(found)


def folders_with(name: str, place: Path, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """Folders in or below a place that hold a file of this name, in order; a run is not looked into, nor is a link."""
    try:
        if is_there(place / name):
            yield place
            return
        if is_there(place / "config.json"):
            return  # a run
        with os.scandir(place) as entries:
            inside = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
    except (OSError, UserError):
        return  # not ours to look into
    if depth > 0:
        for one in inside:
            if not one.startswith("."):
                yield from folders_with(name, place / one, depth - 1)


# ---- reading ------------------------------------------------------------------------------------------------------


def read_run(folder: Path) -> tuple[RunRecord, list[Problem]]:
    """One run directory; raises UserError if its settings or evaluations are damaged, lists smaller damage."""
    record = names(read_json(folder / "config.json", finite=False), folder / "config.json")
    settings = names(record.get("values"), folder / "config.json")
    if not all(isinstance(settings.get(k, 0), int) for k in ("seed", "trainer.steps")):
        raise CheckpointError(f"{folder / 'config.json'} is damaged: seed and steps must be whole numbers")
    origin = {k: v for k, v in names(record.get("origin", {}), folder).items() if isinstance(v, str)}
    problems: list[Problem] = []
    curves = read_curves(folder / "evaluations.jsonl")
    tested = _tolerated(folder / "test.json", read_test, Tested({}, None), problems)
    provenance = _tolerated(folder / "provenance.json", read_provenance, Provenance(), problems)
    step = max([last_step(folder), *(int(c.steps[-1]) for w in curves.values() for c in w.values())])
    test = _of_this_length(tested, step, folder, problems)
    said = _tolerated(folder / "state.json", read_state, None, problems)
    known = Known(folder, said, step, _at_its_end(settings, curves, bool(test), step))
    state, reason = state_now(known, lock_holder(folder / "lock"))
    made = RunRecord(
        folder, settings, origin, curves, test, provenance, state, reason, step, _changed(folder), known
    )
    return made, problems


def _of_this_length(
    tested: Tested, step: int, folder: Path, problems: list[Problem]
) -> Mapping[str, Mapping[str, Summary]]:
    """The test scores, unless the run went on since they were made: then they are of a shorter run."""
    if tested.step is None or tested.step >= step:
        return tested.worlds
    path = folder / "test.json"
    problems.append(Problem(path, f"{path} is of step {tested.step:,}, the run is at {step:,}: not counted"))
    return {}


def _tolerated(
    path: Path, read: Callable[[Path], Content], default: Content, problems: list[Problem]
) -> Content:
    """A file that a run can do without: damage is noted."""
    try:
        return read(path) if is_there(path) else default
    except UserError as error:
        problems.append(Problem(path, str(error)))
        return default


def _changed(folder: Path) -> float:
    """When the run last wrote a log."""
    times = [0.0]
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl", "test.json", "lock"):
        try:
            times.append(os.lstat(folder / name).st_mtime)
        except OSError:
            continue
    return max(times)
