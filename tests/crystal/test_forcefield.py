import numpy as np
import pytest
from ase.build import molecule

from twofold.crystal.forcefield import ForceField, period
from twofold.crystal.internals import MORSE, Internals


def stiffness_of(name):
    internals = Internals(molecule(name))
    return internals, ForceField(internals), internals.length[internals.bonds]


def test_a_shorter_bond_is_stiffer():
    _, field, length = stiffness_of("C2H6")
    assert (field.bonds(length - 0.1) > field.bonds(length)).all()


def test_a_bond_that_rests_elsewhere_has_its_curvature_there():
    internals, field, length = stiffness_of("C2H6")
    rest = length + 0.1
    # d2V/dr2 = k (dy/dr)^2 where the force vanishes, and dy/dr = exp(-a (r - r0)).
    there = field(rest)[: len(length)] * np.exp(-2 * MORSE * 0.1)
    np.testing.assert_allclose(there, np.exp(field.bonds(rest)))
    assert len(internals.bonds) == 7


def test_torsions_share_the_stiffness_of_their_bond():
    internals, field, length = stiffness_of("C2H6")
    bonds, angles, rows, torsions, *_ = internals.sizes
    mine = field(length)[bonds + angles + rows :][:torsions]
    axis = internals.torsions[0, 1]
    shorter = field.radii[field.bond_of[axis]] - internals.length[axis]
    constants, between_four_and_four = field.constants, 5
    assert torsions == 9
    wanted = constants.torsion[between_four_and_four] + constants.torsion_order * shorter
    assert np.log(mine.sum()) == pytest.approx(wanted)


def test_bonds_of_a_ring_are_known():
    internals, field, _ = stiffness_of("C6H6")
    ends = internals.numbers[internals.links.other[internals.bonds]]
    starts = internals.numbers[internals.links.centre[internals.bonds]]
    assert field.ringed.tolist() == ((ends == 6) & (starts == 6)).tolist()


def test_couplings_leave_the_matrix_positive():
    for name in ("CH3CH2OH", "bicyclobutane", "C2H6SO", "CF4"):
        _, field, length = stiffness_of(name)
        matrix = field.matrix(field(length))
        np.testing.assert_allclose(matrix, matrix.T)
        np.testing.assert_allclose(np.diag(matrix), field(length))
        assert np.linalg.eigvalsh(matrix).min() > 0


def test_every_stiffness_is_positive_and_finite():
    for name in ("SiH4", "CH3SCH3", "C3H4_C3v", "HCOOCH3", "CH3Cl"):
        _, field, length = stiffness_of(name)
        found = field(length)
        assert np.isfinite(found).all() and (found > 0).all()


def test_periods_count_hydrogen_as_nothing():
    assert period(np.array([1, 6, 9, 14, 53])).tolist() == [0, 1, 1, 2, 2]
