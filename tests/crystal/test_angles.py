import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.filters import FrechetCellFilter
from scipy.spatial.transform import Rotation

from twofold.crystal.angles import angle_hessian
from twofold.crystal.bonds import Frame, find_bonds


def hessian(atoms, share=0.1, stiffness=20.0):
    bonds = find_bonds(Frame(atoms), 1.0, 1.7)
    return angle_hessian(bonds, np.full(len(bonds.i), stiffness), share).toarray()


def water(angle):
    atoms = Atoms("OH2", positions=[[0, 0, 0], [0.96, 0, 0], [0.96, 0, 0]])
    atoms.positions[2] = 0.96 * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle)), 0])
    return atoms


def test_an_angle_has_the_stiffness_of_its_bonds_at_their_length():
    atoms, size = water(104.5), 1e-4
    turned = atoms.copy()
    turned.rotate(np.degrees(size), "z")
    move = np.zeros((3, 3))
    move[1] = (turned.positions - atoms.positions)[1]  # one hydrogen turns by `size` radians
    energy = 0.5 * move.ravel() @ hessian(atoms) @ move.ravel()
    assert energy == pytest.approx(0.5 * 0.1 * 20 * 0.96**2 * size**2, rel=1e-3)


def test_stretching_and_turning_the_whole_cost_nothing():
    atoms = molecule("CH3CH2OH")
    matrix = hessian(atoms)
    shifts = [np.tile(axis, (len(atoms), 1)) for axis in np.eye(3)]
    turns = [np.cross(axis, atoms.positions) for axis in np.eye(3)]
    for move in (*shifts, *turns, atoms.positions):
        np.testing.assert_allclose(matrix @ move.ravel(), 0, atol=1e-9)
    assert np.linalg.eigvalsh(matrix).min() > -1e-9


def test_a_straight_molecule_bends_in_two_directions():
    values = np.linalg.eigvalsh(hessian(molecule("CO2")))
    assert (values > 1e-6).sum() == 2
    assert values[-1] == pytest.approx(values[-2])


def test_turning_the_molecule_turns_the_matrix():
    atoms, turn = molecule("C6H6"), Rotation.random(random_state=3).as_matrix()
    turned = Atoms(atoms.numbers, positions=atoms.positions @ turn)
    all_turns = np.kron(np.eye(len(atoms)), turn)
    np.testing.assert_allclose(hessian(turned), all_turns.T @ hessian(atoms) @ all_turns, atol=1e-9)


def test_the_cell_bends_angles_too():
    """The matrix is that of finite differences of the angles, over atoms and cell."""
    atoms = molecule("H2O", cell=[6, 6, 6], pbc=True)
    frame = FrechetCellFilter(atoms)
    bonds = find_bonds(Frame(atoms, np.eye(3), float(frame.exp_cell_factor)), 1.0, 1.7)
    matrix = angle_hessian(bonds, np.full(len(bonds.i), 20.0), 0.1).toarray()
    shear = np.zeros((6, 3))
    shear[3:] = [[0, 1e-4, 0], [1e-4, 0, 0], [0, 0, 0]]

    def angle(sign):
        copy = atoms.copy()
        strain = np.eye(3) + sign * shear[3:] / frame.exp_cell_factor
        copy.set_cell(copy.cell @ strain.T, scale_atoms=True)
        return np.radians(copy.get_angle(1, 0, 2))

    change = (angle(1) - angle(-1)) / 2
    lengths = [atoms.get_distance(0, k) for k in (1, 2)]
    wanted = 0.1 * 20 * lengths[0] * lengths[1] * change**2
    assert shear.ravel() @ matrix @ shear.ravel() == pytest.approx(wanted, rel=1e-3)


def test_atoms_without_neighbours_have_no_angles():
    assert not hessian(Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 9.0]])).any()
