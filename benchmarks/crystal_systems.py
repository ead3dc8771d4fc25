"""Starts of other chemistry for `crystal.py`: molecules, nonmetal crystals, adsorbates and clusters, and DFT.

What the constants of the step were tuned on is in TUNED and left out here; so are its seeds (below 100).
Molecules need `tblite`, crystals `chgnet`, DFT Quantum ESPRESSO's `pw.x` with its pseudopotentials.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100, fcc111, molecule
from ase.build import surface as cut
from ase.calculators.calculator import Calculator
from ase.calculators.emt import EMT
from ase.cluster import Icosahedron, Octahedron
from ase.collections import g2
from ase.constraints import FixAtoms
from ase.io import read
from ase.optimize import BFGS
from ase.spacegroup import crystal

from twofold.crystal.calculators import calculator_factory
from twofold.crystal.compare import METHODS
from twofold.crystal.relaxer import TD3Relaxer
from twofold.crystal.structures import Distortion, load

DATA = Path(__file__).parent / "data"
TUNED = {
    "molecules": (
        "CH3CH2OH", "C6H6", "CH3COOH", "C5H5N", "trans-butane", "CH3SCH3", "H2CO", "CH3NO2", "SiH4", "CH3CONH2",
        "C2H6SO", "isobutene", "CH3Cl", "N2H4", "C3H4_C3v", "HCOOCH3",
        # for the force field alone (benchmarks/crystal_fit.py), with those of data/tuning.extxyz
        "COF2", "H2CCHCN", "H2CCHCl", "H2CCO", "H2CF2", "H3CNH2", "HCCl3", "HCOOH", "NF3", "OCHCHO", "PF3", "Si2H6",
        "SiCl4", "cyclobutane", "cyclobutene", "methylenecyclopropane", "butadiene",
    ),
    "crystals": (
        "NaCl", "MgO", "GaAs", "TiO2 rutile", "BaTiO3", "SiO2 quartz", "CaF2", "KNbO3", "CaTiO3", "LaAlO3", "KTaO3",
        "KMgF3", "CsSnBr3", "CeO2", "HfO2", "Li2O", "AgBr", "CdTe", "BP", "Ge", "AlN", "WO3", "MgF2", "NaNO3", "WSe2",
        "MgAl2O4",
    ),
    "surfaces": ("Cu111+O", "Cu111+CO on top", "Pd111+H", "Ni100+N", "Pt111+O bridge", "Ag100+O",
                 "Pt111 with two vacancies", "Au55", "Al100+Cu", "NiAl, disordered"),
}  # fmt: skip
CLOSE = ("ZrO2", "SrTiO3")  # crystals that need more starts to tell which optimiser is ahead
Start = tuple[str, str, Atoms, Callable[[], Calculator]]  # row, name, atoms, calculator


def sella(atoms: Any) -> Any:
    """Sella in internal coordinates, to a minimum; molecules only."""
    from sella import Sella

    return Sella(atoms, internal=True, order=0, logfile=None)


METHODS["sella"] = sella
METHODS["td3 maxstep 0.2"] = lambda atoms: TD3Relaxer(atoms, logfile=None, maxstep=0.2)


def rattled(atoms: Atoms, by: float, seed: int) -> Atoms:
    out = atoms.copy()
    out.rattle(by, seed=seed)
    return out


# ---- molecules -----------------------------------------------------------------------------------------------------


def xtb() -> Calculator:
    """GFN2-xTB."""
    from tblite.ase import TBLite

    return TBLite(method="GFN2-xTB", verbosity=0)


def molecule_starts(first: int, seeds: int) -> Iterator[Start]:
    """Closed-shell molecules of the g2 set with four atoms or more, none of those tuned on."""
    names = [name for name in sorted(g2.names) if name not in TUNED["molecules"]]
    found = {name: molecule(name) for name in names}
    closed = {n: a for n, a in found.items() if len(a) > 3 and not a.get_initial_magnetic_moments().any()}
    for name, atoms in list(closed.items())[:44]:
        for by in (0.05, 0.1):
            yield f"g2 {by}", f"{name} {by} {first}", rattled(atoms, by, first), xtb


def drug_starts(first: int, seeds: int) -> Iterator[Start]:
    """Ten medicines of 20 to 40 atoms; geometries by RDKit's MMFF94 from the SMILES beside them."""
    for atoms in read(DATA / "drugs.extxyz", ":"):
        for by in (0.05, 0.1):
            name = atoms.info["name"]
            yield f"drugs {by}", f"{name} {by} {first}", rattled(atoms, by, first), xtb


# ---- crystals ------------------------------------------------------------------------------------------------------


def nonmetals() -> dict[str, Atoms]:
    """Oxides, halides, sulphides, nitrides, carbonates, semiconductors and layers of 4 to 20 atoms."""
    cube, hexagon = [90, 90, 90], [90, 90, 120]
    return {
        "LiF": bulk("LiF", "rocksalt", a=4.03, cubic=True),
        "KBr": bulk("KBr", "rocksalt", a=6.6, cubic=True),
        "CaO": bulk("CaO", "rocksalt", a=4.81, cubic=True),
        "PbS": bulk("PbS", "rocksalt", a=5.94, cubic=True),
        "TiN": bulk("TiN", "rocksalt", a=4.24, cubic=True),
        "CsCl": bulk("CsCl", "cesiumchloride", a=4.12, cubic=True).repeat((2, 1, 1)),
        "Si": bulk("Si", "diamond", a=5.43, cubic=True),
        "C diamond": bulk("C", "diamond", a=3.57, cubic=True),
        "SiC": bulk("SiC", "zincblende", a=4.36, cubic=True),
        "ZnS": bulk("ZnS", "zincblende", a=5.41, cubic=True),
        "InP": bulk("InP", "zincblende", a=5.87, cubic=True),
        "GaN": bulk("GaN", "wurtzite", a=3.19, c=5.19).repeat((2, 1, 1)),
        "ZnO": bulk("ZnO", "wurtzite", a=3.25, c=5.2).repeat((2, 1, 1)),
        "ZrO2": crystal(["Zr", "O"], [(0, 0, 0), (0.25, 0.25, 0.25)], spacegroup=225, cellpar=[5.1] * 3 + cube),
        "SnO2": crystal(["Sn", "O"], [(0, 0, 0), (0.307, 0.307, 0)], spacegroup=136,
                        cellpar=[4.74, 4.74, 3.19, *cube]),
        "TiO2 anatase": crystal(["Ti", "O"], [(0, 0, 0), (0, 0, 0.208)], spacegroup=141,
                                cellpar=[3.785, 3.785, 9.514, *cube]),
        "SrTiO3": crystal(["Sr", "Ti", "O"], [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)], spacegroup=221,
                          cellpar=[3.92] * 3 + cube),
        "CsPbI3": crystal(["Cs", "Pb", "I"], [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)], spacegroup=221,
                          cellpar=[6.3] * 3 + cube),
        "Al2O3": crystal(["Al", "O"], [(0, 0, 0.352), (0.306, 0, 0.25)], spacegroup=167,
                         cellpar=[4.76, 4.76, 12.99, *hexagon], primitive_cell=True),
        "CaCO3 calcite": crystal(["Ca", "C", "O"], [(0, 0, 0), (0, 0, 0.25), (0.257, 0, 0.25)], spacegroup=167,
                                 cellpar=[4.99, 4.99, 17.06, *hexagon], primitive_cell=True),
        "BN layers": crystal(["B", "N"], [(1 / 3, 2 / 3, 0.25), (1 / 3, 2 / 3, 0.75)], spacegroup=194,
                             cellpar=[2.5, 2.5, 6.66, *hexagon]).repeat((2, 1, 1)),
        "MoS2 layers": crystal(["Mo", "S"], [(1 / 3, 2 / 3, 0.25), (1 / 3, 2 / 3, 0.621)], spacegroup=194,
                               cellpar=[3.16, 3.16, 12.3, *hexagon]),
    }  # fmt: skip


def crystal_starts(first: int, seeds: int) -> Iterator[Start]:
    """Three rattles of each crystal with two seeds, and with ten where optimisers are close to each other."""
    make = calculator_factory("chgnet")
    for seed in range(first, first + (seeds or 10)):
        for by in (0.1, 0.05, 0.2):
            for name, atoms in nonmetals().items():
                if seeds or seed < first + 2 or name in CLOSE:
                    yield f"{name}", f"{name} {by} {seed}", rattled(atoms, by, seed), make


def cell_starts(first: int, seeds: int) -> Iterator[Start]:
    """The same crystals strained by up to 3 % and rattled by 0.05 A; cell and positions relax together."""
    make = calculator_factory("chgnet")
    for seed in range(first, first + (seeds or 3)):
        for name, atoms in nonmetals().items():
            strained = Distortion(rattle=0.05, strain=0.03, r0=0.5)(atoms, np.random.default_rng(seed))
            yield name, f"{name} {seed}", strained, make


# ---- surfaces, clusters, defects -----------------------------------------------------------------------------------


def slab(surface: Atoms, species: str, height: float, site: str) -> Atoms:
    """An adsorbate on a slab whose lowest layer is fixed."""
    heights = {"CO": [("C", height), ("O", height + 1.15)]}.get(species, [(species, height)])
    for symbol, at in heights:
        add_adsorbate(surface, symbol, at, site)
    surface.set_constraint(FixAtoms(mask=surface.get_tags() == surface.get_tags().max()))
    return surface


def surfaces() -> dict[str, Atoms]:
    """Adsorbates, vacancies and clusters with EMT."""
    vacancy = fcc111("Cu", (3, 3, 4), vacuum=8.0)
    del vacancy[[27, 31]]
    return {
        "Cu111+CO bridge": slab(fcc111("Cu", (2, 2, 3), vacuum=8.0), "CO", 1.5, "bridge"),
        "Cu100+CO on top": slab(fcc100("Cu", (2, 2, 3), vacuum=8.0), "CO", 1.9, "ontop"),
        "Ni111+CO fcc": slab(fcc111("Ni", (2, 2, 3), vacuum=8.0), "CO", 1.4, "fcc"),
        "Pt111+N hcp": slab(fcc111("Pt", (2, 2, 3), vacuum=8.0), "N", 1.1, "hcp"),
        "Au111+O fcc": slab(fcc111("Au", (3, 3, 3), vacuum=8.0), "O", 1.2, "fcc"),
        "Ni100+H bridge": slab(fcc100("Ni", (2, 2, 3), vacuum=8.0), "H", 1.0, "bridge"),
        "Al100+O hollow": slab(fcc100("Al", (2, 2, 3), vacuum=8.0), "O", 0.9, "hollow"),
        "Pd100+Au bridge": slab(fcc100("Pd", (2, 2, 3), vacuum=8.0), "Au", 2.1, "bridge"),
        "Cu111, two vacancies": vacancy,
        "Cu55": Icosahedron("Cu", 3),
        "Pd38": Octahedron("Pd", 4, cutoff=1),
    }


def surface_starts(first: int, seeds: int) -> Iterator[Start]:
    for name, atoms in surfaces().items():
        for seed in range(first, first + (seeds or 3)):
            yield name, f"{name} {seed}", rattled(atoms, 0.07, seed), EMT


def slabs() -> dict[str, Atoms]:
    """The adsorbates of `surfaces`, an oxide's surface with and without one, and vacancies, with CHGNet."""
    oxide = cut(bulk("MgO", "rocksalt", a=4.21, cubic=True), (1, 0, 0), 2, vacuum=8.0)
    carbonyl = oxide.copy()
    top = carbonyl.positions[np.argmax(carbonyl.positions[:, 2] + (carbonyl.numbers == 12))]
    carbonyl += Atoms("CO", positions=top + np.array([[0, 0, 2.4], [0, 0, 3.55]]))
    silicon = bulk("Si", cubic=True).repeat((2, 1, 1))
    del silicon[3]
    salt = bulk("NaCl", "rocksalt", a=5.69, cubic=True).repeat((2, 1, 1))
    del salt[[2, 3]]
    adsorbates = {name: atoms for name, atoms in surfaces().items() if "+" in name}
    added = {
        "MgO100": oxide,
        "MgO100+CO on top": carbonyl,
        "Si, a vacancy": silicon,
        "NaCl, a pair missing": salt,
    }
    return adsorbates | added


def slab_starts(first: int, seeds: int) -> Iterator[Start]:
    make = calculator_factory("chgnet")
    for seed in range(first, first + (seeds or 2)):
        for name, atoms in slabs().items():
            yield name, f"{name} {seed}", rattled(atoms, 0.07, seed), make


def fork_starts(first: int, seeds: int) -> Iterator[Start]:
    """Al-Fe cells of Trukhan et al. that training never saw, each coordinate displaced by up to 0.5 A."""
    folder = Path(os.environ.get("TWOFOLD_DATA", "")) / "alfe"
    make = calculator_factory(f"eam:{folder / 'AlFe.fs'}")
    for name, repeats in (("Al-Fe_N=5", 2), ("Al8Fe2", 20), ("Al2Fe18", 20)):
        if not (folder / f"{name}.csv").exists():
            print(f"skipped: {name}.csv is not in $TWOFOLD_DATA/alfe", file=sys.stderr)
            continue
        for number, atoms in enumerate(load(folder / f"{name}.csv")):
            rest = Atoms(
                atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=True, calculator=make()
            )
            BFGS(rest, logfile=None).run(fmax=0.01, steps=500)
            rest.calc = None
            for seed in range(first, first + (seeds or repeats)):
                rng = np.random.default_rng(1000 * seed + number)
                yield name, f"{name}#{number} {seed}", Distortion(trans_coef=0.5, r0=1.5)(rest, rng), make


# ---- DFT -----------------------------------------------------------------------------------------------------------

PSEUDO = Path(os.environ.get("ESPRESSO_PSEUDO", "/usr/share/espresso/pseudo"))
POTENTIALS = {
    "Si": "Si.pz-vbc.UPF",
    "Al": "Al.pz-vbc.UPF",
    "As": "As.pz-bhs.UPF",
    "H": "H.pz-vbc.UPF",
    "Mg": "Mg.pz-n-vbc.UPF",
}


def espresso(cutoff: float, mesh: tuple[int, int, int], smearing: str) -> Calculator:
    """LDA with norm-conserving potentials, a mesh shifted off Gamma, energies to 1e-8 Ry.

    Each call begins with the density of the one before, in a folder that goes with the calculator.
    """
    from ase.calculators.espresso import Espresso, EspressoProfile

    profile = EspressoProfile(command="pw.x", pseudo_dir=str(PSEUDO))
    control = {"tprnfor": True, "disk_io": "low"}
    system = {"ecutwfc": cutoff, "occupations": "smearing", "smearing": smearing, "degauss": 0.01}
    electrons = {"conv_thr": 1e-8, "startingwfc": "file", "startingpot": "file"}
    folder = tempfile.mkdtemp(prefix="pw_")
    made = Espresso(
        profile=profile,
        pseudopotentials=POTENTIALS,
        input_data={"control": control, "system": system, "electrons": electrons},
        kpts=mesh,
        koffset=(1, 1, 1),
        directory=folder,
    )
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


def dft_cells() -> dict[str, tuple[Atoms, float, tuple[int, int, int], str]]:
    """Semiconductors, a hydride and alloys of three to six atoms: cell, cutoff (Ry), mesh, smearing.

    Silicon has Gaussian smearing: with the cold one pw.x finds no density on the way of BFGS.
    """
    cube = [90, 90, 90]
    magnesium_silicide = crystal(["Si", "Mg"], [(0, 0, 0), (0.25, 0.25, 0.25)], spacegroup=225,
                                 cellpar=[6.3] * 3 + cube, primitive_cell=True)  # fmt: skip
    hydride = crystal(["Mg", "H"], [(0, 0, 0), (0.306, 0.306, 0)], spacegroup=136,
                      cellpar=[4.45, 4.45, 2.99, *cube])  # fmt: skip
    silicon_alloy, magnesium_alloy = (bulk("Al", "fcc", a=4.0, cubic=True) for _ in range(2))
    silicon_alloy.symbols[0], magnesium_alloy.symbols[0] = "Si", "Mg"
    return {
        "Al3Si": (silicon_alloy, 20.0, (2, 2, 2), "cold"),
        "MgH2": (hydride, 25.0, (2, 2, 3), "cold"),
        "Mg2Si": (magnesium_silicide, 20.0, (2, 2, 2), "cold"),
        "Al3Mg": (magnesium_alloy, 20.0, (2, 2, 2), "cold"),
        "AlAs4": (bulk("AlAs", "zincblende", a=5.63).repeat((2, 1, 1)), 20.0, (1, 2, 2), "cold"),
        "Si4": (bulk("Si", "diamond", a=5.4).repeat((2, 1, 1)), 20.0, (1, 2, 2), "gaussian"),
    }


def dft_starts(first: int, seeds: int) -> Iterator[Start]:
    """Small cells that one core can do, rattled by 0.1 A."""
    if shutil.which("pw.x") is None:
        print("skipped: Quantum ESPRESSO's pw.x is not installed", file=sys.stderr)
        return
    absent = sorted(name for name in POTENTIALS.values() if not (PSEUDO / name).exists())
    if absent:
        print(f"skipped: {', '.join(absent)} are not in {PSEUDO} (ESPRESSO_PSEUDO)", file=sys.stderr)
        return
    for seed in range(first, first + (seeds or 3)):
        for name, (atoms, *settings) in dft_cells().items():
            yield name, f"{name} {seed}", rattled(atoms, 0.1, seed), partial(espresso, *settings)
