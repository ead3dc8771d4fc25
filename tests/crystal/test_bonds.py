import numpy as np
import pytest
from ase.build import bulk, fcc111, molecule
from crystals import rattled

from twofold.crystal.bonds import Frame, find_bonds, length_scale, neighbours


def spring_energy(bonds, vectors):
    return 0.5 * float(((np.linalg.norm(vectors, axis=1) - bonds.distance) ** 2).sum())


@pytest.mark.parametrize("cell", [False, True])
def test_hessian_is_the_second_derivative_of_springs(cell):
    atoms = rattled("Cu", by=0.2)
    frame = Frame(atoms, np.eye(3), 4.0) if cell else Frame(atoms)
    bonds = find_bonds(frame, 1.0, 1.3)
    hessian = bonds.hessian(np.ones(len(bonds.i)), np.zeros(len(bonds.i)), dense=True)
    rng = np.random.default_rng(0)
    step = 1e-4 * rng.standard_normal((frame.rows, 3))
    energy = spring_energy(bonds, bonds.stretched(step))
    assert 0.5 * step.ravel() @ hessian @ step.ravel() == pytest.approx(energy, rel=1e-3)


@pytest.mark.parametrize("cell", [False, True])
def test_pull_is_minus_the_gradient(cell):
    atoms = rattled("Cu", by=0.2)
    frame = Frame(atoms, np.eye(3) * 1.01, 4.0) if cell else Frame(atoms)
    bonds = find_bonds(frame, 1.0, 1.3)
    step = 1e-6 * np.random.default_rng(1).standard_normal((frame.rows, 3))
    change = np.linalg.norm(bonds.stretched(step), axis=1).sum() - bonds.distance.sum()
    assert -(bonds.pull(bonds.unit) * step).sum() == pytest.approx(change, rel=1e-4)


@pytest.mark.parametrize("cell", [False, True])
def test_sparse_and_dense_hessians_agree(cell):
    atoms = rattled("Cu", 2)
    frame = Frame(atoms, np.eye(3), 32.0) if cell else Frame(atoms)
    bonds = find_bonds(frame, 1.0, 1.6)
    along, across = np.ones(len(bonds.i)), np.full(len(bonds.i), 0.1)
    dense, sparse = bonds.hessian(along, across, dense=True), bonds.hessian(along, across, dense=False)
    np.testing.assert_allclose(sparse.toarray(), dense, atol=1e-12)


def test_every_bond_comes_once():
    atoms = bulk("Cu", cubic=True).repeat(3)
    bonds = find_bonds(Frame(atoms), length_scale(atoms, 0.5), 1.2)
    assert len(bonds.i) == 12 * len(atoms) // 2


def test_bonds_to_own_images_count_only_when_the_cell_moves():
    atoms = bulk("Cu")
    assert len(find_bonds(Frame(atoms), 1.0, 1.2).i) == 0
    assert len(find_bonds(Frame(atoms, np.eye(3), 1.0), 1.0, 1.2).i) == 6


def test_neighbours_of_molecules_and_slabs_without_a_whole_cell():
    assert len(neighbours("i", molecule("H2O"), 1.2)[0]) == 4
    assert len(neighbours("i", fcc111("Cu", (2, 2, 2)), 2.8)[0]) == 8 * 9


def test_a_squeezed_start_does_not_shrink_the_natural_length():
    atoms = rattled("Cu")
    atoms.positions[0] = atoms.positions[1] + [1.5, 0, 0]
    assert length_scale(atoms, 0.95) >= 0.95
