import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator, all_changes
from ase.cluster import Icosahedron
from ase.constraints import FixAtoms, FixBondLength
from scipy.spatial.transform import Rotation

from twofold.crystal import TD3Relaxer
from twofold.crystal.calculators import Counted
from twofold.crystal.curvilinear import CurvilinearStep, suits
from twofold.crystal.forcefield import ForceField
from twofold.crystal.internals import Internals


class Springs(Calculator):
    """Springs on a molecule's internal coordinates that rest at `atoms`, `factor` times as stiff as is guessed."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, atoms, factor=1.0):
        super().__init__()
        self.internals = Internals(atoms)
        field, shape = ForceField(self.internals), slice(0, -3 * len(atoms))
        matrix = field.matrix(field(self.internals.length[self.internals.bonds]))
        self.stiffness = factor * matrix[shape, shape]
        self.rest = self.internals(atoms.positions)[0]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        values, slopes = self.internals(atoms.positions)
        change = self.internals.between(values, self.rest)[: len(self.stiffness)]
        self.results["energy"] = float(0.5 * change @ self.stiffness @ change)
        self.results["forces"] = -(change @ self.stiffness @ slopes[: len(change)]).reshape(-1, 3)


def disturbed(name, by=0.05, factor=1.0):
    atoms = molecule(name)
    calculator = Springs(atoms, factor)
    atoms.rattle(by, seed=2)
    atoms.calc = Counted(calculator)
    return atoms


def relaxed(atoms):
    relaxer = TD3Relaxer(atoms, logfile=None)
    assert relaxer.run(fmax=0.01, steps=60)
    assert relaxer.switches == ()
    return atoms.calc.calls


@pytest.mark.parametrize("name", ["CH3CH2OH", "C6H6", "HCOOCH3"])
def test_a_molecule_as_stiff_as_expected_is_relaxed_in_few_calls(name):
    assert relaxed(disturbed(name)) <= 5


def test_secant_pairs_mend_a_stiffness_that_is_wrong_everywhere():
    assert relaxed(disturbed("CH3CH2OH", factor=0.5)) <= 10
    assert relaxed(disturbed("CH3CH2OH", factor=2.0)) <= 10


def test_around_an_atom_in_a_plane_the_step_never_climbs_the_model():
    assert relaxed(disturbed("H2CO", by=0.1)) == 4  # 9, and once uphill, by full moves alone


def test_fixed_atoms_stay():
    atoms = disturbed("CH3CH2OH")
    atoms.set_constraint(FixAtoms([0, 1]))
    start = atoms.positions.copy()
    relaxed(atoms)
    np.testing.assert_array_equal(atoms.positions[:2], start[:2])
    assert not np.allclose(atoms.positions[2:], start[2:])


def test_a_fixed_bond_keeps_its_length():
    atoms = disturbed("CH3CH2OH")
    atoms.set_constraint(FixBondLength(0, 1))
    before = atoms.get_distance(0, 1)
    relaxed(atoms)
    assert atoms.get_distance(0, 1) == pytest.approx(before, abs=1e-6)


def test_a_turned_molecule_takes_the_turned_path():
    turn = Rotation.random(random_state=5).as_matrix()
    paths = []
    for matrix in (np.eye(3), turn):
        atoms, start = molecule("C3H4_C3v"), disturbed("C3H4_C3v")
        atoms.positions = atoms.positions @ matrix
        atoms.calc = Springs(atoms)
        atoms.positions = start.positions @ matrix
        path: list = []
        relaxer = TD3Relaxer(atoms, logfile=None)
        relaxer.attach(lambda seen=path, of=atoms: seen.append(of.positions.copy()))
        relaxer.run(fmax=0.01)
        paths.append(np.array(path))
    np.testing.assert_allclose(paths[0] @ turn, paths[1], atol=1e-8)


def test_a_bond_that_the_start_had_not_is_taken_up():
    atoms = molecule("CH3CH2OH")
    calculator = Springs(atoms)
    away = atoms.positions[8] - atoms.positions[3]
    atoms.positions[8] += 0.7 * away
    atoms.calc = Counted(calculator)
    relaxed(atoms)
    assert atoms.get_potential_energy() < 1e-3


def test_proposing_before_a_force_call_is_refused():
    with pytest.raises(RuntimeError, match="observe"):
        CurvilinearStep(molecule("H2O")).propose()


def test_molecules_suit_and_metals_crystals_and_single_atoms_do_not():
    assert suits(molecule("C6H6"))
    assert suits(molecule("AlCl3"))
    assert not suits(Icosahedron("Cu", 2))
    assert not suits(bulk("Si"))
    assert not suits(Atoms("H"))
