import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from crystals import rattled
from scipy.spatial.transform import Rotation

from twofold.base.errors import ConfigError
from twofold.crystal.bonds import Frame, find_bonds
from twofold.crystal.features import NAMES, features
from twofold.crystal.motion import Motion
from twofold.crystal.spring import SCALARS, Scalars, SpringSettings, SpringStep, evenly, largest


def path(atoms, calls=6, settings=None):
    """Positions at every call, and the forces at the last one."""
    copy = Atoms(atoms.numbers, positions=atoms.positions, cell=atoms.cell, pbc=atoms.pbc, calculator=EMT())
    step, seen = SpringStep(settings), []
    for _ in range(calls):
        seen.append(copy.positions.copy())
        forces = copy.get_forces()
        step.observe(Frame(copy), copy.positions, forces, copy.get_potential_energy())
        copy.positions = copy.positions + step.propose()
    return np.array(seen), forces, step


def test_zero_action_is_the_prior():
    assert Scalars.of(np.zeros(len(SCALARS))) == Scalars()


def test_rattled_copper_is_at_rest_after_six_calls():
    _, forces, _ = path(rattled("Cu", 2))
    assert largest(forces) < 0.01


@pytest.mark.parametrize("times", [1, 2])
def test_turning_the_crystal_turns_the_path(times):
    atoms, turn = rattled("Ni", times), Rotation.random(random_state=1).as_matrix()
    turned = Atoms(atoms.numbers, positions=atoms.positions @ turn, cell=atoms.cell @ turn, pbc=True)
    np.testing.assert_allclose(path(turned)[0], path(atoms)[0] @ turn, atol=1e-8)


def test_turning_a_large_crystal_turns_its_sparse_path():
    atoms, turn = rattled("Cu", 4, by=0.05)[:200], Rotation.random(random_state=2).as_matrix()
    turned = Atoms(atoms.numbers, positions=atoms.positions @ turn, cell=atoms.cell @ turn, pbc=True)
    np.testing.assert_allclose(path(turned, 3)[0], path(atoms, 3)[0] @ turn, atol=1e-8)


def test_renumbering_atoms_renumbers_the_path():
    atoms = rattled("Al", 2)
    order = np.random.default_rng(0).permutation(len(atoms))
    np.testing.assert_allclose(path(atoms[order])[0], path(atoms)[0][:, order], atol=1e-8)


def test_shifting_the_crystal_shifts_the_path():
    atoms = rattled("Cu", 2)
    moved = atoms.copy()
    moved.positions += [7.3, -2.2, 0.4]
    np.testing.assert_allclose(path(moved)[0], path(atoms)[0] + [7.3, -2.2, 0.4], atol=1e-8)


def test_steps_have_no_net_translation():
    seen, _, _ = path(rattled("Cu", 2))
    np.testing.assert_allclose(seen.mean(axis=1), np.broadcast_to(seen[0].mean(axis=0), (6, 3)), atol=1e-12)


def test_no_atom_moves_further_than_the_trust_radius():
    seen, _, _ = path(rattled("Cu", by=0.4), settings=SpringSettings(trust=0.1, trust_most=0.1))
    assert max(largest(step) for step in np.diff(seen, axis=0)[:1]) <= 0.1 + 1e-9


def test_fixed_coordinates_do_not_move():
    atoms = rattled("Cu")
    atoms.set_constraint(FixAtoms([0]))
    step = SpringStep()
    step.observe(
        Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy(), Motion.of(atoms)
    )
    move = step.propose()
    assert largest(move[:1]) == 0
    assert largest(move[1:]) > 0


def test_atoms_are_not_brought_closer_than_allowed():
    atoms = rattled("Cu")
    step = SpringStep(SpringSettings(trust=3.0, trust_most=3.0, floor=1e-3, stride=1.0))
    forces = np.zeros((4, 3))
    forces[0], forces[1] = [0, 30, 30], [0, -30, -30]
    step.observe(Frame(atoms), atoms.positions, forces, 0.0)
    bonds = step.memory.points[-1].bonds
    vectors = bonds.stretched(step.propose())
    assert (np.linalg.norm(vectors, axis=1) >= np.minimum(0.6 * bonds.length, 0.9 * bonds.distance)).all()


def test_a_step_uphill_is_taken_back():
    atoms = rattled("Cu")
    step = SpringStep()
    step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), 0.0)
    start, move = atoms.positions.copy(), step.propose()
    atoms.positions = start + move
    step.observe(Frame(atoms), atoms.positions, 3 * atoms.get_forces() + 5, 1.0)
    assert step.memory.rejected == 1
    assert largest(atoms.positions + step.propose() - start) < largest(move)


def test_features_are_finite_bounded_and_turn_invariant():
    atoms, turn = rattled("Ni"), Rotation.random(random_state=3).as_matrix()
    turned = Atoms(atoms.numbers, positions=atoms.positions @ turn, cell=atoms.cell @ turn, pbc=True)
    one, other = (features(path(a, 3)[2], 0.01) for a in (atoms, turned))
    assert one.shape == (len(NAMES),) and np.isfinite(one).all() and np.abs(one).max() <= 3
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="floor"):
        SpringSettings(floor=0.0)


def test_where_bonds_have_directions_the_model_is_positive_and_of_full_rank_from_the_first_call():
    atoms = molecule("CH3CH2OH")
    atoms.rattle(0.1, seed=1)
    atoms.calc = EMT()
    step = SpringStep()
    step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
    step.propose()
    base, motion = step.memory.best, step.motion
    curvature = step._curvature(base, np.ones((6, 2)), motion, Scalars())
    matrix = np.stack([curvature @ axis for axis in np.eye(27)])
    assert np.linalg.eigvalsh(matrix).min() >= step.settings.rest_least - 1e-9


def test_the_stiffness_of_all_else_is_what_the_last_moves_showed():
    step = SpringStep()
    move = np.array([0.1, 0.0, 0.0])
    pairs = [(move, stiffness * move) for stiffness in (100.0, 4.0, 5.0, 6.0, 7.0)]
    assert step._rest(np.eye(3), pairs, np.zeros((1, 2))) == pytest.approx(4.5), "the median of the last four"
    assert step._rest(np.eye(3), pairs[:1], np.zeros((1, 2))) == step.settings.rest_most


@pytest.mark.parametrize("factor", [4.0, 8.0])
def test_a_strain_is_as_stiff_as_the_neighbours_that_it_moves_whatever_the_cell_factor(factor):
    atoms = bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    bonds = find_bonds(Frame(atoms, cell_factor=factor), 1.0, 1.2)
    assert bonds.length == pytest.approx(1.66 + 1.02)  # sodium and chlorine only, at this reach
    shares, strain = evenly(bonds), np.full(9, 0.01)
    assert (shares[:24] == 1).all()
    assert (factor * strain) ** 2 @ shares[-9:] == pytest.approx(9 * 8 * 2.68**2 * 0.01**2)


def test_metals_have_no_angles_and_keep_the_whole_curvature_of_their_bonds():
    atoms = rattled("Cu", 2)
    step = SpringStep()
    step.observe(Frame(atoms), atoms.positions, atoms.get_forces(), atoms.get_potential_energy())
    assert not step.memory.directed
