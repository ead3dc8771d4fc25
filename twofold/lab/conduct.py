"""An experiment from its file to its report: run what is not done, then say what the runs show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from twofold.base.errors import UserError
from twofold.base.regular import MAX_TEXT_BYTES, is_folder, read_regular
from twofold.jobs.launchers import launcher
from twofold.jobs.running import Outcome, View, run_jobs
from twofold.lab.compare import Score
from twofold.lab.experiment import Plan, read_plan
from twofold.lab.report import Report, write_report
from twofold.store import files


@dataclass(frozen=True)
class Conducted:
    """How the jobs ended, and the report, if there is anything to report yet."""

    plan: Plan
    outcome: Outcome
    report: Report | None
    why_no_report: str = ""

    @property
    def exit_code(self) -> int:
        if self.outcome.signal is not None:
            return 128 + self.outcome.signal
        return 0 if self.outcome.done else 1


def conduct(
    path: Path, folder: Path, view: View, *, jobs: int = 2, imports: tuple[str, ...] = (), on: str = "here"
) -> Conducted:
    """Run an experiment file into `folder`; repeated, it goes on; done, it only writes the report again."""
    plan = read_plan(path, folder, imports)
    content = read_regular(path, MAX_TEXT_BYTES, follow=True)
    files.own_folder(folder, "experiment.*", "logs", "report", *{job.world for job in plan.jobs})
    files.replace_bytes(folder / "experiment.yaml", content)
    return conduct_plan(plan, folder, view, jobs=jobs, on=on)


def conduct_seeds(plan: Plan, view: View, *, jobs: int = 2, on: str = "here") -> Conducted:
    """Run the plan of `train --seeds`; its report and logs lie beside the seeds, so that other settings do not wait."""
    return conduct_plan(plan, plan.jobs[0].folder.parent, view, jobs=jobs, on=on)


def conduct_plan(plan: Plan, folder: Path, view: View, *, jobs: int = 2, on: str = "here") -> Conducted:
    """Run a plan and report what is there."""
    outcome = run_jobs(plan.jobs, folder, view, limit=jobs, launcher=launcher(on, folder))
    try:
        return Conducted(plan, outcome, report_plan(plan, folder))
    except UserError as error:
        return Conducted(plan, outcome, None, str(error))


def report_plan(plan: Plan, folder: Path) -> Report:
    """The report of a plan's runs, as far as they have come, below folder/report."""
    places = [job.folder for job in plan.jobs if is_folder(job.folder)]
    if not places:
        raise UserError(f"no run of '{plan.title}' has started in {folder}: nothing to report")
    return write_report(
        places,
        folder / "report",
        title=plan.title,
        score=cast(Score, plan.score),
        metric=plan.metric,
        threshold=plan.threshold,
        baseline=plan.baseline,
        references=plan.references,
        names=plan.names,
    )
