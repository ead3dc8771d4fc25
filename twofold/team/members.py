"""A population trained by jobs: each is the `partners make` of one algorithm and one seed, here or elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from twofold.base.regular import is_there
from twofold.jobs.launchers import launcher
from twofold.jobs.running import Outcome, View, run_jobs
from twofold.settings.presets import flatten, typed
from twofold.store import files
from twofold.store.records import last_step
from twofold.team.partners import OURS, Population


@dataclass(frozen=True)
class Member:
    """One training of a population."""

    population: Population
    algorithm: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.algorithm} seed {self.seed}"

    @property
    def folder(self) -> Path:
        """That of the stage which is next."""
        stage = min(1 + self._kept(), self.population.checkpoints)
        return self.population.runs(self.algorithm, self.seed) / f"c{stage}"

    @property
    def steps(self) -> int:
        return self.population.resolved(self.algorithm, self.seed).config.trainer.steps

    @property
    def argv(self) -> tuple[str, ...]:
        wanted = self.population
        argv = [sys.executable, "-m", "twofold", "partners", "make", str(wanted.folder), "--train-only"]
        argv += [f"--env-config={wanted.env_config}", f"--algs={self.algorithm}", f"--seeds={self.seed}"]
        argv += [f"--checkpoints={wanted.checkpoints}"]
        return (*argv, *(f"{key}={typed(value)}" for key, value in flatten(wanted.settings).items()))

    def _kept(self) -> int:
        """How many of its policies are there."""
        return sum(is_there(p.file) for p in self.population.partners(self.algorithm, self.seed))

    def reached(self) -> int:
        return last_step(self.folder)

    def finished(self) -> bool:
        return self._kept() == self.population.checkpoints


def train_members(wanted: Population, view: View, *, jobs: int, on: str) -> Outcome:
    """Train a whole population, `jobs` of its members at a time; what is finished is not done again."""
    wanted.check()
    files.own_folder(wanted.folder, *OURS)
    members = [
        Member(wanted, algorithm, seed) for algorithm, seed in product(wanted.algorithms, wanted.seeds)
    ]
    place = wanted.folder / "runs"
    return run_jobs(members, place, view, limit=jobs, launcher=launcher(on, place))
