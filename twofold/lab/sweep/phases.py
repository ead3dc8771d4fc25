"""Search, confirm, final: each on run seeds of its own, so that no figure is the luck it was chosen by.

search   one run for each trial (run seeds 10,000 + trial), judged on validation seeds, never on test seeds
confirm  the best few by the search, each on the same fresh run seeds (20,000 and up): the best mean wins
final    the winner and the settings without the sweep, on the user's seeds, with test episodes and a verdict
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from twofold.base.errors import UserError
from twofold.base.foreign_json import parse_json, read_json
from twofold.base.regular import is_there, names_in
from twofold.jobs.launchers import launcher
from twofold.jobs.running import Outcome, Progress, View, run_jobs
from twofold.lab.compare import Comparison, compare
from twofold.lab.experiment import Job, Variant, make_job
from twofold.lab.runs import read_run
from twofold.lab.statistics import Estimate, mean_interval
from twofold.lab.sweep.space import Space, Value
from twofold.lab.sweep.study import Study, Trial, require_optuna
from twofold.store import files

SEARCH_SEED, CONFIRM_SEED = 10_000, 20_000
LAST = 5  # evaluations at the end of a run whose mean is its score: the best of many is luck
WINNER, DEFAULT = "winner", "default"


@dataclass(frozen=True)
class Wanted:
    """How long to look, and how surely to say what was found."""

    trials: int = 30
    candidates: int = 4  # that are confirmed
    confirm_seeds: int = 5
    final_seeds: tuple[int, ...] = tuple(range(1, 11))
    metric: str = "return"
    seed: int = 0  # of the search


@dataclass(frozen=True)
class Candidate:
    """Settings that the search found good, and what fresh seeds say of them."""

    trial: int
    values: Mapping[str, Value]
    searched: float
    confirmed: Estimate | None


@dataclass(frozen=True)
class Swept:
    """How far a sweep has come."""

    trials: tuple[Trial, ...]
    candidates: tuple[Candidate, ...] = ()
    comparison: Comparison | None = None
    outcome: Outcome | None = None  # of the last jobs that ran

    @property
    def winner(self) -> Candidate | None:
        """The best by its confirmation; never by its search score."""
        confirmed = [c for c in self.candidates if c.confirmed is not None]
        return max(confirmed, key=lambda c: c.confirmed.value if c.confirmed else -np.inf, default=None)

    @property
    def phase(self) -> str:
        """What is being done, or `done`."""
        if self.comparison is not None:
            return "done"
        return "search" if not self.candidates else "confirm" if self.winner is None else "final"


Told = Callable[[Swept], object]  # whenever there is something new


class Sweep:
    """A sweep in its folder; repeated, it continues."""

    def __init__(self, folder: Path, space: Space, wanted: Wanted, imports: tuple[str, ...] = ()) -> None:
        self.folder, self.space, self.wanted, self.imports = folder, space, wanted, imports
        self._world = Path(space.env_config).stem
        require_optuna()
        _keep_spec(folder, space, wanted)
        self.study = Study(folder, space.axes, wanted.seed)

    def run(self, view: View, *, jobs: int = 2, on: str = "here", told: Told = lambda swept: None) -> Swept:
        """As far as it comes: to the end, to a signal, or to a job that fails."""
        outcome = self._search(view, jobs, on, told)
        swept = Swept(tuple(self.study.trials()), outcome=outcome)
        if outcome.signal is not None or any(p.state == "stopped" for p in outcome.jobs):
            return swept
        chosen = self._best()
        if not chosen or not self.wanted.confirm_seeds:
            return swept
        told(Swept(swept.trials, tuple(Candidate(t.number, t.values, t.score or 0.0, None) for t in chosen)))
        outcome = self._launch(self._confirm_jobs(chosen), "confirm", view, jobs, on)
        swept = Swept(swept.trials, tuple(map(self._confirmed, chosen)), outcome=outcome)
        if not outcome.done or swept.winner is None or not self.wanted.final_seeds:
            return swept
        told(swept)
        outcome = self._launch(self._final_jobs(swept.winner), "final", view, jobs, on)
        found = self._verdict() if outcome.done else None
        return Swept(swept.trials, swept.candidates, found, outcome)

    # ---- search ----

    def _search(self, view: View, jobs: int, on: str, told: Told) -> Outcome:
        begun = [trial for trial in self.study.trials() if trial.score is None and not trial.failed]
        first = [self._trial_job(trial) for trial in begun]
        place = self.folder / "search"
        more = _More(self, jobs, begun, told)
        return run_jobs(first, place, view, limit=jobs, launcher=launcher(on, place), more=more)

    def _trial_job(self, trial: Trial) -> Job:
        settings = {**trial.values, "trainer.test_episodes": 0}
        return self._job("search", f"trial_{trial.number:03d}", SEARCH_SEED + trial.number, settings)

    def score(self, folder: Path) -> float | None:
        """The mean of a run's last evaluations, None if it failed."""
        try:
            record, _ = read_run(folder)
        except UserError:
            return None
        curve = record.curves.get(record.headline, {}).get(self.wanted.metric)
        return None if curve is None or record.state == "failed" else float(curve.mean[-LAST:].mean())

    def _best(self) -> list[Trial]:
        """The trials that are confirmed: the best by the search, the earlier first among equals."""
        scored = [trial for trial in self.study.trials() if trial.score is not None]
        return sorted(scored, key=lambda t: (-(t.score or 0.0), t.number))[: self.wanted.candidates]

    # ---- confirm and final ----

    def _confirm_jobs(self, chosen: Sequence[Trial]) -> list[Job]:
        seeds = range(CONFIRM_SEED, CONFIRM_SEED + self.wanted.confirm_seeds)
        return [self._confirm_job(trial, seed) for seed in seeds for trial in chosen]

    def _confirm_job(self, trial: Trial, seed: int) -> Job:
        settings = {**trial.values, "trainer.test_episodes": 0}
        return self._job("confirm", f"trial_{trial.number:03d}", seed, settings)

    def _confirmed(self, trial: Trial) -> Candidate:
        seeds = range(CONFIRM_SEED, CONFIRM_SEED + self.wanted.confirm_seeds)
        scores = [self.score(self._confirm_job(trial, seed).folder) for seed in seeds]
        known = [score for score in scores if score is not None]
        whole = (
            mean_interval(known) if len(known) == len(scores) else None
        )  # a seed that failed is no winner's
        return Candidate(trial.number, trial.values, trial.score or 0.0, whole)

    def _final_jobs(self, winner: Candidate) -> list[Job]:
        variants: dict[str, Mapping[str, Value]] = {DEFAULT: {}, WINNER: winner.values}
        return [
            self._job("final", name, seed, values)
            for seed in self.wanted.final_seeds
            for name, values in variants.items()
        ]

    def _verdict(self) -> Comparison:
        """The winner against the settings without the sweep."""
        names = {
            self.folder / "final" / self._world / name / f"seed_{seed}": name
            for name in (DEFAULT, WINNER)
            for seed in self.wanted.final_seeds
        }
        return compare(list(names), metric=self.wanted.metric, names=names, baseline=DEFAULT)

    # ---- jobs ----

    def _job(self, phase: str, name: str, seed: int, settings: Mapping[str, Value]) -> Job:
        values = {**self.space.fixed, **settings}
        variant = Variant(self.space.config, values)
        resolved = self.space.resolved(settings)
        place = self.folder / phase
        return make_job(
            place, self._world, name, seed, self.space.env_config, variant, resolved, self.imports
        )

    def _launch(self, found: Sequence[Job], phase: str, view: View, jobs: int, on: str) -> Outcome:
        place = self.folder / phase
        return run_jobs(found, place, view, limit=jobs, launcher=launcher(on, place))


class _More:
    """Tells the scores of trials that ended and asks for as many new ones as there is room for."""

    def __init__(self, sweep: Sweep, limit: int, begun: Sequence[Trial], told: Told) -> None:
        self.sweep, self.limit, self._say = sweep, limit, told
        self._open = {sweep._trial_job(trial).folder: trial.number for trial in begun}

    def __call__(self, jobs: Sequence[Progress]) -> list[Job]:
        ended = [p for p in jobs if p.state in ("done", "failed") and p.job.folder in self._open]
        for progress in ended:
            score = self.sweep.score(progress.job.folder) if progress.state == "done" else None
            self.sweep.study.tell(self._open.pop(progress.job.folder), score)
        active = sum(progress.state in ("waiting", "running") for progress in jobs)
        stopped = any(progress.state == "stopped" for progress in jobs)
        left = self.sweep.wanted.trials - len(self.sweep.study.trials())
        room = 0 if stopped else max(0, min(self.limit - active, left))
        new = [self._job(self.sweep.study.ask()) for _ in range(room)]
        if ended or new:
            self._say(Swept(tuple(self.sweep.study.trials())))
        return new

    def _job(self, trial: Trial) -> Job:
        job = self.sweep._trial_job(trial)
        self._open[job.folder] = trial.number
        return job


def _keep_spec(folder: Path, space: Space, wanted: Wanted) -> None:
    """What is searched is written down; a folder of another search is refused, more trials are welcome."""
    axes = {key: {"kind": type(axis).__name__, **asdict(axis)} for key, axis in space.axes.items()}
    spec = {
        "config": space.config,
        "env_config": space.env_config,
        "axes": axes,
        "fixed": dict(space.fixed),
        "seed": wanted.seed,
        "metric": wanted.metric,
    }
    path = folder / "sweep.json"
    content = parse_json(json.dumps(spec), path, finite=False)  # as it is read again
    if is_there(path):
        if read_json(path, finite=False) != content:
            raise UserError(f"{folder} holds another sweep (see sweep.json): give another --sweep")
        return
    if names_in(folder):
        raise UserError(f"{folder} exists and is not a sweep: nothing was touched; give another --sweep")
    folder.mkdir(parents=True, exist_ok=True)
    files.replace_bytes(path, files.to_json(content))
