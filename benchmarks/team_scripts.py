"""What policies that nobody trained win on every map: python benchmarks/team_scripts.py [--planner=12].

It can be resumed. Writes benchmarks/results/team/team_scripts.{json,md}.
Battles are those of the final test of trained policies.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

from team import RESULTS, versions

from twofold.core.seeding import TEST
from twofold.settings.config import load
from twofold.team.scripts import score_script
from twofold.team.worlds.battlefield import load_battlefield, map_names

PLAIN = ("random", "nearest", "focus", "step_back")
BATTLES = 200


def measured(script: str, map_name: str, battles: int) -> dict[str, Any]:
    """Wins with Wilson's interval and returns of a script on the first test seeds."""
    settings = {"env_args": {"map_name": map_name}, "trainer": {"eval_rows": min(battles, BATTLES)}}
    begun = time.process_time()
    scores = score_script(f"script/{script}", load(None, "skirmish", **settings).config, battles, TEST)[
        "eval"
    ]
    won, returned = scores["battle_won"], scores["return"]
    return {
        "won": won["mean"], "low": won["low"], "high": won["high"], "battles": battles,
        "return": returned["mean"], "return_low": returned["low"], "return_high": returned["high"],
        "length": scores["length"]["mean"], "cpu_seconds": round(time.process_time() - begun, 2),
        "command": f"twofold eval --policy=script/{script} --env-config=skirmish env_args.map_name={map_name} "
        f"--episodes={battles} --seed={TEST}",
    }  # fmt: skip


def shown(cell: dict[str, Any] | None) -> str:
    return "" if cell is None else f"{cell['won']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


def write(found: dict[str, dict[str, Any]]) -> None:
    """The numbers, and a page of wins and of returns."""
    record = {"versions": versions(), "seeds": f"{TEST} and following", "maps": found}
    (RESULTS / "team_scripts.json").write_text(json.dumps(record, indent=1))
    names = [*PLAIN, "planner"]
    lines = [
        "# Team: what scripts win in skirmish",
        "",
        f"Share of battles won with Wilson's 95 % interval, {BATTLES} battles each (planner: fewer, see below), on the "
        "seeds of the final test of trained policies. A learnt policy is worth its name only above these.",
        "",
        "| map | " + " | ".join(names) + " |",
        "|---|" + "---|" * len(names),
        *(f"| {m} | " + " | ".join(shown(cells.get(n)) for n in names) + " |" for m, cells in found.items()),
        "",
        "Mean returns (20 is a perfect battle):",
        "",
        "| map | " + " | ".join(names) + " | battles of the planner |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for name, cells in found.items():
        returns = (f"{cells[n]['return']:.2f}" if n in cells else "" for n in names)
        lines.append(
            f"| {name} | " + " | ".join(returns) + f" | {cells.get('planner', {}).get('battles', '')} |"
        )
    lines += [
        "",
        "random: any available action. nearest: walk to the nearest enemy and shoot it. focus: all shoot the weakest "
        "within reach. step_back: focus, and units below half of their strength step away while they reload. planner: "
        "80 battles played ahead from every step with the true rules, one of them the best that was found before; it "
        "knows what no agent sees, so it shows whether a map can be won. On 2s3z and 3s_vs_3z it did not yet remember.",
        "",
        "Versions: " + ", ".join(f"{k} {v}" for k, v in versions().items()),
        "",
        "Command: `python benchmarks/team_scripts.py`; one cell, for example:",
        "",
        f"    {next(iter(next(iter(found.values())).values()))['command']}",
    ]
    (RESULTS / "team_scripts.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--planner", type=int, default=0, help="battles of the planner on each map; it is slow"
    )
    parser.add_argument(
        "--units", type=int, default=20, help="the planner plays maps of at most this many units"
    )
    parser.add_argument("--only", default="", help="maps whose name has this pattern")
    chosen = parser.parse_args()
    path: Path = RESULTS / "team_scripts.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text())["maps"] if path.exists() else {}
    for name in (n for n in map_names() if re.search(chosen.only, n)):
        cells = found.setdefault(name, {})
        small = len(load_battlefield(name).kinds) <= chosen.units
        wanted = [(script, BATTLES) for script in PLAIN] + [("planner", chosen.planner)] * (
            small and chosen.planner > 0
        )
        for script, battles in wanted:
            if cells.get(script, {}).get("battles", 0) < battles:
                cells[script] = measured(script, name, battles)
                write(found)
                print(name, script, shown(cells[script]), cells[script]["cpu_seconds"], flush=True)


if __name__ == "__main__":
    main()
