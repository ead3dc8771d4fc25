"""What the files of a run directory say, as typed records: damaged ones are one line, whoever reads them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import log_records, names, number, parse_json, read_json, whole
from twofold.base.regular import is_there, open_regular
from twofold.base.values import Json

ABOUT_TEST = ("seeds", "step", "policy")  # what test.json says of itself; the rest are worlds
MAX_EVALUATIONS = 100_000
_MAX_PACKAGES = 200
_MAX_WORLDS = 1_000
_TAIL = 64_000  # bytes at the end of a log that are looked at for its last line


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

    @property
    def numbers(self) -> dict[str, float]:
        """As an evaluation writes them."""
        return {name: value for name, value in asdict(self).items() if name != "values"}


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


def read_curves(path: Path) -> dict[str, dict[str, Curve]]:
    """Every evaluation by world and metric; steps must grow, values must be finite."""
    points: dict[str, dict[str, tuple[list[int], list[float]]]] = {}
    for record in log_records(path) if is_there(path) else ():
        step, world = whole(record.get("step"), path), record.get("world")
        if not isinstance(world, str):
            raise CheckpointError(f"{path} is damaged: an evaluation without the name of its world")
        for metric, summary in record.items():
            if metric in ("step", "world"):
                continue
            steps, means = points.setdefault(world, {}).setdefault(metric, ([], []))
            if steps and step <= steps[-1]:
                raise CheckpointError(f"{path} is damaged: step {step} comes after step {steps[-1]}")
            steps.append(step)
            means.append(number(names(summary, path).get("mean"), path))
    return {w: {m: Curve(np.array(s), np.array(v)) for m, (s, v) in ms.items()} for w, ms in points.items()}


@dataclass(frozen=True)
class Tested:
    """The scores on test seeds by world and metric, and what was tested."""

    worlds: Mapping[str, Mapping[str, Summary]]
    step: int | None  # of the run when it was tested; None in files of earlier versions
    policy: str = ""  # digest of the policy's weights


def read_test(path: Path, *, finite: bool = True) -> Tested:
    """test.json: beside the worlds stands what was tested, and on which seeds."""
    record = names(read_json(path, finite=finite), path)
    if len(record) > _MAX_WORLDS:
        raise CheckpointError(f"{path} has {len(record):,} names: refused")
    for name, value in record.items():
        if name not in ABOUT_TEST and not isinstance(value, dict):
            raise CheckpointError(f"{path} is damaged: '{name[:40]}' is not the score of a world")
    worlds = {name: value for name, value in record.items() if isinstance(value, dict)}
    step = None if record.get("step") is None else whole(record["step"], path)
    scores = {w: {m: _summary(s, path, finite) for m, s in metrics.items()} for w, metrics in worlds.items()}
    return Tested(scores, step, str(record.get("policy", ""))[:200])


def _summary(value: Json, path: Path, finite: bool) -> Summary:
    record = names(value, path)
    mean, std, low, high, least = (
        number(record.get(k), path, finite=finite) for k in ("mean", "std", "low", "high", "min")
    )
    values = record.get("values", [])
    if not isinstance(values, list):
        raise CheckpointError(f"{path} is damaged: values must be a list")
    each = tuple(None if v is None else number(v, path, finite=finite) for v in values)
    return Summary(mean, std, low, high, least, whole(record.get("episodes"), path), each)


def read_provenance(path: Path) -> Provenance:
    """Command, code and packages; what is not text is left out."""
    record = names(read_json(path), path)
    text = {
        key: value[:10_000]
        for key in ("command", "started", "twofold", "commit", "python")
        if isinstance(value := record.get(key), str)
    }
    packages = names(record.get("packages", {}), path)
    kept = {k: v for k, v in list(packages.items())[:_MAX_PACKAGES] if isinstance(v, str)}
    cpu = names(record.get("machine", {}), path).get("cpu", "")
    return Provenance(**text, packages=kept, cpu=cpu if isinstance(cpu, str) else "")


def last_step(folder: Path) -> int:
    """The step of the last whole line of the metrics; 0 before the first, or where it cannot be read."""
    try:
        return whole(last_record(folder / "metrics.jsonl").get("step", 0), folder)
    except UserError:
        return 0


def last_record(path: Path) -> dict[str, Json]:
    """The last whole line of a log, read from the end of the file; empty before the first."""
    with open_regular(path) as file:
        try:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).split(b"\n")[:-1]
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    return names(parse_json(lines[-1], path, finite=False), path) if lines else {}


def evaluations(path: Path, *, newest: int = MAX_EVALUATIONS) -> list[dict[str, Json]]:
    """The newest evaluations as they were written, oldest first; each has its step, its world and numbers."""
    kept: deque[dict[str, Json]] = deque(maxlen=newest)
    for record in log_records(path) if is_there(path) else ():
        whole(record.get("step"), path)
        if not isinstance(record.get("world"), str):
            raise CheckpointError(f"{path} is damaged: an evaluation without the name of its world")
        for metric, summary in record.items():
            if metric not in ("step", "world"):
                for value in names(summary, path).values():
                    number(value, path, finite=False)
        kept.append(record)
    return list(kept)
