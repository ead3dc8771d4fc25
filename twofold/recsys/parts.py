"""Standings by jobs: each makes some of the evaluations, here or elsewhere; what is made is kept until the table is."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twofold.base.errors import CheckpointError, UserError
from twofold.base.regular import is_there
from twofold.base.values import listed
from twofold.jobs.launchers import launcher
from twofold.jobs.running import Outcome, View, run_jobs, try_out
from twofold.recsys.evaluations import Evaluation, Evaluator, Result, Results
from twofold.recsys.menu import Standings
from twofold.settings.presets import flatten, typed
from twofold.store import files
from twofold.store.alike import software
from twofold.store.policy_file import FORMAT, seal, unseal, weights_digest

_SHARES = 4  # parts for each job that runs at a time: evaluations differ, and the last part is waited for
_SLASH = "\t"  # between the name of a policy and that of an array: in no name of either


class Kept:
    """The evaluations that are made, each in a file whose name says of what."""

    def __init__(self, folder: Path, evaluator: Evaluator) -> None:
        self.folder, self._digest = folder, _digest(evaluator)

    def path(self, one: Evaluation) -> Path:
        return self.folder / f"{one.name}-{self._digest}.safetensors"

    def write(self, one: Evaluation, result: Result) -> None:
        flat = {f"{name}{_SLASH}{key}": a for name, arrays in result.items() for key, a in arrays.items()}
        files.replace_bytes(self.path(one), seal(flat, {"format": FORMAT, "order": list(flat)}))

    def read(self, one: Evaluation) -> Result:
        found: Result = {}
        arrays, about = unseal(self.path(one))
        for name in listed(
            about, "order"
        ):  # the file itself sorts them, and the order decides ties in the tables
            policy, _, key = str(name).partition(_SLASH)
            found.setdefault(policy, {})[key] = arrays[str(name)]
        return found

    def whole(self, one: Evaluation) -> bool:
        """Whether it is there and can be read; what is damaged is made again."""
        if not is_there(self.path(one)):
            return False
        try:
            self.read(one)
        except (CheckpointError, KeyError, ValueError, TypeError):
            self.path(one).unlink()
            return False
        return True


def _digest(evaluator: Evaluator) -> str:
    """Changes with whatever could change a figure: settings, ratings, policies, seeds, versions."""
    data, here = evaluator.prepared.data, software()
    logs = [data.train, *([] if data.test is None else [data.test])]
    policies = [(kind, run.values, weights_digest(Path(run.source))) for kind, run in evaluator.loaded]
    said = repr((evaluator.cfg, policies, evaluator.seeds, here.python, here.packages, here.code)).encode()
    arrays = (np.ascontiguousarray(a) for log in logs for a in (log.users, log.items, log.values))
    return hashlib.blake2b(said + b"".join(a.tobytes() for a in arrays), digest_size=6).hexdigest()


@dataclass(frozen=True)
class Part:
    """Some of the evaluations, as a job."""

    name: str
    kept: Kept
    plan: tuple[Evaluation, ...]
    argv: tuple[str, ...]

    @property
    def folder(self) -> Path:
        return self.kept.folder

    @property
    def steps(self) -> int:
        return len(self.plan)

    def reached(self) -> int:
        return sum(is_there(self.kept.path(one)) for one in self.plan)

    def finished(self) -> bool:
        return all(self.kept.whole(one) for one in self.plan)


class Stopped(Exception):
    """The jobs ended before all evaluations were made."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class Parts:
    """Evaluations by jobs, in a folder beside the table that is gone when they are all there."""

    def __init__(self, asked: Standings, view: View) -> None:
        self.asked, self.view = asked, view
        self.folder = folder_of(asked)
        if is_there(self.folder):
            files.own_folder(self.folder, "*.safetensors", "logs", "slurm", "experiment.lock", ".shared")
        if asked.on != "here":
            try_out(launcher(asked.on, self.folder), self.folder)

    def __call__(self, evaluator: Evaluator) -> Results:
        kept = Kept(self.folder, evaluator)
        outcome = run_jobs(
            self._jobs(kept, evaluator.plan), self.folder, self.view, limit=self.asked.jobs,
            launcher=launcher(self.asked.on, self.folder),
        )  # fmt: skip
        if not outcome.done:
            raise Stopped(outcome)
        if missing := [one.name for one in evaluator.plan if not kept.whole(one)]:
            raise UserError(
                f"no evaluation {missing[0]}: runs or data changed while they were evaluated, or are others on another "
                "machine; give the command again"
            )
        results = {one: kept.read(one) for one in evaluator.plan}
        shutil.rmtree(self.folder)
        return results

    def _jobs(self, kept: Kept, plan: Sequence[Evaluation]) -> list[Part]:
        many = min(len(plan), _SHARES * self.asked.jobs)
        return [
            Part(f"part {number}", kept, tuple(plan[number::many]), self._argv(f"{number}/{many}"))
            for number in range(many)
        ]

    def _argv(self, part: str) -> tuple[str, ...]:
        asked = self.asked
        argv = [sys.executable, "-m", "twofold", "standings", f"--env-config={asked.env_config}"]
        argv += [f"--seeds={asked.seeds}", f"--out={asked.out}", f"--part={part}"]
        argv += [f"{key}={typed(value)}" for key, value in flatten(asked.settings).items()]
        return (*argv, "--", *(str(run) for run in (*asked.places, *asked.runs)))


def folder_of(asked: Standings) -> Path:
    """Where the evaluations come together."""
    if asked.out is None:
        raise UserError("--jobs and --on need a place where the evaluations come together: add --out=NAME")
    return asked.out.with_name(f"{asked.out.name}.parts")


def make_part(asked: Standings, evaluator: Evaluator) -> None:
    """What a job does: its share of the evaluations, as far as they are not there."""
    number, slash, many = str(asked.part).partition("/")
    if not (slash and number.isdecimal() and many.isdecimal() and int(number) < int(many)):
        raise UserError(f"--part={asked.part}: write K/N, such as 0/4")
    kept = Kept(folder_of(asked), evaluator)
    kept.folder.mkdir(parents=True, exist_ok=True)
    for one in evaluator.plan[int(number) :: int(many)]:
        if not kept.whole(one):
            kept.write(one, evaluator.made(one))
