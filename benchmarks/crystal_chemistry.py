"""The page of other chemistry, results/crystal/crystal_chemistry.md, from the JSON that `crystal.py` recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from twofold.core.experience import Array

RESULTS = Path(__file__).parent / "results" / "crystal"
PARTS = {
    "molecules": "GFN2-xTB (`tblite`), closed-shell molecules of the g2 set, rattled by 0.05 and 0.1 A.",
    "drugs": "GFN2-xTB, medicines of 19 to 40 atoms, geometries by RDKit's MMFF94, rattled by 0.05 and 0.1 A.",
    "nonmetals": "CHGNet, positions only, rattled by 0.1, 0.05 and 0.2 A.",
    "cells": "CHGNet, cell and positions together (`FrechetCellFilter`), strained by up to 3 %, rattled by 0.05 A; "
    "the crystals above.",
    "surfaces": "EMT: adsorbates on slabs with a fixed layer, vacancies, clusters, rattled by 0.07 A.",
    "slabs": "CHGNet: the adsorbates above, an oxide's surface with and without one, vacancies, rattled by 0.07 A.",
    "forks": "Al-Fe (EAM) cells that training never saw, each coordinate displaced by up to 0.5 A: how often another, "
    "higher minimum is found.",
    "dft": "Quantum ESPRESSO 6.7 through ASE: LDA, norm-conserving potentials, 20 Ry (with hydrogen 25), shifted "
    "meshes of 2x2x2 points, 2x2x3 for MgH2 and 1x2x2 where the cell is doubled along the first axis, cold "
    "smearing 0.01 Ry (Gaussian for Si), energies to 1e-8 Ry; cells of three to six atoms, rattled by 0.1 A. Cells of "
    "two atoms have three coordinates and do not tell optimisers apart: AlAs and BAs, one start each, took 5 and 5 "
    "calls, the best of the others 4 and 6. BFGS and LBFGS go the same way here.",
}
BY_ROW = ("nonmetals",)  # rows have different numbers of starts, and each counts the same
HEAD = """# Other chemistry: force calls to a largest force of 0.01 eV/A

Made by `benchmarks/crystal.py`, written by `benchmarks/crystal_chemistry.py`. `td3` is the relaxer as it comes: its
policy (one network, fitted to what trainings on metals and on adsorbates and crystals with nonmetals learnt; none saw
one of these structures) is asked where it was measured to save calls ([kind by kind](crystal_policy.md)). Every
optimiser began at the same starts. What the constants were tuned on is listed in `benchmarks/crystal_systems.py` and
not here: other molecules, crystals and surfaces, other seeds. Ratios are geometric means over starts with 95 %
intervals; with CHGNet, positions only, over crystals, whose numbers of starts differ. All rows of `td3` were made with
the one network that the package holds.
"""
Runs = list[dict[str, Any]]


def gains(runs: Runs, other: str) -> dict[str, list[float]]:
    """Logarithms of td3's calls over another method's by row, from the starts that both did."""
    calls = {(run["start"], run["method"]): run["calls"] for run in runs}
    found: dict[str, list[float]] = {}
    for run in runs:
        if run["method"] == "td3" and (theirs := calls.get((run["start"], other))):
            found.setdefault(run["row"], []).append(float(np.log(run["calls"] / theirs)))
    return found


def ratio(runs: Runs, other: str, rows: bool = False) -> str:
    """td3's calls over another method's: a mean over starts, or one over rows, in which each counts the same."""
    found = gains(runs, other)
    logs = np.array(
        [np.mean(own) for own in found.values()] if rows else [x for own in found.values() for x in own]
    )
    return interval(logs)


def interval(logs: Array) -> str:
    """A geometric mean with its 95 % interval."""
    if len(logs) < 2:
        return f"{np.exp(logs.mean()):.2f}"
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, high = np.exp([logs.mean() - half, logs.mean() + half])
    return f"{np.exp(logs.mean()):.2f} [{low:.2f}, {high:.2f}]"


def energies(runs: Runs, method: str) -> str:
    """Shares of starts that end at most 1 meV/atom above BFGS, and that end lower by more; of alpha 15 without BFGS."""
    against = "bfgs" if any(run["method"] == "bfgs" for run in runs) else "bfgs15"
    base = {run["start"]: run["energy"] for run in runs if run["method"] == against}
    gaps = [
        (r["energy"] - base[r["start"]]) / r["atoms"]
        for r in runs
        if r["method"] == method and r["converged"] and r["start"] in base
    ]
    low, high = wilson(sum(gap <= 1e-3 for gap in gaps), len(gaps))
    lower = 100 * np.mean([gap < -1e-3 for gap in gaps])
    return f"{100 * np.mean([gap <= 1e-3 for gap in gaps]):.1f} % [{low:.1f}, {high:.1f}] | {lower:.1f} %"


def wilson(successes: int, number: int) -> tuple[float, float]:
    """The 95 % interval of a share, in per cent."""
    z, share = 1.96, successes / number
    middle = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    half = z / (1 + z**2 / number) * np.sqrt(share * (1 - share) / number + z**2 / (4 * number**2))
    return 100 * (middle - half), 100 * (middle + half)


def head_to_head(runs: Runs) -> list[str]:
    """Where ours and alpha 15 end from the same starts: how often lower and higher, and their shares' difference."""
    energy = {(r["start"], r["method"]): r["energy"] / r["atoms"] for r in runs}
    starts = [s for s, method in energy if method == "bfgs"]
    methods = list(dict.fromkeys(r["method"] for r in runs))
    ends = {m: np.array([energy[s, m] for s in starts]) for m in methods}
    lowest = np.min(list(ends.values()), axis=0)
    told = []
    for method, end in ends.items():
        above = end - lowest > 1e-3
        low, high = wilson(int(above.sum()), len(starts))
        told.append(f"{method} {100 * above.mean():.1f} % [{low:.1f}, {high:.1f}]")
    lines = [
        "",
        f"Ends more than 1 meV/atom above the lowest end that any of them found: {', '.join(told)}.",
        "",
    ]
    theirs, base = ends["bfgs15"], ends["bfgs"]
    for method in (m for m in ("td3", "td3_bfgs") if m in ends):
        gain = 100.0 * ((ends[method] <= base + 1e-3).astype(int) - (theirs <= base + 1e-3))
        half = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain))
        lower, higher = (100 * np.mean(sign * (theirs - ends[method]) > 1e-3) for sign in (1, -1))
        lines.append(
            f"- {method} ends more than 1 meV/atom below alpha 15 in {lower:.1f} % of the starts and above it in "
            f"{higher:.1f} %. Its share of ends at most 1 meV/atom above BFGS differs from alpha 15's by "
            f"{gain.mean():+.1f} points [{gain.mean() - half:+.1f}, {gain.mean() + half:+.1f}], start by start."
        )
    return lines


def behind(runs: Runs) -> list[str]:
    """Rows on which td3 took over a tenth more calls than alpha 15, start by start, with where each ended."""
    mine = {run["start"]: run for run in runs if run["method"] == "td3"}
    theirs = {run["start"]: run for run in runs if run["method"] == "bfgs15"}
    lines = []
    for row in dict.fromkeys(run["row"] for run in runs):
        both = [(mine[s], theirs[s]) for s in mine if s in theirs and mine[s]["row"] == row]
        if sum(a["calls"] for a, _ in both) <= 1.1 * sum(b["calls"] for _, b in both):
            continue
        told = "; ".join(
            f"{a['calls']} against {b['calls']}, ending {1e3 * (a['energy'] - b['energy']) / a['atoms']:+.2f} meV/atom"
            for a, b in both
        )
        same = [
            (a["calls"], b["calls"]) for a, b in both if abs(a["energy"] - b["energy"]) < 5e-4 * a["atoms"]
        ]
        mine_there, theirs_there = (sum(calls) for calls in zip(*same, strict=True)) if same else (0, 0)
        told += f". Where both end within 0.5 meV/atom: {mine_there} against {theirs_there}"
        lines.append(f"- {row}: {told}.")
    return ["", "Behind alpha 15 by more than a tenth, start by start:", "", *lines] if lines else []


def guarded() -> list[str]:
    """Random starts of every kind under the guard."""
    path = RESULTS / "crystal_guard_all.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())["summary"]
    kinds = "\n".join(
        f"| {kind} | {count} | {found['mean calls'][kind]:.1f} |"
        for kind, count in found["starts by kind"].items()
    )
    ends = ", ".join(f"{engine} {count}" for engine, count in found["finished by"].items())
    return [
        "## guarded starts",
        "",
        "Random starts of every kind (`benchmarks/crystal_guard.py` says how they are made): metals, surfaces and "
        "clusters with EMT, Al-Fe cells with EAM, nonmetal crystals with CHGNet, molecules with GFN2-xTB.",
        "",
        "`python benchmarks/crystal_guard.py --starts=2000 --seed=300`",
        "",
        f"{found['starts']} starts, {found['failures']} failures, {found['above the start']} ended above their "
        f"start; finished by: {ends}.",
        "",
        "| kind | starts | mean calls |",
        "|---|---|---|",
        kinds,
        "",
    ]


def section(name: str, about: str) -> list[str]:
    path = RESULTS / f"crystal_{name}.json"
    if not path.exists():
        return []
    data = json.loads(path.read_text())
    runs: Runs = data["runs"]
    methods = sorted(dict.fromkeys(run["method"] for run in runs), key=lambda m: not m.startswith("td3"))
    rows = list(dict.fromkeys(run["row"] for run in runs))
    lines = [f"## {name}", "", about, "", *(f"`{c}`  " for c in dict.fromkeys(data["commands"])), ""]
    versions = ", ".join(f"{package} {version}" for package, version in data["versions"].items())
    heads = [*methods, "td3 / bfgs15"] if name in BY_ROW else methods
    lines += [f"{data['made']}; {versions}", "", "| | starts | " + " | ".join(heads) + " |"]
    lines.append("|---|---|" + "---|" * len(heads))
    each = gains(runs, "bfgs15")
    for row in rows:
        mine = {m: [r["calls"] for r in runs if r["row"] == row and r["method"] == m] for m in methods}
        means = " | ".join(f"{np.mean(calls):.1f}" if calls else "-" for calls in mine.values())
        means += f" | {interval(np.array(each[row]))}" if name in BY_ROW else ""
        lines.append(f"| {row} | {len(mine[methods[0]])} | {means} |")
    lines += [
        "",
        "| method | mean calls | td3 / it | not converged | at most 1 meV/atom above BFGS | lower by more |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for method in methods:
        own = [run for run in runs if run["method"] == method]
        failed = sum(not run["converged"] for run in own)
        against = "1" if method == "td3" else ratio(runs, method, name in BY_ROW)
        mean = np.mean([run["calls"] for run in own])
        lines.append(f"| {method} | {mean:.1f} | {against} | {failed} | {energies(runs, method)} |")
    return [*lines, *(head_to_head(runs) if name == "forks" else behind(runs)), ""]


def page() -> str:
    """The page of what was recorded."""
    parts = (line for name, about in PARTS.items() for line in section(name, about))
    return "\n".join([HEAD, *parts, *guarded()])


def main() -> None:
    (RESULTS / "crystal_chemistry.md").write_text(page())


if __name__ == "__main__":
    main()
