"""QMIX here and in EPyMARL, in turns: speed, and what the same steps teach.

    python benchmarks/team_peers.py --checkout=FOLDER [--python=PYTHON] [--short] [PART ...]

FOLDER is a checkout of EPyMARL, PYTHON an interpreter that has what it needs (sacred, torch, lbforaging; nothing of it
is part of this repository). Both train QMIX with the same settings on the same foraging tasks, with one thread: GRU of
64, last action and agent as inputs, 32 episodes a batch, one-step targets, soft target networks, exploration that falls
over 10,000 steps, one update for each episode, or for eight where eight rows play. Speed is the difference between a
longer and a shorter run, in processor time of the process and all of its children, so that starting counts for nothing
and a busy machine for little. Then the return of tests after the same steps. Every part is kept as soon as it is
measured, in benchmarks/results/team/team_peers.{json,md}, and can be asked for alone: one_row, eight_rows, easy, coop.
Without a checkout it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_facts
from bench_report import table

from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "team"
ROOT = RESULTS.parents[2]
TASKS = {"lbforaging:Foraging-5x5-2p-1f-v3": 25, "lbforaging:Foraging-5x5-2p-1f-coop-v3": 25}
PARTS = ("one_row", "eight_rows", "easy", "coop")
NAMES = ("twofold", "epymarl")
TEST_EPISODES = 50
# Theirs and ours, name by name.
THEIRS = (
    *("use_rnn=True", "obs_last_action=True", "use_cuda=False", "standardise_rewards=True", "lr=0.001"),
    *("epsilon_anneal_time=10000", "target_update_interval_or_tau=0.01"),
)
OURS = (
    "networks.hidden=64",
    "learner.lr=1e-3",
    "learner.standardise_rewards=true",
    "learner.epsilon_anneal_time=10_000",
    "learner.target_update_interval=0.01",
    "trainer.tensorboard=false",
    "trainer.save_seconds=100000",
)


class Trainings:
    """Runs of both libraries, each in a process of its own."""

    def __init__(self, checkout: Path, python: Path) -> None:
        self.checkout, self.python = checkout.resolve(), python

    def theirs(self, task: str, steps: int, rows: int, seed: int, test_every: int, folder: Path) -> list[Any]:
        """EPyMARL's own command line; its tests."""
        shutil.copytree(self.checkout / "src", folder / "src")  # its results lie beside its source
        (folder / "smaclite.py").touch()  # imported whether or not it is used, and not to be had
        runner = ("runner=parallel", f"batch_size_run={rows}") if rows > 1 else ("runner=episode",)
        words = (
            f"env_args.key={task}",
            f"env_args.time_limit={TASKS[task]}",
            f"t_max={steps}",
            f"seed={seed}",
        )
        tests = (f"test_interval={test_every}", f"test_nepisode={TEST_EPISODES}")
        quiet = ("log_interval=1000000", "runner_log_interval=1000000", "learner_log_interval=1000000")
        command = [self.python, "src/main.py", "--config=qmix", "--env-config=gymma", "with"]
        env = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        subprocess.run(
            [*map(str, command), *words, *runner, *tests, *THEIRS, *quiet],
            cwd=folder,
            env=env,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        found = json.loads(next(folder.rglob("metrics.json")).read_text()).get("test_return_mean", {})
        return list(zip(found.get("steps", []), found.get("values", []), strict=True))

    def ours(self, task: str, steps: int, rows: int, seed: int, test_every: int, folder: Path) -> list[Any]:
        """The same by our command line."""
        episodes = TEST_EPISODES if test_every < steps else 1
        words = (f"env_args.key={task}", f"env_args.time_limit={TASKS[task]}", f"trainer.steps={steps}")
        tests = (f"trainer.eval_every={test_every}", f"trainer.eval_episodes={episodes}")
        share = (f"trainer.rows={rows}", f"trainer.updates_per_item={1 / rows}", "trainer.test_episodes=0")
        command = [sys.executable, "-m", "twofold", "train", "--config=qmix", "--env-config=lbf"]
        subprocess.run(
            [*command, f"--seed={seed}", f"--run={folder / 'run'}", *words, *tests, *share, *OURS],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        lines = (folder / "run" / "evaluations.jsonl").read_text().splitlines()
        return [(one["step"], one["return"]["mean"]) for one in map(json.loads, lines)]


def processor_seconds(work: Callable[[Path], object]) -> float:
    """Processor time of the processes that the work starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        work(Path(folder))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def speeds(runs: Trainings, rows: int, sizes: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Steps per second of processor time, of both in turns; medians."""
    task, (few, many) = list(TASKS)[-1], sizes
    found: dict[str, list[float]] = {"twofold": [], "epymarl": []}
    for _ in range(rounds):
        for name, train in (("twofold", runs.ours), ("epymarl", runs.theirs)):
            short, long = (
                processor_seconds(lambda folder, n=n, t=train: t(task, n, rows, 1, 10**9, folder))
                for n in sizes
            )
            found[name].append((many - few) / (long - short))
    medians = {name: statistics.median(values) for name, values in found.items()}
    # One update for each episode, or for as many as there are rows; an untrained team mostly plays to the limit.
    share = 1 / (TASKS[task] * rows)
    return {
        "rows": rows,
        "steps": sizes,
        "updates_per_step": share,
        **medians,
        "ratio": medians["twofold"] / medians["epymarl"],
    }


def curves(runs: Trainings, task: str, steps: int, seeds: int) -> dict[str, Any]:
    """Mean return of tests after the same steps, for every seed."""
    found: dict[str, list[Any]] = {"twofold": [], "epymarl": []}
    for seed in range(1, seeds + 1):
        for name, train in (("twofold", runs.ours), ("epymarl", runs.theirs)):
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(train(task, steps, 1, seed, steps // 6, Path(folder)))
    return {"task": task, "steps": steps, **found}


def page(record: dict[str, Any]) -> str:
    """The record as Markdown, with the parts that it has."""
    speed = [
        [
            str(one["rows"]),
            *(f"{one[name]:,.0f}" for name in NAMES),
            *(f"{one[name] * one['updates_per_step']:.1f}" for name in NAMES),
            f"{one['ratio']:.1f}",
        ]
        for one in (record[name] for name in PARTS[:2] if name in record)
    ]
    learnt = [
        [
            one["task"].split(":")[1],
            f"{one['steps']:,}",
            name,
            *(_cell(one[name], at, one["steps"]) for at in range(1, 7)),
        ]
        for one in (record[name] for name in PARTS[2:] if name in record)
        for name in NAMES
    ]
    titles = [
        "rows",
        *(f"{name}: steps/s" for name in NAMES),
        *(f"{name}: about updates/s" for name in NAMES),
        "ratio",
    ]
    head = ["task", "steps", "", *(f"{at}/6" for at in range(1, 7))]
    where = f"{record['machine']['cpu']}, commit {record['commit']}; EPyMARL {record['checkout']}"
    missing = ", ".join(name for name in PARTS if name not in record)
    about = (__doc__ or "").split("\n\n")[2].strip()
    return (
        f"# QMIX beside EPyMARL\n\n`{record['command']}`: {where}.\n\n## Speed, per second of processor time\n\n"
        f"{table(titles, speed)}\n\n## Mean return of tests ({record['seeds']} seed, {TEST_EPISODES} episodes)\n\n"
        f"{table(head, learnt)}\n\nOne seed and so few steps rank nobody.\n\n"
        f"{about}\n\nAt a time limit EPyMARL's episode has ended, here its last step bootstraps. The speeds were "
        "measured with targets copied every 200 updates, on a machine that others used, too.\n"
        + (f"\nNot measured: {missing}.\n" if missing else "")
    )


def _cell(seeds: list[Any], at: int, steps: int) -> str:
    """The mean over seeds of the test nearest to this sixth of the run."""
    wanted = at * steps / 6
    values = [min(curve, key=lambda point: abs(point[0] - wanted))[1] for curve in seeds if curve]
    return f"{statistics.mean(values):.2f}" if values else ""


def main() -> int:
    """Measure and write."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--short", action="store_true", help="only to see that everything works")
    parser.add_argument("parts", nargs="*", choices=PARTS)
    given = parser.parse_args()
    if given.checkout is None or not (given.checkout / "src" / "main.py").is_file():
        print("skipped: --checkout=FOLDER must name a checkout of EPyMARL")
        return 0
    runs, short = Trainings(given.checkout, given.python), given.short
    rounds, seeds, steps = (1, 1, 2_000) if short else (2, 1, 24_000)
    measured: dict[str, Callable[[], dict[str, Any]]] = {
        "one_row": lambda: speeds(runs, 1, (1_500, 3_000 if short else 6_000), rounds),
        "eight_rows": lambda: speeds(runs, 8, (4_000, 8_000 if short else 16_000), rounds),
    }
    for name, task in zip(PARTS[2:], TASKS, strict=True):
        measured[name] = lambda task=task: curves(runs, task, steps, seeds)  # type: ignore[misc]
    for part in given.parts or PARTS:
        record = before() | provenance("python benchmarks/team_peers.py --checkout=FOLDER --python=PYTHON")
        record |= {"machine": bench_facts.machine(), "checkout": bench_facts.commit_of(str(given.checkout))}
        record |= {"seeds": seeds, part: measured[part]()}
        print(page(record))
        if not short:
            (RESULTS / "team_peers.json").write_text(json.dumps(record, indent=1) + "\n")
            (RESULTS / "team_peers.md").write_text(page(record))
    return 0


def before() -> dict[str, Any]:
    """What was measured already."""
    path = RESULTS / "team_peers.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


if __name__ == "__main__":
    raise SystemExit(main())
