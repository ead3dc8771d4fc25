import numpy as np
import pytest
from ase.calculators.emt import EMT
from ase.optimize import BFGS
from crystals import rattled

from twofold.base.errors import UserError
from twofold.crystal.calculators import Counted, make_calculator


def test_energy_and_forces_at_one_place_are_one_call():
    atoms = rattled()
    atoms.calc = Counted(EMT())
    atoms.get_potential_energy()
    atoms.get_forces()
    atoms.get_potential_energy()
    assert atoms.calc.calls == 1


def test_every_new_place_is_one_call():
    atoms = rattled()
    atoms.calc = Counted(EMT())
    for _ in range(5):
        atoms.positions[0, 0] += 0.01
        atoms.get_forces()
    assert atoms.calc.calls == 5


def test_bfgs_needs_one_call_more_than_steps():
    atoms = rattled()
    atoms.calc = Counted(EMT())
    optimiser = BFGS(atoms, logfile=None)
    optimiser.run(fmax=0.05)
    assert atoms.calc.calls == optimiser.nsteps + 1


def test_counted_results_are_the_inner_calculators():
    atoms, plain = rattled(), rattled()
    atoms.calc = Counted(EMT())
    np.testing.assert_array_equal(atoms.get_forces(), plain.get_forces())
    np.testing.assert_array_equal(atoms.get_stress(), plain.get_stress())


def test_stress_that_came_with_the_forces_is_not_another_call():
    atoms = rattled()
    atoms.calc = Counted(EMT())
    atoms.get_forces()
    atoms.get_stress()
    assert atoms.calc.calls == 1


@pytest.mark.parametrize("name", ["emt", "lj", "lj:sigma=2.5,epsilon=0.1"])
def test_calculators_by_name_give_finite_forces(name):
    atoms = rattled()
    atoms.calc = make_calculator(name)
    assert np.isfinite(atoms.get_forces()).all()


@pytest.mark.parametrize("name", ["emu", "eam:", "lj:size=3", "eam:nowhere.fs"])
def test_a_wrong_name_is_the_users_mistake(name):
    with pytest.raises(UserError):
        make_calculator(name)


def test_an_element_emt_lacks_is_the_users_mistake():
    atoms = rattled()
    atoms.numbers[:] = 26
    atoms.calc = Counted(EMT())
    with pytest.raises(UserError, match="Fe"):
        atoms.get_forces()
