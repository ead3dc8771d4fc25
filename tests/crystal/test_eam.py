import numpy as np
import pytest
from ase import Atoms
from matscipy.calculators.eam import EAM

from twofold.base.errors import UserError
from twofold.crystal.eam import FastEAM, Tables
from twofold.crystal.structures import load


def test_tables_reproduce_a_cubic_and_its_slope():
    grid = np.arange(20) * 0.5
    tables = Tables(0.5, np.stack([grid**3, 2 * grid**2 - grid]))
    value, slope = tables(np.array([0, 1]), np.array([3.3, 4.7]))
    assert value == pytest.approx([3.3**3, 2 * 4.7**2 - 4.7])
    assert slope == pytest.approx([3 * 3.3**2, 4 * 4.7 - 1])


def test_energy_forces_and_stress_agree_with_matscipy(alfe):
    mine, theirs = FastEAM(alfe / "AlFe.fs"), EAM(str(alfe / "AlFe.fs"), kind="eam/fs")
    for name in ("AlFe7.csv", "AlFe.csv"):
        atoms = load(alfe / name)[0]
        atoms.positions += 0.3 * np.random.default_rng(0).random(atoms.positions.shape)
        one, other = atoms.copy(), atoms.copy()
        one.calc, other.calc = mine, theirs
        assert one.get_potential_energy() == pytest.approx(other.get_potential_energy(), abs=1e-9)
        np.testing.assert_allclose(one.get_forces(), other.get_forces(), atol=1e-8)
        np.testing.assert_allclose(one.get_stress(), other.get_stress(), atol=1e-9)


def test_an_element_the_potential_lacks_is_named(alfe):
    atoms = Atoms("CuAl", positions=[[0, 0, 0], [2.5, 0, 0]], cell=[5, 5, 5], pbc=True)
    atoms.calc = FastEAM(alfe / "AlFe.fs")
    with pytest.raises(UserError, match=r"has no Cu; it knows Al, Fe"):
        atoms.get_forces()
