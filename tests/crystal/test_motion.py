import numpy as np
import pytest
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.constraints import (
    FixAtoms,
    FixBondLengths,
    FixCartesian,
    FixCom,
    FixedLine,
    FixedPlane,
    FixScaled,
    Hookean,
    MirrorForce,
)
from ase.filters import FrechetCellFilter
from ase.optimize import BFGS
from crystals import rattled
from scipy import sparse

from twofold.crystal import TD3Relaxer
from twofold.crystal.calculators import Counted
from twofold.crystal.motion import Motion, everything

VECTORS = np.random.default_rng(0).standard_normal((5, 12))
TILTED = np.array([1.0, 2.0, 2.0]) / 3


def motion(*constraints):
    atoms = bulk("Cu", cubic=True)
    atoms.set_constraint(list(constraints))
    return Motion.of(atoms)


def test_without_constraints_everything_may_move():
    assert motion().everything and everything(4).everything
    assert motion().allowed(VECTORS) is VECTORS


def test_fixed_atoms_and_coordinates_are_no_coordinates():
    held = motion(FixAtoms([0]), FixCartesian([1], mask=(False, True, False)))
    assert held.free.reshape(4, 3).tolist() == [[0, 0, 0], [1, 0, 1], [1, 1, 1], [1, 1, 1]]
    assert len(held.held) == 0


@pytest.mark.parametrize(
    ("constraint", "count"),
    [
        (FixedPlane(1, TILTED), 1),
        (FixedLine(1, TILTED), 2),
        (FixScaled(1, mask=(True, False, False)), 1),
        (FixCom(), 3),
        (FixBondLengths([[0, 1], [1, 2]]), 2),
        (Hookean(0, 1, k=5.0, rt=1.0), 0),
        (MirrorForce(0, 1, max_dist=5.0, min_dist=1.0), 0),
    ],
)
def test_a_constraint_takes_as_many_directions_as_it_removes_from_forces(constraint, count):
    assert len(motion(constraint).held) == count


def test_what_is_allowed_is_within_the_plane():
    left = motion(FixedPlane(1, TILTED)).allowed(VECTORS).reshape(5, 4, 3)
    np.testing.assert_allclose(left[:, 1] @ TILTED, 0, atol=1e-12)
    np.testing.assert_array_equal(left[:, 2], VECTORS.reshape(5, 4, 3)[:, 2])


def test_what_is_allowed_keeps_bond_lengths_whatever_the_masses():
    atoms = molecule("CH3OH")
    atoms.set_constraint(FixBondLengths([[0, 1], [1, 3]]))
    move = Motion.of(atoms).allowed(np.random.default_rng(0).standard_normal(18)).reshape(-1, 3)
    for i, j in ([0, 1], [1, 3]):
        assert (atoms.positions[i] - atoms.positions[j]) @ (move[i] - move[j]) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("dense", [True, False])
def test_held_directions_get_a_stiffness_of_their_own_and_mix_with_nothing(dense):
    root = np.random.default_rng(1).standard_normal((12, 12))
    matrix = root @ root.T + np.eye(12)
    held = motion(FixedPlane(1, TILTED), FixAtoms([0]))
    found = held.movable(matrix if dense else sparse.csr_array(matrix), 7.0)
    found = found if dense else found.toarray()
    direction = held.held[0, held.free]
    np.testing.assert_allclose(found @ direction, 7.0 * direction, atol=1e-9)
    np.testing.assert_allclose(found, found.T, atol=1e-9)


def test_in_a_deformed_cell_the_plane_is_that_of_the_real_positions():
    atoms = rattled("Cu")
    atoms.set_constraint(FixedPlane(1, TILTED))
    frame = FrechetCellFilter(atoms)
    strain = np.array([[1.1, 0.2, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])
    atoms.set_cell(atoms.cell @ strain.T, scale_atoms=True)
    move = Motion.of(frame).allowed(np.random.default_rng(0).standard_normal(21)).reshape(-1, 3)
    assert (move[1] @ frame.deform_grad().T) @ TILTED == pytest.approx(0, abs=1e-9)


def calls(make, constraints, seed=0):
    atoms = rattled("Cu", 2, seed=seed)
    atoms.set_constraint(constraints(atoms))
    atoms.calc = Counted(EMT())
    assert make(atoms).run(fmax=0.01, steps=300)
    return atoms.calc.calls


@pytest.mark.parametrize(
    "constraints",
    [
        lambda a: FixCartesian(range(8), mask=(True, False, False)),
        lambda a: FixedPlane(range(8), TILTED),
        lambda a: FixedLine([0], TILTED),
        lambda a: FixScaled(range(4), mask=(True, True, False)),
        lambda a: FixBondLengths([[0, 1], [8, 9]]),
        lambda a: FixCom(),
        lambda a: Hookean(0, 1, k=5.0, rt=2.4),
    ],
    ids=["FixCartesian", "FixedPlane", "FixedLine", "FixScaled", "FixBondLengths", "FixCom", "Hookean"],
)
def test_constraints_cost_no_more_calls_than_bfgs_with_alpha_15(constraints):
    ours = [calls(lambda a: TD3Relaxer(a, logfile=None), constraints, seed) for seed in range(3)]
    theirs = [calls(lambda a: BFGS(a, alpha=15.0, logfile=None), constraints, seed) for seed in range(3)]
    assert sum(ours) <= sum(theirs), (ours, theirs)
