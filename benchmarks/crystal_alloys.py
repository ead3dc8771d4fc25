"""Al-Fe cells of low symmetry for training and for measuring where a policy is asked: ordered ones and random packings.

None of them has 5, 10 or 20 atoms, as the cells of Trukhan et al. have that a table tests on.
"""

from __future__ import annotations

import numpy as np
from ase import Atoms
from ase.build import bulk, make_supercell
from ase.geometry import cellpar_to_cell, minkowski_reduce
from matscipy.neighbours import neighbour_list

SIZES = (6, 7, 8, 9, 11, 12, 14, 16, 18, 22, 24)
SMALL = (2, 3, 4)
VOLUME = {"Al": 16.6, "Fe": 11.8}  # A^3 per atom
NEAREST, APART = 2.0, 2.35  # A; packed atoms are no nearer than the first, and pushed towards the second


def alloys(count: int, seed: int, sizes: tuple[int, ...] = SIZES) -> dict[str, Atoms]:
    """So many cells, by turns ordered and packed; SMALL ones only packed, as orders of few atoms are tested."""
    rng, found = np.random.default_rng(seed), dict[str, Atoms]()
    while len(found) < count:
        symbols = decoration(int(rng.choice(sizes)), rng)
        lattice = len(found) % 2 and sizes is not SMALL
        atoms = ordered(symbols, rng) if lattice else packed(symbols, rng)
        if atoms is not None:
            found[f"{atoms.get_chemical_formula()} {len(found)}"] = atoms
    return found


def decoration(atoms: int, rng: np.random.Generator) -> list[str]:
    """Elements in random order: rich in iron, rich in aluminium, or any mixture."""
    few = int(rng.integers(1, max(2, atoms // 5 + 1)))
    aluminium = (few, atoms - few, int(rng.integers(1, atoms)))[rng.integers(3)]
    return list(rng.permutation(["Al"] * aluminium + ["Fe"] * (atoms - aluminium)))


def room(symbols: list[str]) -> float:
    return sum(VOLUME[symbol] for symbol in symbols)


def ordered(symbols: list[str], rng: np.random.Generator) -> Atoms | None:
    """These elements on a random supercell of bcc or fcc, or None where that is a needle."""
    atoms, lattice = len(symbols), rng.choice(["bcc", "fcc"])
    edge = (room(symbols) / atoms * (2 if lattice == "bcc" else 4)) ** (1 / 3)
    first = int(rng.choice(divisors(atoms)))
    second = int(rng.choice(divisors(atoms // first)))
    below = [rng.integers(first), rng.integers(first), rng.integers(second)]
    times = [[first, 0, 0], [below[0], second, 0], [below[1], below[2], atoms // first // second]]
    cell = make_supercell(bulk("Fe", lattice, a=edge), times)
    cell.set_cell(minkowski_reduce(cell.cell)[0])
    edges = cell.cell.lengths()
    if edges.max() > 3.2 * edges.min():
        return None
    cell.wrap()
    cell.set_chemical_symbols(symbols)
    return cell


def divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def packed(symbols: list[str], rng: np.random.Generator) -> Atoms | None:
    """These elements at random places of a random cell, pushed apart; None where there is no room."""
    cell = cellpar_to_cell([*rng.uniform(0.7, 1.4, 3), *rng.uniform(60, 110, 3)])
    volume = abs(np.linalg.det(cell))
    if not volume > 0.2:
        return None
    cell *= (room(symbols) * rng.uniform(0.95, 1.25) / volume) ** (1 / 3)
    atoms = Atoms(symbols, scaled_positions=rng.random((len(symbols), 3)), cell=cell, pbc=True)
    for _ in range(100):
        first, vector, distance = neighbour_list("iDd", atoms, APART)
        distance = np.maximum(distance, 1e-3)
        push = 0.3 * (APART / distance - 1)[:, None] * vector
        np.subtract.at(atoms.positions, first, push)
    atoms.wrap()
    return atoms if len(neighbour_list("d", atoms, NEAREST)) == 0 else None
