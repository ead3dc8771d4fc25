"""Two threads of the native engine beside a busy neighbour: `python benchmarks/neighbour.py [--seconds 30]`.

Processes that compute without end take 0, 1 and 2 of the machine's cores. Updates with one thread and with two
alternate in short chunks; medians by the wall clock. Two threads must never be more than a tenth slower than one.
Writes neighbour.json and neighbour.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bench_facts
from bench_report import table
from updates import BATCH, chunk, update_by

RESULTS = Path(__file__).resolve().parent / "results" / "core"
LEAST = 0.9  # of one thread's speed
SMALLER_BATCH = 128


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that compute all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(rows: int, seconds: float) -> dict[str, float]:
    """Median updates per second with one and with two threads, taken in turns."""
    import torch

    call = update_by("native", rows)
    found: dict[int, list[float]] = {1: [], 2: []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for threads in found:
            torch.set_num_threads(threads)
            found[threads].append(chunk(call, time.perf_counter)[0])
    one, two = (statistics.median(found[threads]) for threads in (1, 2))
    return {"one_thread": one, "two_threads": two, "two_over_one": two / one}


def measured(seconds: float) -> dict[str, Any]:
    """All cases, as one record."""
    from twofold.store.provenance import provenance

    record: dict[str, Any] = {**provenance("python benchmarks/neighbour.py")}
    record |= {"machine": bench_facts.machine(), "least": LEAST, "cases": []}
    for rows in (BATCH, SMALLER_BATCH):
        for count in (0, 1, 2):
            with neighbours(count):
                record["cases"].append({"batch": rows, "neighbours": count, **measure(rows, seconds)})
    return record


def page(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    rows = [
        [
            str(case["batch"]),
            str(case["neighbours"]),
            f"{case['one_thread']:.0f}",
            f"{case['two_threads']:.0f}",
            f"{case['two_over_one']:.2f}",
            "yes" if case["two_over_one"] >= LEAST else "**no**",
        ]
        for case in record["cases"]
    ]
    head = ["batch", "busy neighbours", "one thread, updates/s", "two threads", "ratio", f"at least {LEAST}"]
    machine = record["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, commit {record['commit']}, {record['started']}"
    about = (__doc__ or "").split("\n\n")[1].replace("\nWrites neighbour.json and neighbour.md.\n", "")
    return f"# Beside a busy neighbour\n\n`{record['command']}`: {where}.\n\n{table(head, rows)}\n\n{about}\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="for each case")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    record = measured(given.seconds)
    (RESULTS / "neighbour.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "neighbour.md").write_text(page(record))
    print(page(record))


if __name__ == "__main__":
    main()
