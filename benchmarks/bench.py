"""Speed of TD3 against other libraries, in one run: `make bench`.

    python benchmarks/bench.py [--quick] [--rounds 5] [--systems twofold sbx-rl] [--out FOLDER]
                               [--checkout cleanrl=FOLDER td3=FOLDER]

Environment steps per second on HalfCheetah-v5, end to end, with one update for each step: every round runs every
library once, in a process of its own, with one thread and with two, and libraries are compared within a round.
A run in which other processes used more than 0.2 of a core is repeated while the allowance lasts. Then: updates
per second against the matrix products alone, time to act, memory of a full replay, time of `twofold --help`.
Writes speed.json, speed.md and speed.png. --quick only shows that everything works: its numbers mean little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import bench_facts
import bench_report
import updates
from bench_facts import ROOT
from bench_systems import CHECKOUTS, SYSTEMS, Window

OURS = "twofold"
QUIET_CORES = 0.2
# Threads that wait by spinning are quick on an idle machine and ruinous on a busy one: each library that uses
# OpenMP threads gets the way that suits it here, found by trial. Ours chooses for itself, JAX has no such choice.
WAITING = {"spin": {"OMP_WAIT_POLICY": "active"}, "default": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}
OPENMP = ("stable-baselines3", "tianshou", "cleanrl", "td3-authors")
SMALLER_BATCH = 128


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int = 7
    threads: tuple[int, ...] = (1, 2)
    systems: tuple[str, ...] = tuple(SYSTEMS)
    checkouts: tuple[tuple[str, str], ...] = ()  # (name, path) of codes that are no packages
    window: Window = field(default_factory=Window)
    trials: int = 2  # runs of each way of waiting
    trial_window: Window = field(default_factory=lambda: Window(steps=200, seconds=3.0))
    updates_seconds: float = 20.0
    help_times: int = 11
    repeats: int = 40  # runs that may be repeated because of noise
    patience: float = 900.0  # seconds that may be spent waiting for a quiet machine
    timeout: float = 300.0  # of one run


QUICK = Plan(
    rounds=2,
    window=Window(skip=50, steps=100, seconds=1.0),
    trials=0,
    updates_seconds=3.0,
    help_times=3,
    repeats=0,
    patience=0.0,
)


class Bench:
    """Runs libraries in processes of their own and keeps what they report."""

    def __init__(self, plan: Plan, python: dict[str, Path]) -> None:
        self.plan, self.python = plan, python
        self.repeats, self.patience = plan.repeats, plan.patience
        self.runs: list[dict[str, Any]] = []  # those that count
        self.rejected: list[dict[str, Any]] = []
        self.waiting: dict[str, str] = {}  # "tianshou 2" -> the way of waiting that was fastest
        self.trials: list[dict[str, Any]] = []

    def race(self) -> None:
        """All rounds; the order of the libraries turns, so that none always follows the same one."""
        for threads in self.plan.threads:
            for name in self.plan.systems:
                self._choose_waiting(name, threads)
        for number in range(self.plan.rounds):
            turn = number % len(self.plan.systems)
            for threads in self.plan.threads:
                for name in (*self.plan.systems[turn:], *self.plan.systems[:turn]):
                    result = self._until_quiet(name, threads) | {"round": number}
                    self.runs.append(result)
                    print(line_of(result), flush=True)

    def _choose_waiting(self, name: str, threads: int) -> None:
        if name not in OPENMP or threads == 1 or not self.plan.trials:
            return
        speeds: dict[str, list[float]] = {way: [] for way in WAITING}
        for _ in range(self.plan.trials):
            for way in WAITING:
                result = self._run(name, threads, self.plan.trial_window, way)
                speeds[way].append(result["steps_per_second"])
                self.trials.append(result)
        best = max(WAITING, key=lambda way: statistics.median(speeds[way]))
        self.waiting[f"{name} {threads}"] = best
        print(f"{name}: threads wait by '{best}'", flush=True)

    def _until_quiet(self, name: str, threads: int) -> dict[str, Any]:
        """A run that nothing disturbed, or, when the allowance is spent, the least disturbed one."""
        tried: list[dict[str, Any]] = []
        way = self.waiting.get(f"{name} {threads}", "passive" if name in OPENMP else "default")
        while True:
            self._wait()
            tried.append(self._run(name, threads, self.plan.window, way))
            if tried[-1]["quiet"] or self.repeats <= 0:
                break
            self.repeats -= 1
        best = min(tried, key=lambda result: result["others_cores"])
        self.rejected += [result for result in tried if result is not best]
        return best

    def _wait(self) -> None:
        """Until nothing else runs, or patience ends."""
        while self.patience > 0 and bench_facts.busy_cores() > QUIET_CORES:
            time.sleep(1.5)
            self.patience -= 2.0

    def _run(self, name: str, threads: int, window: Window, way: str) -> dict[str, Any]:
        settings = [f"--{key}={value}" for key, value in asdict(window).items()]
        command = [self.python[name], "bench_systems.py", name, f"--threads={threads}", *settings]
        if name in CHECKOUTS:
            command.append(f"--checkout={dict(self.plan.checkouts)[CHECKOUTS[name][0]]}")
        environment = os.environ | {"JAX_PLATFORMS": "cpu"} | WAITING[way]
        about = {"system": name, "threads": threads, "waiting": way, "load_average": os.getloadavg()[0]}
        try:
            done = subprocess.run(
                [str(word) for word in command],
                cwd=Path(__file__).parent,
                env=environment,
                timeout=self.plan.timeout,
                capture_output=True,
                text=True,
            )
        except subprocess.TimeoutExpired:  # spinning threads on a busy machine: as slow as not at all
            return about | {
                "steps_per_second": 0.0,
                "others_cores": float(os.cpu_count() or 1),
                "quiet": False,
            }
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
        timing: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return about | timing | {"quiet": timing["others_cores"] <= QUIET_CORES}


def line_of(result: dict[str, Any]) -> str:
    """One run for the console."""
    return (
        f"round {result['round'] + 1}  {result['threads']} thread(s)  {result['system']:18s}"
        f"{result['steps_per_second']:8.1f} steps/s   others used {result['others_cores']:.2f} cores"
    )


def compared(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over rounds of speeds and of ours / theirs in the same round, for each thread count.

    Rounds that were disturbed count only where fewer than three were quiet.
    """
    summary: dict[str, Any] = {}
    for threads in sorted({run["threads"] for run in runs}):
        rounds: dict[int, dict[str, dict[str, Any]]] = {}
        for run in runs:
            if run["threads"] == threads:
                rounds.setdefault(run["round"], {})[run["system"]] = run
        quiet = [one for one in rounds.values() if all(run["quiet"] for run in one.values())]
        used = quiet if len(quiet) >= 3 else list(rounds.values())
        systems = {name: against(name, used) for name in next(iter(used))}
        summary[str(threads)] = {"rounds": len(rounds), "quiet_rounds": len(quiet), "systems": systems}
    return summary


def against(name: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """A library's speed over rounds, and ours over it by the wall clock and by processor time."""
    found = spread([one[name]["steps_per_second"] for one in rounds])
    for key, speed in (("ours_over_it", "steps_per_second"), ("by_cpu_time", "steps_per_cpu_second")):
        pairs = [(one[OURS].get(speed), one[name].get(speed)) for one in rounds if OURS in one]
        found[key] = spread([ours / its for ours, its in pairs if ours and its])
    return found


def spread(values: list[float]) -> dict[str, Any]:
    """Median and range; no number for nothing."""
    if not values:
        return {"median": None, "low": None, "high": None}
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def targets(record: dict[str, Any]) -> list[dict[str, Any]]:
    """What was asked for, what was measured, whether it holds."""
    two = record["summary"].get("2", {}).get("systems", {})
    rows: list[tuple[str, float | None, str, float, float | None]] = []
    for name, wanted in (("stable-baselines3", 2.4), ("tianshou", 3.6), ("sbx-rl", 1.9)):
        ratio = two.get(name, {}).get("ours_over_it", {}).get("median")
        rows.append((f"steps/s over {name}, 2 threads", ratio, ">=", wanted, None))
    for case, wanted in SHARES.items():
        share = record["updates"].get(case, {}).get("native_share_of_products")
        rows.append((f"native updates/s over matrix products, {case}", share, ">=", wanted, None))
    acting = record["updates"].get(case_of(1, updates.BATCH), {}).get("act_microseconds")
    rows.append(("acting on one observation, us", acting, "<", 30.0, None))
    rows.append(("replay of 1M over raw float32", record["replay"]["ratio"], "<=", 1.1, None))
    rows.append(("twofold --help, s", record["help_seconds"], "<", 0.5, None))
    names = ("what", "measured", "relation", "target", "aim")
    found: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in rows if row[1] is not None]
    return [row | {"met": holds(row["measured"], row["relation"], row["target"])} for row in found]


def case_of(threads: int, batch: int) -> str:
    """How a measurement of updates is called."""
    return f"{threads} thread{'s' if threads > 1 else ''}, batch {batch}"


SHARES = {
    case_of(1, updates.BATCH): 0.90,
    case_of(2, updates.BATCH): 0.82,
    case_of(1, SMALLER_BATCH): 0.80,
    case_of(2, SMALLER_BATCH): 0.70,
}


def holds(value: float, relation: str, bound: float) -> bool:
    """value >= bound, value <= bound or value < bound."""
    return {">=": value >= bound, "<=": value <= bound, "<": value < bound}[relation]


def measured(plan: Plan) -> dict[str, Any]:
    """Everything, as one record."""
    sys.path.insert(0, str(ROOT))  # this checkout is measured, whatever is installed
    os.environ["PYTHONPATH"] = str(ROOT)
    from twofold.store.provenance import provenance

    words = [f"{word.partition('=')[0]}=FOLDER" if _is_checkout(word) else word for word in sys.argv]
    record: dict[str, Any] = provenance(shlex.join([Path(sys.executable).name, *words]))
    commits = tuple((name, bench_facts.commit_of(folder)) for name, folder in plan.checkouts)
    record |= {"machine": bench_facts.machine(), "plan": asdict(replace(plan, checkouts=commits))}
    peers = bench_facts.peers_python() if set(plan.systems) - {OURS} else Path(sys.executable)
    bench = Bench(plan, {name: Path(sys.executable) if name == OURS else peers for name in plan.systems})
    record["replay"] = bench_facts.replay_memory()
    record["help_seconds"] = bench_facts.help_seconds(plan.help_times)
    bench.race()
    cases = itertools.product((updates.BATCH, SMALLER_BATCH), plan.threads)
    record["updates"] = {
        case_of(n, batch): updates.measure(n, plan.updates_seconds, batch) for batch, n in cases
    }
    record |= {"waiting": bench.waiting, "runs": bench.runs}
    record |= {"rejected": bench.rejected, "trials": bench.trials, "summary": compared(bench.runs)}
    return record | {"targets": targets(record)}


def _is_checkout(word: str) -> bool:
    """True for NAME=FOLDER of a checkout: where it lies is no one else's business."""
    return word.partition("=")[0] in {checkout for checkout, _ in CHECKOUTS.values()}


def with_checkouts(plan: Plan, given: list[str]) -> Plan:
    """The plan with the codes that these NAME=FOLDER bring."""
    pairs = tuple((name, folder) for name, _, folder in (one.partition("=") for one in given))
    known = {checkout for checkout, _ in CHECKOUTS.values()}
    for name, folder in pairs:
        if name not in known or not Path(folder).is_dir():
            raise SystemExit(
                f"--checkout {name}={folder}: name one of {', '.join(sorted(known))} and its folder"
            )
    more = [system for system, (checkout, _) in CHECKOUTS.items() if checkout in dict(pairs)]
    return replace(plan, systems=(*plan.systems, *more), checkouts=pairs)


def parsed() -> tuple[Plan, Path]:
    """The plan and the folder for results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few minutes, to see that everything works")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS)
    parser.add_argument("--checkout", nargs="+", default=[], help="cleanrl=FOLDER td3=FOLDER: measured, too")
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--out", type=Path, help="default: benchmarks/results, with --quick runs/bench-quick")
    given = parser.parse_args()
    plan = QUICK if given.quick else Plan()
    changes: dict[str, Any] = {"rounds": given.rounds, "systems": given.systems, "threads": given.threads}
    changes = {key: tuple(v) if isinstance(v, list) else v for key, v in changes.items() if v}
    plan = with_checkouts(replace(plan, **changes), given.checkout)
    usual = ROOT / "runs" / "bench-quick" if given.quick else ROOT / "benchmarks" / "results" / "core"
    return plan, given.out or usual


def main() -> None:
    """Measure, write, show."""
    plan, folder = parsed()
    record = measured(plan)
    bench_report.write(record, folder)
    print((folder / "speed.md").read_text())
    print(f"written: {folder}/speed.json, speed.md, speed.png")


if __name__ == "__main__":
    main()
