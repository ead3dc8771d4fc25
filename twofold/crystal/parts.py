"""A batch in parts: each a `twofold relax` of some structures with a table of its own, as a job here or elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import is_there, names_in
from twofold.crystal.menu import Relax
from twofold.crystal.relaxing import Say, digest_of, output_paths, settings_of
from twofold.crystal.sources import Found
from twofold.crystal.table import Row, Table, failed, read_rows
from twofold.jobs.job import Job
from twofold.jobs.launchers import launcher
from twofold.jobs.running import Outcome, Progress, View, run_jobs
from twofold.store import files

_SHARES = 4  # parts for each job that runs at a time: structures differ, and the last part is waited for
_MOST = 200  # structures of a part: their names must fit into a command line
_TABLE, _OUT = "table.csv", "relaxed"


@dataclass(frozen=True)
class Part:
    """Some structures of a batch."""

    name: str
    folder: Path
    structures: tuple[str, ...]
    argv: tuple[str, ...]

    @property
    def steps(self) -> int:
        return len(self.structures)

    def rows(self) -> dict[str, Row]:
        """What is known of its structures so far."""
        try:
            found = read_rows(self.folder / _TABLE)
        except UserError:
            return {}
        return {name: row for name, row in found.items() if name in set(self.structures)}

    def reached(self) -> int:
        return len(self.rows())

    def finished(self) -> bool:
        return self.reached() == self.steps


class Parts:
    """The jobs of a batch, in a folder beside its table that is gone when they are done."""

    def __init__(self, found: Sequence[Found], asked: Relax, table: Table, say: Say) -> None:
        if table.path is None:
            raise UserError(
                "--jobs and --on need a table, where the rows come together: add --table=FILE.csv"
            )
        self.found, self.asked, self.table, self.say = found, asked, table, say
        self.folder = table.path.with_name(f"{table.path.name}.parts")
        self._places = output_paths(found, asked.out, table.rows)
        how = settings_of(asked)
        self._digests = {one.name: digest_of(one, how) for one in found}
        self._gathered: set[Path] = set()

    def run(self, view: View) -> Outcome:
        """Relax what is not in the table yet, several parts at a time; the rows are in the table afterwards."""
        files.own_folder(self.folder, "part_*", "logs", "slurm", "experiment.lock", ".shared")
        for name in names_in(self.folder):  # of a batch that was cut off
            if name.startswith("part_"):
                self._gather(self.folder / name, read_rows(self.folder / name / _TABLE))
                shutil.rmtree(self.folder / name)
        self._gathered.clear()
        for one in self.found:
            if one.atoms is None:
                self._add(failed(one.name, one.problem))
        left = [one.name for one in self.found if one.atoms is not None and self._row(one.name) is None]
        outcome = run_jobs(
            self._parts(left), self.folder, view, limit=self.asked.jobs,
            launcher=launcher(self.asked.on, self.folder), more=self._more,
        )  # fmt: skip
        self._end(left, outcome)
        return outcome

    def _row(self, name: str) -> Row | None:
        return self.table.kept(name, self._digests[name], self._places.get(name))

    def _parts(self, left: Sequence[str]) -> list[Part]:
        size = max(1, min(_MOST, math.ceil(len(left) / (_SHARES * self.asked.jobs))))
        chunks = [tuple(left[k : k + size]) for k in range(0, len(left), size)]
        return [self._part(number, chunk) for number, chunk in enumerate(chunks)]

    def _part(self, number: int, structures: tuple[str, ...]) -> Part:
        folder = self.folder / f"part_{number:05d}"
        folder.mkdir()
        asked = self.asked
        options: Mapping[str, object] = {
            "calculator": asked.calculator, "fmax": asked.fmax, "steps": asked.steps, "rattle": asked.rattle,
            "seed": asked.seed, "optimizer": asked.optimizer, "table": folder / _TABLE,
        }  # fmt: skip
        argv = [sys.executable, "-m", "twofold", "relax", "--quiet"]
        argv += [f"--{name}={value}" for name, value in options.items()]
        argv += ["--cell"] if asked.cell else []
        argv += [f"--out={folder / _OUT}/"] if asked.out else []
        argv += [*(f"--import={name}" for name in asked.import_), "--", *structures]
        return Part(f"part {number}", folder, structures, tuple(argv))

    def _more(self, jobs: Sequence[Progress]) -> Sequence[Job]:
        """No further jobs: the rows of those that ended are taken over."""
        for progress in jobs:
            if progress.state in ("done", "failed") and isinstance(progress.job, Part):
                self._gather(progress.job.folder, progress.job.rows())
        return ()

    def _gather(self, folder: Path, rows: Mapping[str, Row]) -> None:
        """Rows and files of a part become those of the batch."""
        if folder in self._gathered:
            return
        self._gathered.add(folder)
        for name, row in rows.items():
            if row["digest"] == self._digests.get(name) and self._row(name) is None:
                self._add(row | {"file": self._moved(row["file"], self._places.get(name, ""))})

    def _moved(self, file: str, place: str) -> str:
        if not file or not place or not is_there(file):
            return ""
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, place)
        return place

    def _add(self, row: Row) -> None:
        self.say(self.table.add(row))

    def _end(self, left: Sequence[str], outcome: Outcome) -> None:
        """Whatever has no row yet gets one with the reason, unless somebody stopped the batch."""
        for progress in outcome.jobs:
            if isinstance(progress.job, Part):
                self._gather(progress.job.folder, progress.job.rows())
        if outcome.signal is not None or any(p.state == "stopped" for p in outcome.jobs):
            return
        why = {n: p.message for p in outcome.jobs if isinstance(p.job, Part) for n in p.job.structures}
        for name in left:
            if name not in self.table.rows or self.table.rows[name]["digest"] != self._digests[name]:
                self._add(failed(name, why.get(name) or "its part ended without a row", self._digests[name]))
        shutil.rmtree(self.folder)
