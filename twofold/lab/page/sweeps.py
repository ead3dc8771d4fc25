"""Sweeps below a folder as data for the page: what their files say, checked; nothing in them is trusted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TypedDict

from twofold.base.errors import UserError
from twofold.base.foreign_json import names, read_json
from twofold.base.regular import is_there
from twofold.base.values import Json, Values
from twofold.lab.page.catalogue import run_id
from twofold.lab.runs import MAX_DEPTH, folders_with

SPEC, RESULT = "sweep.json", "result.json"
_MOST = 200  # sweeps that are listed
_MOST_TRIALS = 5_000
_LONGEST = 2_000  # letters of any text
_IN_THE_LIST = ("phase", "done", "failed", "running", "wanted", "world", "config", "winner")


class TrialData(TypedDict):
    """One trial of the search."""

    number: int
    score: float | None
    state: str
    values: dict[str, float | str]
    run: str | None  # the id of its run


class CandidateData(TypedDict):
    """Settings that were run on fresh seeds."""

    trial: int
    searched: float | None
    confirmed: tuple[float, float | None, float | None] | None
    seeds: int
    values: dict[str, float | str]


class AxisData(TypedDict):
    """A setting that was searched: between two numbers, or among choices."""

    name: str
    low: float | None
    high: float | None
    log: bool
    choices: list[str]


class SweepData(TypedDict):
    """A sweep in all its parts."""

    name: str
    config: str
    world: str
    metric: str
    score: str  # what the score of a trial is
    phase: str
    wanted: int
    done: int
    failed: int
    running: int
    axes: list[AxisData]
    importance: dict[str, float]
    trials: list[TrialData]
    candidates: list[CandidateData]
    winner: CandidateData | None
    verdicts: list[str]


def find_sweeps(place: Path, depth: int = MAX_DEPTH) -> list[Path]:
    """Folders of sweeps in or below a place, in order of their names; links are not followed."""
    return [folder for folder, _ in zip(folders_with(SPEC, place, depth), range(_MOST), strict=False)]


def list_sweeps(place: Path) -> list[Values]:
    """One line for each sweep."""
    return [_line(folder, place) for folder in find_sweeps(place)]


def _line(folder: Path, place: Path) -> Values:
    name = str(folder.relative_to(place)) if folder != place else folder.name
    said: Values = {"id": run_id(folder), "name": name}
    try:
        data = sweep_data(folder)
    except UserError as error:
        return said | {"problem": str(error)}
    return said | {key: value for key, value in data.items() if key in _IN_THE_LIST}


def sweep_data(folder: Path) -> SweepData:
    """A sweep in all its parts; before its first trial ended there is little to say."""
    spec = names(read_json(folder / SPEC, finite=False), folder / SPEC)
    found: dict[str, Json] = {}
    if is_there(folder / RESULT):
        found = names(read_json(folder / RESULT, finite=False), folder / RESULT)
    world = Path(_text(spec.get("env_config"))).stem
    trials = [_trial(one, folder, world) for one in _list(found.get("trials"))[:_MOST_TRIALS]]
    axes = names(spec.get("axes", {}), folder / SPEC)
    wanted = names(found.get("wanted", {}), folder / RESULT)
    candidates = [_candidate(one) for one in _list(found.get("candidates"))[:100]]
    states = [trial["state"] for trial in trials]
    return {
        "name": folder.name,
        "config": _text(spec.get("config")),
        "world": world,
        "metric": _text(spec.get("metric")),
        "score": _text(found.get("score")),
        "phase": _text(found.get("phase")) or "search",
        "wanted": int(_number(wanted.get("trials")) or len(trials)),
        "done": states.count("done"),
        "failed": states.count("failed"),
        "running": states.count("running"),
        "axes": [_axis(key, axis) for key, axis in axes.items()],
        "importance": {k: _number(v) or 0.0 for k, v in _dict(found.get("importance")).items()},
        "trials": trials,
        "candidates": candidates,
        "winner": _winner(candidates),
        "verdicts": [_text(one) for one in _list(found.get("verdicts"))[:20]],
    }


def _trial(found: Json, folder: Path, world: str) -> TrialData:
    trial = _dict(found)
    number, score = int(_number(trial.get("number")) or 0), _number(trial.get("score"))
    state = "failed" if trial.get("failed") is True else "running" if score is None else "done"
    run = folder / "search" / world / f"trial_{number:03d}" / f"seed_{10_000 + number}"
    return {"number": number, "score": score, "state": state, "values": _values(trial), "run": run_id(run)}


def _candidate(found: Json) -> CandidateData:
    candidate = _dict(found)
    confirmed = _dict(candidate.get("confirmed"))
    value, low, high = (_number(confirmed.get(key)) for key in ("value", "low", "high"))
    return {
        "trial": int(_number(candidate.get("trial")) or 0),
        "searched": _number(candidate.get("searched")),
        "confirmed": None if value is None else (value, low, high),
        "seeds": int(_number(confirmed.get("runs")) or 0),
        "values": _values(candidate),
    }


def _winner(candidates: list[CandidateData]) -> CandidateData | None:
    """The best by its confirmation; never by its search score."""
    confirmed = [(one["confirmed"][0], one) for one in candidates if one["confirmed"] is not None]
    return max(confirmed, key=lambda pair: pair[0])[1] if confirmed else None


def _axis(key: str, found: Json) -> AxisData:
    axis = _dict(found)
    return {
        "name": key[:200],
        "low": _number(axis.get("low")),
        "high": _number(axis.get("high")),
        "log": axis.get("scale") == "log",
        "choices": [_text(one) for one in _list(axis.get("texts"))[:100]],
    }


# ---- whatever stands in a file, as what it should be -----------------------------------------------------------------


def _values(found: dict[str, Json]) -> dict[str, float | str]:
    """Settings as numbers where they are such, else as people write them."""
    return {
        key[:200]: number if (number := _number(value)) is not None else _shown(value)
        for key, value in _dict(found.get("values")).items()
    }


def _shown(value: Json) -> str:
    """A value as it is typed on a command line."""
    if isinstance(value, list):
        return ",".join(map(_shown, value))[:_LONGEST]
    return str(value).lower() if isinstance(value, bool) else str(value)[:_LONGEST]


def _number(value: Json) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value)


def _text(value: Json) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _list(value: Json) -> list[Json]:
    return list(value) if isinstance(value, list) else []


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
