import numpy as np
import pytest
from ase.build import bulk, molecule
from scipy.spatial.transform import Rotation

from twofold.crystal.internals import MORSE, Internals, find_links

MOLECULES = ("CH3CH2OH", "C6H6", "C3H4_C3v", "H2CO", "bicyclobutane")


def rattled_molecule(name, by=0.05):
    atoms = molecule(name)
    atoms.rattle(by, seed=1)
    return atoms


@pytest.mark.parametrize("name", MOLECULES)
def test_slopes_are_the_derivatives_of_the_values(name):
    atoms, step = rattled_molecule(name), 1e-5
    internals = Internals(atoms)
    slopes = internals(atoms.positions)[1]
    for coordinate in range(3 * len(atoms)):
        shift = np.zeros((len(atoms), 3))
        shift.ravel()[coordinate] = step
        after, before = (internals(atoms.positions + sign * shift)[0] for sign in (1, -1))
        change = internals.between(after, before) / (2 * step)
        np.testing.assert_allclose(slopes[:, coordinate], change, atol=1e-8)


@pytest.mark.parametrize("name", MOLECULES)
def test_bonds_angles_torsions_and_planes_describe_every_change_of_shape(name):
    atoms = rattled_molecule(name)
    slopes = Internals(atoms)(atoms.positions)[1]
    assert np.linalg.matrix_rank(slopes[: -3 * len(atoms)], tol=1e-3) == 3 * len(atoms) - 6


def test_a_turned_and_shifted_molecule_has_the_same_values():
    atoms = rattled_molecule("CH3CH2OH")
    internals = Internals(atoms)
    turned = atoms.positions @ Rotation.random(random_state=3).as_matrix() + [1.0, -2.0, 3.0]
    change = internals.between(internals(turned)[0], internals(atoms.positions)[0])
    np.testing.assert_allclose(change[: -3 * len(atoms)], 0.0, atol=1e-12)


def test_a_torsion_that_passes_half_a_turn_changes_by_the_shorter_way():
    atoms = molecule("trans-butane")
    internals = Internals(atoms)
    values = internals(atoms.positions)[0]
    bonds, angles, rows, torsions, *_ = internals.sizes
    first = bonds + angles + rows
    after, before = values.copy(), values.copy()
    after[first], before[first] = -3.1, 3.1
    assert internals.between(after, before)[first] == pytest.approx(2 * np.pi - 6.2)
    assert torsions > 0


def test_a_morse_bond_is_a_parabola_in_its_coordinate():
    atoms = molecule("H2O")
    internals = Internals(atoms)
    start = internals.length[internals.bonds[0]]
    for stretch in (-0.1, 0.2):
        positions = atoms.positions.copy()
        link = internals.bonds[0]
        i, j = internals.links.centre[link], internals.links.other[link]
        unit = (positions[j] - positions[i]) / start
        positions[j] += stretch * unit
        value = internals(positions)[0][0]
        assert value == pytest.approx((1 - np.exp(-MORSE * stretch)) / MORSE)


def test_a_bond_stretched_by_a_rattle_is_still_one():
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.1, seed=1)
    assert len(Internals(atoms).bonds) == len(Internals(molecule("CH3CH2OH")).bonds) == 8


def test_links_through_a_periodic_boundary_know_their_way_back():
    atoms = bulk("C", "diamond", a=3.57)
    links = find_links(atoms)
    vectors = links.vectors(atoms.positions)
    assert len(links.centre) == 8
    np.testing.assert_allclose(vectors[links.back], -vectors, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 3.57 * np.sqrt(3) / 4)
