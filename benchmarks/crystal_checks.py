"""Guard, exactness and overhead of the crystal relaxer, and the report of all its results."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from scipy.spatial.transform import Rotation

from twofold.crystal import TD3Relaxer
from twofold.crystal.bonds import Frame
from twofold.crystal.calculators import Counted
from twofold.crystal.spring import SpringStep, largest
from twofold.crystal.structures import Distortion, builtin

RESULTS = Path(__file__).parent / "results"
HEAD = """# Crystals: force calls to a largest force of 0.01 eV/A

Made by `benchmarks/crystal.py`; calls are exact evaluations of energy and forces. `td3` is the shipped policy, `prior`
the same step untrained, `bfgs15` ASE's BFGS with alpha 15. Means over starts; the same starts for all methods.
"""
POOL = (
    "Cu",
    "Al",
    "Ni",
    "Pd",
    "Ag",
    "Pt",
    "Au",
    "NiAl:B2*2x1x1",
    "CuAu:L10",
    "Ni3Al:L12",
    "Cu*2x2x1",
    "Ni3Al:L12*2x1x1",
)


def guard(starts: int) -> None:
    """Random starts: rattle 0.01 to 0.3 A, strain to 5 %, up to one vacancy; failures of the guarded relaxer."""
    rng, runs = np.random.default_rng(2026), []
    for number in range(starts or 1000):
        atoms = builtin(POOL[int(rng.integers(len(POOL)))])
        distortion = Distortion(
            rattle=float(rng.uniform(0.01, 0.3)), strain=0.05, vacancies=int(rng.integers(2))
        )
        atoms = distortion(atoms, rng)
        atoms.calc = Counted(EMT())
        before = largest(atoms.get_forces()), atoms.get_potential_energy()
        relaxer = TD3Relaxer(atoms, logfile=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converged = relaxer.run(fmax=0.01, steps=500)
        report = relaxer.report
        assert report is not None
        worse = report.energy > before[1] + 1e-4 * len(atoms) or (report.fmax > before[0] and not converged)
        runs.append({"n": number, "atoms": len(atoms), "calls": atoms.calc.calls, "converged": bool(converged),
                     "engine": report.engine, "worse": bool(worse)})  # fmt: skip
    out = {
        "starts": len(runs),
        "failures": sum(not r["converged"] for r in runs),
        "worse than the start": sum(r["worse"] for r in runs),
        "mean calls": float(np.mean([r["calls"] for r in runs])),
        "finished by": {e: sum(r["engine"] == e for r in runs) for e in ("spring", "BFGSLineSearch", "FIRE")},
        "seed": 2026,
    }
    (RESULTS / "crystal_guard.json").write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))


def _path(atoms: Atoms) -> list[Any]:
    atoms = Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc, calculator=EMT())
    seen: list[Any] = []
    relaxer = TD3Relaxer(atoms, logfile=None)
    relaxer.attach(lambda: seen.append(atoms.positions.copy()))
    relaxer.run(fmax=0.01, steps=100)
    return seen


def exact(_: int) -> None:
    """Largest difference between a path and that of the turned, renumbered and shifted crystal; overhead of a step."""
    worst = {"turned": 0.0, "renumbered": 0.0, "shifted": 0.0}
    for seed, name in enumerate(("Cu*2x2x2", "Ni3Al:L12", "Al", "CuAu:L10*2x1x1", "Pt*2x2x2")):
        atoms = Distortion(rattle=0.1)(builtin(name), np.random.default_rng(seed))
        plain = np.array(_path(atoms))
        turn = Rotation.random(random_state=seed).as_matrix()
        turned = Atoms(atoms.numbers, positions=atoms.positions @ turn, cell=atoms.cell @ turn, pbc=True)
        order = np.random.default_rng(seed).permutation(len(atoms))
        moved = atoms.copy()
        moved.positions += [3.1, -8.2, 0.7]
        for kind, other, wanted in (
            ("turned", _path(turned), plain @ turn),
            ("renumbered", _path(atoms[order]), plain[:, order]),
            ("shifted", _path(moved), plain + np.array([3.1, -8.2, 0.7])),
        ):
            same = len(other) == len(wanted)
            worst[kind] = max(worst[kind], float(np.abs(np.array(other) - wanted).max()) if same else np.inf)
    out = {"largest difference, A": worst, "overhead, ms of CPU": {n: overhead(n) for n in (2, 4)}}
    (RESULTS / "crystal_exact.json").write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))


def overhead(times: int, repeats: int = 5) -> dict[str, float]:
    """CPU time of observe, features, policy and propose without the force call: median over the steps of some paths."""
    from twofold.crystal.policy import shipped

    policy, spent = shipped(), []
    for seed in range(repeats):
        atoms = bulk("Cu", cubic=True).repeat(times)
        atoms.rattle(0.1, seed=seed)
        atoms.calc, step = EMT(), SpringStep()
        for _ in range(5):
            forces, energy = atoms.get_forces(), atoms.get_potential_energy()
            began = time.process_time()
            step.observe(Frame(atoms), atoms.positions, forces, energy)
            move = step.propose(policy.scalars(step, 0.01))
            spent.append(1e3 * (time.process_time() - began))
            atoms.positions = atoms.positions + move
    return {"atoms": len(atoms), "median": round(float(np.median(spent)), 2), "lowest": round(min(spent), 2)}


# ---- the report ----------------------------------------------------------------------------------------------------


def report(_: int) -> None:
    """benchmarks/results/crystal.md from the JSON files."""
    lines = [HEAD]
    for part in ("emt", "heldout", "size", "alfe", "chgnet"):
        path = RESULTS / f"crystal_{part}.json"
        if path.exists():
            lines += _section(part, json.loads(path.read_text()))
    for name in ("guard", "exact", "hard", "reference"):
        path = RESULTS / f"crystal_{name}.json"
        if path.exists():
            lines += [f"## {name}", "", "```json", path.read_text().strip(), "```", ""]
    (RESULTS / "crystal.md").write_text("\n".join(lines) + "\n")


def _section(part: str, data: dict[str, Any]) -> list[str]:
    runs = data["runs"]
    methods = list(dict.fromkeys(run["method"] for run in sorted(runs, key=lambda r: _order(r["method"]))))
    lines = [f"## {part}", "", *(f"`{command}`  " for command in dict.fromkeys(data["commands"])), ""]
    lines += [
        "| crystal | runs | " + " | ".join(methods) + " | td3 / bfgs |",
        "|" + "---|" * (len(methods) + 3),
    ]
    for row in dict.fromkeys(run["row"] for run in runs):
        mine = {m: [r["calls"] for r in runs if r["row"] == row and r["method"] == m] for m in methods}
        cells = [f"{np.mean(c):.1f}" if c else "-" for c in mine.values()]
        ratio = (
            f"{np.mean(mine['td3']) / np.mean(mine['bfgs']):.2f}"
            if mine.get("td3") and mine.get("bfgs")
            else "-"
        )
        lines.append(
            f"| {row} | {max(len(c) for c in mine.values())} | " + " | ".join(cells) + f" | {ratio} |"
        )
    lines += ["", *_quality(runs, methods), ""]
    return lines


def _order(method: str) -> int:
    known = (
        "td3",
        "prior",
        "bfgs",
        "bfgs15",
        "lbfgs",
        "bfgslinesearch",
        "fire",
        "fire2",
        "preconlbfgs",
        "gpmin",
    )
    return known.index(method)


def _quality(runs: list[dict[str, Any]], methods: list[str]) -> list[str]:
    """Failures, and final energies against BFGS's from the same start."""
    lowest = {r["start"]: r["energy"] for r in runs if r["method"] == "bfgs"}
    lines = ["| method | mean calls | failures | energy at most 1 meV/atom above BFGS's | same minimum as BFGS |",
             "|---|---|---|---|---|"]  # fmt: skip
    for method in methods:
        mine = [r for r in runs if r["method"] == method]
        gaps = [(r["energy"] - lowest[r["start"]]) / r["atoms"] for r in mine if r["start"] in lowest]
        same = [r["same_minimum"] for r in mine if "same_minimum" in r]
        share = f"{100 * np.mean(np.array(gaps) <= 1e-3):.0f} %" if gaps else "-"
        alike = f"{100 * np.mean(same):.0f} %" if same else "-"
        failed = sum(not r["converged"] for r in mine)
        lines.append(
            f"| {method} | {np.mean([r['calls'] for r in mine]):.2f} | {failed} | {share} | {alike} |"
        )
    return lines
