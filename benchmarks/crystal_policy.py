"""What the trained policy saves over the untrained step, kind by kind, and what its measure of depth does.

    TWOFOLD_DATA=... python benchmarks/crystal_policy.py [--policy=FILE] [--name=NAME]
    python benchmarks/crystal_policy.py --page

Fresh starts of `crystal.py`'s systems, none of them trained on, and places that are far from training. Three ways from
each start: the policy with its guard (the untrained step where training saw nothing like it, or the policy gained
nothing near it), the policy asked everywhere, the untrained prior. Results in
benchmarks/results/crystal/crystal_policy.json and its page; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crystal as tables
import crystal_systems
import numpy as np
from ase import Atoms
from ase.build import bulk, fcc111
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.cluster import Icosahedron, Octahedron
from ase.filters import FrechetCellFilter
from scipy.stats import t

from twofold.core.experience import Array
from twofold.crystal.calculators import Counted, calculator_factory
from twofold.crystal.depth import Depth
from twofold.crystal.export import provenance
from twofold.crystal.features import NAMES
from twofold.crystal.policy import SpringPolicy, default_policy, load_weights
from twofold.crystal.relaxer import TD3Relaxer
from twofold.store.run import Run

RESULTS = Path(__file__).parent / "results" / "crystal"
FRESH = 1200  # the first seed of these starts
WAYS = ("td3", "everywhere", "prior")
Start = tuple[str, str, Atoms, Callable[[], Calculator]]
Runs = list[dict[str, Any]]
HEAD = """# The policy against the untrained step, kind by kind

Made by `benchmarks/crystal_policy.py`: force calls to 0.01 eV/A. `td3` is the policy with its guard (the untrained step
where nothing like an observation was measured, and where the policy gained nothing near it), `everywhere` the same
policy without the guard, `prior` the untrained step. `asked` is the share of starts that the guard leaves to it.
Ratios are geometric means over starts with 95 % intervals; below 1 the first is better. Neither training nor the fit
nor the guard's measurement saw one of these starts, nor one of these structures but every second cell of Al-Fe_N=4,
AlFe7, NiAl and small cells of EMT metals. The guard's rule was chosen on other structures (decision 16). Other policies
of metals and earlier guards were looked at on these structures with other seeds, and the policies whose actions this
network learnt on the same starts.
"""
MEASURED = """## What the shipped file holds

The starts that say where it is asked, each judged by the others alone: mean logarithm of the untrained step's calls
over the policy's (above 0 the policy is better) where it is asked everywhere, and where the guard asks it; the share
of starts on which that is.
"""
TRAINED = """## Trainings with nonmetals

Each with the presets and the validation of its own commit. Step 0 is where it began: the untrained step, or with
`td3_crystal_chemistry` (a preset of then) the policy of metals where there are no nonmetals. All were stopped before
their end, most because they went the wrong way; decision 16 says what was changed from one to the next. The package's
policy learnt the actions of the last one at its best.
"""


class Watched(SpringPolicy):
    """Counts how often it is asked, and answers everywhere if told to."""

    def __init__(self, policy: SpringPolicy, everywhere: bool) -> None:
        super().__init__(policy.network, policy.depth)
        self.everywhere, self.steps, self.asked = everywhere, 0, 0

    def knows(self, observation: Array) -> bool:
        known = self.everywhere or super().knows(observation)
        self.steps += 1
        self.asked += int(known)
        return known


def defects(first: int, seeds: int) -> Iterator[Start]:
    """Clusters, vacancies and a large cell: where a policy of small perfect cells cost calls."""
    vacancy = fcc111("Ag", (3, 3, 4), vacuum=8.0)
    del vacancy[[27, 31]]
    cells = {
        "Ag55": Icosahedron("Ag", 3),
        "Pt38": Octahedron("Pt", 4, cutoff=1),
        "Ag111, two vacancies": vacancy,
        "Pt31, a vacancy": bulk("Pt", cubic=True).repeat(2)[1:],
        "Ag108": bulk("Ag", cubic=True).repeat(3),
        "Cu256": bulk("Cu", cubic=True).repeat(4),
    }
    for name, atoms in cells.items():
        for seed in range(first, first + 8):
            yield name, f"{name} {seed}", crystal_systems.rattled(atoms, 0.1, seed), EMT


def forks(first: int, seeds: int) -> Iterator[Start]:
    """Al-Fe cells of 5 to 20 atoms that training never saw: a start of each small one, twenty of the others."""
    for row, name, atoms, make in crystal_systems.fork_starts(first, 20):
        if row != "Al-Fe_N=5" or int(name.rpartition(" ")[2]) < first + 1:
            yield row, name, atoms, make


def nonmetals(first: int, seeds: int) -> Iterator[Start]:
    """The 22 crystals of CHGNet's table, rattled by 0.1 A."""
    make = calculator_factory("chgnet")
    for name, atoms in crystal_systems.nonmetals().items():
        yield name, f"{name} {first}", crystal_systems.rattled(atoms, 0.1, first), make


def by_row(starts: Callable[[int, int], Iterator[Start]], seeds: int = 0) -> Callable[[], Iterator[Start]]:
    """Starts whose row is a kind of its own."""
    return lambda: starts(FRESH, seeds)


def one_kind(
    kind: str, starts: Callable[[int, int], Iterator[Start]], seeds: int = 0
) -> Callable[[], Iterator[Start]]:
    def made() -> Iterator[Start]:
        for _, name, atoms, make in starts(FRESH, seeds):
            yield kind, name, atoms, make

    return made


GROUPS: dict[str, Callable[[], Iterator[Start]]] = {
    "metals": one_kind("EMT metals, 2 to 32 atoms", tables.emt_starts, 2),
    "heldout": one_kind("elements and ternaries never trained on, 32 atoms", tables.heldout_starts, 3),
    "alfe": by_row(tables.alfe_starts, 1),
    "forks": by_row(forks),
    "defects": by_row(defects),
    "surfaces": by_row(crystal_systems.surface_starts, 3),
    "molecules": one_kind("molecules, GFN2-xTB", crystal_systems.molecule_starts),
    "drugs": one_kind("medicines, GFN2-xTB", crystal_systems.drug_starts),
    "nonmetals": one_kind("22 crystals with nonmetals, CHGNet", nonmetals),
    "cells": one_kind("the same, cell and positions", crystal_systems.cell_starts, 1),
}


def relaxed(
    way: str, atoms: Atoms, calculator: Calculator, policy: SpringPolicy, cell: bool
) -> dict[str, Any]:
    """One relaxation: calls, energy, and how often the policy was asked."""
    copy = atoms.copy()
    copy.calc = counted = Counted(calculator)
    moving = FrechetCellFilter(copy) if cell else copy
    watched = Watched(policy, way == "everywhere")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = "prior" if way == "prior" else watched
        done = TD3Relaxer(moving, logfile=None, policy=chosen).run(fmax=0.01, steps=500)
    energy = float(counted.results["energy"]) / len(copy)
    return {"way": way, "calls": counted.calls, "energy": round(energy, 6), "converged": bool(done),
            "steps": watched.steps, "asked": watched.asked}  # fmt: skip


def record(policy: SpringPolicy, groups: list[str], path: Path, ways: tuple[str, ...]) -> None:
    """Run what is not in the file yet."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": []}
    kept |= {
        "commands": [
            *kept.get("commands", []),
            shlex.join(["python", "benchmarks/crystal_policy.py", *sys.argv[1:]]),
        ],
        "versions": tables.versions(),
        "made": time.strftime("%Y-%m-%d"),
    }
    here, done = tables.commit(), {(run["start"], run["way"]) for run in kept["runs"]}
    for group in groups:
        for row, name, atoms, make in GROUPS[group]():
            for way in ways:
                if (f"{group} {name}", way) not in done:
                    run = relaxed(way, atoms, make(), policy, group == "cells")
                    kept["runs"].append(
                        {"group": group, "row": row, "start": f"{group} {name}", "commit": here} | run
                    )
        path.write_text(json.dumps(kept, indent=0) + "\n")
        print(table(kept["runs"], group), flush=True)


def ratio(runs: Runs, one: str, other: str) -> str:
    calls = {(run["start"], run["way"]): run["calls"] for run in runs}
    starts = [start for start, way in calls if way == one and (start, other) in calls]
    logs = np.log([calls[start, one] / calls[start, other] for start in starts])
    if len(logs) < 2:
        return "-"
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, high = np.exp([logs.mean() - half, logs.mean() + half])
    return f"{np.exp(logs.mean()):.2f} [{low:.2f}, {high:.2f}]"


def line(label: str, runs: Runs) -> str:
    def mean(way: str) -> str:
        calls = [run["calls"] for run in runs if run["way"] == way]
        return f"{np.mean(calls):.1f}" if calls else "-"

    steps = sum(run["steps"] for run in runs if run["way"] == "td3")
    asked = sum(run["asked"] for run in runs if run["way"] == "td3")
    starts = len({run["start"] for run in runs})
    cells = [label, str(starts), *(mean(way) for way in WAYS), f"{100 * asked / max(steps, 1):.0f} %"]
    cells += [ratio(runs, one, "prior") for one in ("td3", "everywhere")]
    return "| " + " | ".join(cells) + " |"


def table(runs: Runs, group: str) -> str:
    own = [run for run in runs if run["group"] == group]
    rows = list(dict.fromkeys(run["row"] for run in own))
    lines = [line(row, [run for run in own if run["row"] == row]) for row in rows]
    return "\n".join(lines if len(rows) == 1 else [*lines, line(f"**{group}**", own)])


def kind_of(seen: dict[str, float]) -> str:
    """The kind of system that an observation is of."""
    if seen["internal coordinates"] > 0.5:
        return "molecules"
    if seen["cell"] > 0.5:
        return "metals with their cell" if seen["nonmetals"] < 0.01 else "nonmetals with their cell"
    if seen["nonmetals"] > 0.01:
        return "crystals with nonmetals" if seen["nonmetals"] > 0.4 else "adsorbates"
    return "metals above 17 atoms" if seen["atoms"] > 1.25 else "metals up to 17 atoms"


def held_out(depth: Depth) -> list[str]:
    """Every start of the policy's own measurement, judged by the others alone."""
    raw = depth.seen * depth.scale
    calls = np.round(20 * raw[:, NAMES.index("calls")])
    starts = np.cumsum(np.concatenate([[0], np.diff(calls) <= 0]))
    found: dict[str, list[tuple[float, bool]]] = {}
    for start in np.unique(starts):
        own = np.flatnonzero((starts == start) & (calls > 1.5) & (calls < 3.5))
        if not len(own):
            continue
        others = starts != start
        rest = Depth(depth.seen[others], depth.scale, depth.gain[others], depth.limit)
        seen = dict(zip(NAMES, map(float, raw[own[0]]), strict=True))
        for kind in (kind_of(seen), "all"):
            found.setdefault(kind, []).append((float(depth.gain[own[0]]), rest.holds(raw[own[0]])))
    lines = ["| | starts | asked everywhere | asked where measured | share |", "|---|---|---|---|---|"]
    for kind in sorted(found, key=lambda kind: (kind == "all", kind)):
        gains, asked = (np.array(column) for column in zip(*found[kind], strict=True))
        cells = f"{gains.mean():+.3f} | {(gains * asked).mean():+.3f} | {asked.mean():.2f}"
        lines.append(f"| {kind} | {len(gains)} | {cells} |")
    return lines


def training(folder: Path) -> None:
    """Keep how a training went: its command, its code, its validation, and until when it ran."""
    run = Run.open(folder)
    path = RESULTS / "crystal_training.json"
    kept = [one for one in json.loads(path.read_text()) if one["run"] != folder.name]
    new = {"run": folder.name, "steps wanted": run.resolved.config.trainer.steps} | provenance(run)
    path.write_text(json.dumps([*kept, new], indent=1) + "\n")


def trained() -> list[str]:
    """How the trainings with nonmetals went."""
    lines = [TRAINED]
    for one in json.loads((RESULTS / "crystal_training.json").read_text()):
        lines += [f"`{one['command']}` (commit {one['commit']})", ""]
        lines += ["| steps | mean of -log2(calls) | mean calls | relaxed in 60 steps |", "|---|---|---|---|"]
        for seen in one["curve"]:
            cells = f"{seen['-log2(calls)']:.3f} | {seen['mean calls']:.2f} | {100 * seen['relaxed']:.1f} %"
            lines.append(f"| {seen['step']} | {cells} |")
        lines.append("")
    return lines


def page() -> str:
    """The page of what was recorded."""
    data = json.loads((RESULTS / "crystal_policy.json").read_text())
    runs: Runs = data["runs"]
    versions = ", ".join(f"{package} {version}" for package, version in data["versions"].items())
    head = "| | starts | td3 | everywhere | prior | asked | td3 / prior | everywhere / prior |"
    failed = sum(not run["converged"] for run in runs if run["way"] == "td3")
    lines = [HEAD, *(f"`{command}`  " for command in data["commands"])]
    lines += [f"{data['made']}; {versions}", "", head, "|---" * 8 + "|"]
    groups = [group for group in GROUPS if any(run["group"] == group for run in runs)]
    lines += [table(runs, group) for group in groups]
    lines += [line("**all**", runs), "", f"Not converged with `td3`: {failed}.", "", MEASURED]
    depth = default_policy().depth
    lines += [*(held_out(depth) if depth else []), "", *trained(), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policy", type=Path, help="a policy file in place of the package's")
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--out", type=Path, default=RESULTS / "crystal_policy.json")
    parser.add_argument("--training", type=Path, help="keep how this run went")
    parser.add_argument("--page", action="store_true", help="write the page of what was recorded")
    typed = parser.parse_args()
    if typed.training:
        training(typed.training)
    if typed.page:
        (RESULTS / "crystal_policy.md").write_text(page())
        return
    policy = load_weights(typed.policy) if typed.policy else default_policy()
    record(policy, typed.groups.split(","), typed.out, tuple(typed.ways.split(",")))


if __name__ == "__main__":
    main()
