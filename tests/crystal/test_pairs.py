import numpy as np
import pytest
from ase import Atoms
from crystals import rattled

from twofold.crystal.bonds import Frame, find_bonds
from twofold.crystal.pairs import PairBasis, by_kind, combine, fit, gather, pulls, unexplained

BASIS = PairBasis(decay=4.0, reach=1.7)


def test_stiffness_is_the_slope_of_the_slope():
    r, length, h = np.linspace(2.0, 4.0, 9), np.full(9, 2.5), 1e-6
    ahead, behind = BASIS(r + h, length)[0], BASIS(r - h, length)[0]
    np.testing.assert_allclose(BASIS(r, length)[1], (ahead - behind) / (2 * h), rtol=1e-5)


def test_forces_of_a_known_pair_potential_are_fitted_exactly():
    bonds = find_bonds(Frame(rattled("Cu", 2)), 1.0, 1.7)
    truth = np.array([[3.0, -2.0]])
    slope, _ = BASIS(bonds.distance, bonds.length)
    features = pulls(bonds, slope)
    forces = truth.ravel() @ features
    seen = gather(features, forces)
    found = fit([seen], stiffness=np.array([1.0]), certainty=1e-9, doubt=0.1, forget=0.5)
    assert found == pytest.approx(truth, rel=1e-4)
    assert unexplained(found, seen) < 1e-4


def test_without_evidence_the_prior_stays():
    bonds = find_bonds(Frame(rattled("Cu")), 1.0, 1.7)
    slope, _ = BASIS(bonds.distance, bonds.length)
    seen = gather(0 * pulls(bonds, slope), np.zeros(12))
    assert fit([seen], np.array([2.0]), 1.0, 0.1, 0.5) == pytest.approx(np.array([[2.0, -2.0]]))


def test_kinds_of_bonds_are_numbered_like_the_bonds_themselves():
    atoms = Atoms("HOTi", positions=[[0, 0, 0], [1.0, 0, 0], [1.0, 1.9, 0]])
    values = by_kind(atoms.numbers, 2.0, 15.0)
    bonds = find_bonds(Frame(atoms), 1.0, 3.0)
    found = {
        tuple(sorted(atoms.symbols[[i, j]])): v
        for i, j, v in zip(bonds.i, bonds.j, values[bonds.kind], strict=True)
    }
    assert found == {("H", "O"): 15.0, ("O", "Ti"): 2.0, ("H", "Ti"): 2.0}
    assert by_kind(np.array([22, 29]), 2.0, 15.0).tolist() == [2.0, 2.0, 2.0]


def test_combine_uses_each_bonds_own_kind():
    bonds = find_bonds(Frame(rattled("Cu")), 1.0, 1.7)
    parts = np.ones((2, len(bonds.i)))
    assert combine(np.array([[1.0, 2.0]]), bonds, parts) == pytest.approx(np.full(len(bonds.i), 3.0))
