"""The long form of the fuzz tests: seeded, counted, and gone on with where it was left.

python tests/fuzz/run.py --minutes=30 [--seed=0] [--results] [TARGET ...]

What was tried is kept in .fuzz/: examples that hypothesis found worth keeping, and how many rounds and cases each
target has had, so that the next call goes on with new ones. What breaks is shrunk, shown, and written to .fuzz/found/;
put it into tests/fuzz/corpus, which `make test` tries first. With --results the counts go to
benchmarks/results/core/fuzz.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402
from hypothesis.database import DirectoryBasedExampleDatabase  # noqa: E402
from targets import TARGETS, Case, Hang, Target  # noqa: E402

STATE = Path(".fuzz")
ROUND = 100  # cases of a target before it is the next one's turn
MEMORY = 3 << 30  # bytes that may be asked for beyond what is held at the start


class Counts:
    """How often each target was tried, in this and in all earlier calls."""

    def __init__(self) -> None:
        self.path = STATE / "counts.json"
        self.all: dict[str, dict[str, float]] = (
            json.loads(self.path.read_text()) if self.path.exists() else {}
        )

    def of(self, name: str) -> dict[str, float]:
        return self.all.setdefault(name, {"rounds": 0, "cases": 0, "seconds": 0.0, "findings": 0})

    def save(self) -> None:
        STATE.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.all, indent=1) + "\n")


def corpus(name: str) -> list[Case]:
    """Everything that ever broke this target, or was tried by hand."""
    path = HERE / "corpus" / f"{name}.jsonl"
    return [Case.from_json(line) for line in path.read_text().splitlines()] if path.exists() else []


def attack(target: Target, number: int, cases: int = ROUND, database: Any = None) -> int:
    """One round of random cases, those of this number; how many were tried. Raises what breaks, shrunk."""
    tried: list[Case] = []

    @seed(number)
    @settings(
        max_examples=cases,
        deadline=None,
        database=database,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.cases())
    def one(case: Case) -> None:
        tried.append(case)
        target(case)

    try:
        one()
    except BaseException as error:
        error.case = tried[-1]  # type: ignore[attr-defined]  # hypothesis repeats the smallest one last
        raise
    return len(tried)


def found(name: str, error: BaseException) -> None:
    """Show a finding, and keep it."""
    traceback.print_exception(error)
    case = getattr(error, "case", None)
    if case is not None:
        place = STATE / "found" / f"{name}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(place, "a") as file:
            file.write(case.to_json() + "\n")
        print(f"kept in {place}: {case.to_json()[:500]}", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", default=[], help=f"some of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", action="store_true")
    typed = parser.parse_args()
    if unknown := [name for name in typed.targets if name not in TARGETS]:
        parser.error(f"no target '{unknown[0]}': choose among {', '.join(TARGETS)}")
    logging.disable(logging.CRITICAL)
    counts, made = Counts(), {name: TARGETS[name]() for name in typed.targets or TARGETS}
    database = DirectoryBasedExampleDatabase(STATE / "examples")
    for name, target in made.items():
        for case in corpus(name):
            target(case)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    end, findings = time.monotonic() + 60 * typed.minutes, 0
    while time.monotonic() < end:
        for name, target in made.items():
            findings += turn(name, target, counts.of(name), typed.seed, database)
            counts.save()
            if time.monotonic() >= end:
                break
    for target in made.values():
        target.close()
    print(table(counts.all))
    if typed.results:
        write_results(counts.all)
    return 1 if findings else 0


def turn(name: str, target: Target, count: dict[str, float], first: int, database: Any) -> int:
    """One round of a target, counted; 1 if something broke."""
    began = time.monotonic()
    count["rounds"] += 1
    try:
        count["cases"] += attack(target, first * 1_000_003 + int(count["rounds"]), database=database)
        return 0
    except (Exception, Hang) as error:
        count["findings"] += 1
        found(name, error)
        return 1
    finally:
        count["seconds"] += time.monotonic() - began


def table(counts: dict[str, dict[str, float]]) -> str:
    lines = ["| target | cases | minutes | findings |", "|---|---:|---:|---:|"]
    for name, count in counts.items():
        known = f"{int(count['cases']):,} | {count['seconds'] / 60:.1f} | {int(count['findings'])}"
        lines.append(f"| {name} | {known} |")
    return "\n".join(lines)


def write_results(counts: dict[str, dict[str, float]]) -> None:
    results = ROOT / "benchmarks" / "results" / "core"
    (results / "fuzz.json").write_text(
        json.dumps({"when": time.strftime("%Y-%m-%d"), "targets": counts}, indent=1) + "\n"
    )
    text = "# Fuzzing\n\n`make fuzz MINUTES=...`, all calls together, " + time.strftime("%Y-%m-%d")
    text += ". A case passes if it is taken, or refused with one line; a traceback, a hang of a minute or 3 GB of\n"
    text += "memory is a finding; what was found is mended and in the corpus.\n"
    text += "Minutes are wall time, on a machine that other programs may have used.\n\n"
    (results / "fuzz.md").write_text(text + table(counts) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
