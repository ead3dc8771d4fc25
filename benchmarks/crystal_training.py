"""The structures of mixed chemistry that the policy is trained and validated on, as files of the package.

    python benchmarks/crystal_training.py

Oxides, halides, semiconductors, nitrates and layers (for CHGNet), closed-shell molecules (for GFN2-xTB), adsorbates,
vacancies and clusters (for EMT), as ASE builds them, and Al-Fe cells of low symmetry (for an EAM). None of them is in a
table of `crystal.py`; silver and platinum are left out too, which are elements that a table calls unseen.
"""

from __future__ import annotations

from pathlib import Path

from ase import Atoms
from ase.build import bulk, fcc100, fcc111, molecule
from ase.cluster import Icosahedron, Octahedron
from ase.io import write
from ase.spacegroup import crystal
from crystal_alloys import SMALL, alloys
from crystal_systems import slab

SHIPPED = Path(__file__).parents[1] / "twofold" / "crystal" / "shipped"
CUBE, HEXAGON = [90, 90, 90], [90, 90, 120]
MOLECULES = (
    "CH3CH2OH", "C6H6", "CH3COOH", "C5H5N", "trans-butane", "CH3SCH3", "H2CO", "CH3NO2", "SiH4", "CH3CONH2",
    "isobutene", "CH3Cl", "N2H4", "C3H4_C3v", "COF2", "H2CCHCN", "H2CCHCl", "H2CF2", "HCCl3", "NF3", "OCHCHO",
    "PF3", "Si2H6", "cyclobutane",
)  # fmt: skip
MOLECULES_VALIDATION = ("C2H6SO", "HCOOCH3", "H2CCO", "H3CNH2", "HCOOH", "SiCl4", "cyclobutene", "butadiene")


def perovskite(formula: tuple[str, str, str], edge: float) -> Atoms:
    return crystal(
        list(formula), [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)], spacegroup=221, cellpar=[edge] * 3 + CUBE
    )


def fluorite(corner: str, inside: str, edge: float) -> Atoms:
    return crystal(
        [corner, inside], [(0, 0, 0), (0.25, 0.25, 0.25)], spacegroup=225, cellpar=[edge] * 3 + CUBE
    )


def rutile(metal: str, other: str, edge: float, height: float) -> Atoms:
    return crystal(
        [metal, other], [(0, 0, 0), (0.305, 0.305, 0)], spacegroup=136, cellpar=[edge, edge, height, *CUBE]
    )


def crystals() -> dict[str, Atoms]:
    """To train on."""
    return {
        "BaTiO3": perovskite(("Ba", "Ti", "O"), 4.0),
        "CaTiO3": perovskite(("Ca", "Ti", "O"), 3.85),
        "LaAlO3": perovskite(("La", "Al", "O"), 3.8),
        "KTaO3": perovskite(("K", "Ta", "O"), 3.99),
        "KMgF3": perovskite(("K", "Mg", "F"), 3.99),
        "CsSnBr3": perovskite(("Cs", "Sn", "Br"), 5.8),
        "WO3": crystal(["W", "O"], [(0, 0, 0), (0.5, 0, 0)], spacegroup=221, cellpar=[3.8] * 3 + CUBE),
        "HfO2": fluorite("Hf", "O", 5.08),
        "SrF2": fluorite("Sr", "F", 5.8),
        "Li2O": fluorite("O", "Li", 4.62),
        "MgF2": rutile("Mg", "F", 4.62, 3.05),
        "GeO2": rutile("Ge", "O", 4.4, 2.86),
        "AgBr": bulk("AgBr", "rocksalt", a=5.77, cubic=True),
        "MgS": bulk("MgS", "rocksalt", a=5.2, cubic=True),
        "RbCl": bulk("RbCl", "rocksalt", a=6.58, cubic=True),
        "ScN": bulk("ScN", "rocksalt", a=4.5, cubic=True),
        "CsI": bulk("CsI", "cesiumchloride", a=4.57, cubic=True).repeat((2, 1, 1)),
        "GaAs": bulk("GaAs", "zincblende", a=5.65, cubic=True),
        "CdTe": bulk("CdTe", "zincblende", a=6.48, cubic=True),
        "BP": bulk("BP", "zincblende", a=4.54, cubic=True),
        "AlN": bulk("AlN", "wurtzite", a=3.11, c=4.98).repeat((2, 1, 1)),
        "SiO2 quartz": crystal(["Si", "O"], [(0.47, 0, 2 / 3), (0.414, 0.267, 0.786)], spacegroup=154,
                               cellpar=[4.91, 4.91, 5.4, *HEXAGON]),
        "NaNO3": crystal(["Na", "N", "O"], [(0, 0, 0), (0, 0, 0.25), (0.245, 0, 0.25)], spacegroup=167,
                         cellpar=[5.07, 5.07, 16.82, *HEXAGON], primitive_cell=True),
        "WSe2": crystal(["W", "Se"], [(1 / 3, 2 / 3, 0.25), (1 / 3, 2 / 3, 0.621)], spacegroup=194,
                        cellpar=[3.28, 3.28, 12.96, *HEXAGON]),
    }  # fmt: skip


def crystals_validation() -> dict[str, Atoms]:
    return {
        "KNbO3": perovskite(("K", "Nb", "O"), 4.02),
        "RbCaF3": perovskite(("Rb", "Ca", "F"), 4.46),
        "CeO2": fluorite("Ce", "O", 5.41),
        "Na2S": fluorite("S", "Na", 6.53),
        "RuO2": rutile("Ru", "O", 4.49, 3.1),
        "NaBr": bulk("NaBr", "rocksalt", a=5.97, cubic=True),
        "AlP": bulk("AlP", "zincblende", a=5.46, cubic=True),
        "Ge": bulk("Ge", "diamond", a=5.66, cubic=True),
        "BeO": bulk("BeO", "wurtzite", a=2.7, c=4.38).repeat((2, 1, 1)),
    }


def vacant(surface: Atoms, *gone: int) -> Atoms:
    del surface[list(gone)]
    return surface


def surfaces() -> dict[str, Atoms]:
    """To train on."""
    return {
        "Cu111+O fcc": slab(fcc111("Cu", (2, 2, 3), vacuum=8.0), "O", 1.2, "fcc"),
        "Cu111+CO on top": slab(fcc111("Cu", (2, 2, 3), vacuum=8.0), "CO", 1.9, "ontop"),
        "Pd111+CO bridge": slab(fcc111("Pd", (2, 2, 3), vacuum=8.0), "CO", 1.5, "bridge"),
        "Pd100+CO hollow": slab(fcc100("Pd", (2, 2, 3), vacuum=8.0), "CO", 1.3, "hollow"),
        "Ni100+CO on top": slab(fcc100("Ni", (2, 2, 3), vacuum=8.0), "CO", 1.8, "ontop"),
        "Au100+CO bridge": slab(fcc100("Au", (2, 2, 3), vacuum=8.0), "CO", 1.6, "bridge"),
        "Al111+CO fcc": slab(fcc111("Al", (2, 2, 3), vacuum=8.0), "CO", 1.7, "fcc"),
        "Pd111+H fcc": slab(fcc111("Pd", (2, 2, 3), vacuum=8.0), "H", 1.0, "fcc"),
        "Cu100+H bridge": slab(fcc100("Cu", (2, 2, 3), vacuum=8.0), "H", 1.0, "bridge"),
        "Ni100+N hollow": slab(fcc100("Ni", (2, 2, 3), vacuum=8.0), "N", 1.0, "hollow"),
        "Cu111+N hcp": slab(fcc111("Cu", (3, 3, 3), vacuum=8.0), "N", 1.1, "hcp"),
        "Pd100+O bridge": slab(fcc100("Pd", (2, 2, 3), vacuum=8.0), "O", 1.3, "bridge"),
        "Al111+O fcc": slab(fcc111("Al", (2, 2, 3), vacuum=8.0), "O", 1.0, "fcc"),
        "Au111+C fcc": slab(fcc111("Au", (2, 2, 3), vacuum=8.0), "C", 1.2, "fcc"),
        "Al100+Cu bridge": slab(fcc100("Al", (2, 2, 3), vacuum=8.0), "Cu", 1.9, "bridge"),
        "Cu100+Au bridge": slab(fcc100("Cu", (2, 2, 3), vacuum=8.0), "Au", 2.1, "bridge"),
        "Ni111, two vacancies": vacant(fcc111("Ni", (3, 3, 4), vacuum=8.0), 27, 31),
        "Al100, a vacancy": vacant(fcc100("Al", (3, 3, 4), vacuum=8.0), 30),
        "Au55": Icosahedron("Au", 3),
        "Ni55": Icosahedron("Ni", 3),
        "Al13": Icosahedron("Al", 2),
        "Au38": Octahedron("Au", 4, cutoff=1),
    }


def surfaces_validation() -> dict[str, Atoms]:
    return {
        "Pd111+CO fcc": slab(fcc111("Pd", (2, 2, 3), vacuum=8.0), "CO", 1.4, "fcc"),
        "Ni100+CO bridge": slab(fcc100("Ni", (2, 2, 3), vacuum=8.0), "CO", 1.5, "bridge"),
        "Cu100+O hollow": slab(fcc100("Cu", (2, 2, 3), vacuum=8.0), "O", 0.9, "hollow"),
        "Au100+N hollow": slab(fcc100("Au", (2, 2, 3), vacuum=8.0), "N", 1.0, "hollow"),
        "Al100+H bridge": slab(fcc100("Al", (2, 2, 3), vacuum=8.0), "H", 1.1, "bridge"),
        "Ni100+Pd bridge": slab(fcc100("Ni", (2, 2, 3), vacuum=8.0), "Pd", 1.9, "bridge"),
        "Au111, two vacancies": vacant(fcc111("Au", (3, 3, 4), vacuum=8.0), 27, 31),
        "Al55": Icosahedron("Al", 3),
        "Ni38": Octahedron("Ni", 4, cutoff=1),
    }


def main() -> None:
    SHIPPED.mkdir(exist_ok=True)
    sets = {
        "crystals": crystals(),
        "crystals_validation": crystals_validation(),
        "molecules": {name: molecule(name) for name in MOLECULES},
        "molecules_validation": {name: molecule(name) for name in MOLECULES_VALIDATION},
        "surfaces": surfaces(),
        "surfaces_validation": surfaces_validation(),
        "alloys": alloys(80, seed=1),
        "alloys_validation": alloys(20, seed=2),
        "alloys_small": alloys(40, seed=3, sizes=SMALL),
    }
    for name, found in sets.items():
        images = []
        for label, atoms in found.items():
            one = Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc)
            one.set_constraint(atoms.constraints)
            one.info["name"] = label
            images.append(one)
        columns = ["symbols", "positions"] + (["move_mask"] if name.startswith("surfaces") else [])
        write(SHIPPED / f"{name}.extxyz", images, columns=columns)


if __name__ == "__main__":
    main()
