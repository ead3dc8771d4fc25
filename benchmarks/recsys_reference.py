"""EasyRL4Rec's TD3 settings on Coat, 1M steps, beside what it published: return, length, time.

    python benchmarks/recsys_reference.py --run=runs/rec_reference

Needs the Coat data ($TWOFOLD_DATA/coat). A run that is finished already is only read; then --cpu-seconds says what it
took. Writes benchmarks/results/recsys/recsys_reference.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from twofold import api
from twofold.store.provenance import provenance

RESULTS = Path(__file__).resolve().parent / "results" / "recsys"
# Its raw log of TD3 on Coat (one seed, mean over the last quarter of the epochs).
PUBLISHED = {"FB": (16.32, 6.93), "NX_0": (29.38, 12.66), "NX_10": (23.32, 10.0)}
SECONDS = 8657.0


def evaluations(run: Path) -> dict[str, list[dict[str, Any]]]:
    """The evaluations of each world after the start, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (run / "evaluations.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if entry["step"]:
            found.setdefault(entry["world"], []).append(entry)
    return found


def last_quarter(entries: list[dict[str, Any]]) -> dict[str, float]:
    """Means over the last quarter of the evaluations, as the reference reports its own."""
    last = entries[-(len(entries) // 4) :]
    names = ("return", "length", "reward_per_turn")
    return {name: mean(entry[name]["mean"] for entry in last) for name in names} | {"evaluations": len(last)}


def table(worlds: dict[str, dict[str, float]]) -> list[str]:
    """Ours beside the published numbers."""
    lines = ["| mode | return | length | published return | published length |", "|---|---|---|---|---|"]
    for name, (their_return, their_length) in PUBLISHED.items():
        ours = f"{worlds[name]['return']:.2f} | {worlds[name]['length']:.2f}"
        lines.append(f"| {name} | {ours} | {their_return:.2f} | {their_length:.2f} |")
    return lines


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("--run", type=Path, default=Path("runs/rec_reference"))
    typed.add_argument("--seed", type=int, default=0)
    typed.add_argument("--cpu-seconds", type=float, help="of a run that is finished already")
    typed.add_argument("--out", type=Path, default=RESULTS / "recsys_reference")
    options = typed.parse_args()
    start = time.process_time()
    api.train("td3_rec_reference", "coat", run=options.run, seed=options.seed)
    seconds = options.cpu_seconds or time.process_time() - start
    worlds = {name: last_quarter(entries) for name, entries in evaluations(options.run).items()}
    command = f"benchmarks/recsys_reference.py --seed={options.seed}"
    made = json.loads((options.run / "provenance.json").read_text())
    made = {name: made[name] for name in ("started", "commit", "python", "packages", "machine")}
    record = {"provenance": provenance(command), "trained": made, "worlds": worlds, "published": PUBLISHED}
    record |= {"cpu_seconds": seconds, "published_seconds": SECONDS}
    options.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(page(record))
    sys.stdout.write(page(record))


def page(record: dict[str, Any]) -> str:
    """The page of what was found."""
    command, seconds = record["provenance"]["command"], record["cpu_seconds"]
    seed = command.rpartition("=")[2]
    text = [
        "# The reference's TD3 settings on Coat (`td3_rec_reference`, quit rule `compat`, true rule in training)",
        "",
        f"1M steps, 125k updates, seed {seed}, all 290 true users; means over the last quarter of 100",
        "evaluations, as in the published table (one seed, too). Training episodes end by the true rule, which leaks.",
        "",
        *table(record["worlds"]),
        "",
        f"CPU time on one thread, user model, evaluations and test included: {seconds:.0f} s; the reference "
        f"took {SECONDS:,.0f} s, {SECONDS / seconds:.0f} times as long.",
        "The published run had explore_eps 1.3, policy_noise 0.25 and remap_eps 0.001; this one has the defaults.",
        "",
        f"    python {command}",
    ]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    main()
