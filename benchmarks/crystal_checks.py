"""Guard, exactness and overhead of the crystal relaxer."""

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
from crystal import versions
from scipy.spatial.transform import Rotation

from twofold.crystal import TD3Relaxer
from twofold.crystal.bonds import Frame
from twofold.crystal.calculators import Counted
from twofold.crystal.spring import SpringStep, largest
from twofold.crystal.structures import Distortion, builtin

RESULTS = Path(__file__).parent / "results" / "crystal"
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


def guard(first: int, starts: int) -> None:
    """Random starts: rattle 0.01 to 0.3 A, strain to 5 %, up to one vacancy; failures of the guarded relaxer."""
    rng, runs = np.random.default_rng(first), []
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
        "seed": first,
        "versions": versions(),
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


def exact(first: int, _: int) -> None:
    """Largest difference between a path and that of the turned, renumbered and shifted crystal; overhead of a step."""
    worst = {"turned": 0.0, "renumbered": 0.0, "shifted": 0.0}
    names = ("Cu*2x2x2", "Ni3Al:L12", "Al", "CuAu:L10*2x1x1", "Pt*2x2x2", "NiAl:B2*2x2x2")
    for seed, name in enumerate(names, first):
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
    out = {
        "largest difference, A": worst,
        "overhead, ms of CPU": {n: overhead(n, repeats) for n, repeats in ((2, 5), (4, 5), (7, 1), (10, 1))},
    }
    out["versions"] = versions()
    (RESULTS / "crystal_exact.json").write_text(json.dumps(out, indent=1) + "\n")
    print(json.dumps(out, indent=1))


def overhead(times: int, repeats: int) -> dict[str, float]:
    """CPU time of observe, features, policy and propose without the force call: median over the steps of some paths."""
    from twofold.crystal.policy import default_policy

    policy, spent, called = default_policy(), [], []
    for seed in range(repeats):
        atoms = bulk("Cu", cubic=True).repeat(times)
        atoms.rattle(0.1, seed=seed)
        atoms.calc, step = EMT(), SpringStep()
        for _ in range(5):
            began = time.process_time()
            forces, energy = atoms.get_forces(), atoms.get_potential_energy()
            called.append(1e3 * (time.process_time() - began))
            began = time.process_time()
            step.observe(Frame(atoms), atoms.positions, forces, energy)
            move = step.propose(policy.scalars(step, 0.01))
            spent.append(1e3 * (time.process_time() - began))
            atoms.positions = atoms.positions + move
    times = {"median": np.median(spent), "lowest": min(spent), "EMT's own call": np.median(called)}
    return {"atoms": len(atoms)} | {name: round(float(value), 2) for name, value in times.items()}
