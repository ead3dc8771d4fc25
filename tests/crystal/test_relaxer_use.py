"""The relaxer where other code uses it: bands, hopping, restarts, limits, pressure, and input that is broken."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import add_adsorbate, bulk, fcc100
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms, MirrorForce
from ase.filters import FrechetCellFilter, StrainFilter
from ase.mep import NEB
from ase.optimize import BFGS
from ase.optimize.basin import BasinHopping
from ase.optimize.optimize import RestartError
from ase.units import GPa
from crystals import rattled

from twofold.base.errors import UserError
from twofold.crystal import TD3Relaxer
from twofold.crystal.calculators import Counted
from twofold.crystal.relaxer import NotConverged

emt = EMT()


def quiet(atoms, **kwargs):
    return TD3Relaxer(atoms, logfile=None, **kwargs)


def bulk_of_copper():
    atoms = bulk("Cu", a=3.7)
    atoms.calc = EMT()
    return atoms


def band():
    """Gold hopping between two hollows of aluminium."""
    start = fcc100("Al", size=(2, 2, 2))
    add_adsorbate(start, "Au", 1.7, "hollow")
    start.center(axis=2, vacuum=4.0)
    start.set_constraint(FixAtoms(mask=[atom.tag > 1 for atom in start]))
    start.calc = EMT()
    BFGS(start, logfile=None).run(fmax=0.02)
    end = start.copy()
    end[-1].x += end.cell[0, 0] / 2
    end.calc = EMT()
    BFGS(end, logfile=None).run(fmax=0.02)
    images = [start, *(start.copy() for _ in range(3)), end]
    neb = NEB(images)
    neb.interpolate()
    for image in images[1:-1]:
        image.calc = EMT()
    return neb


def test_a_band_of_images_is_relaxed_like_with_bfgs():
    ours, theirs = band(), band()
    relaxer = quiet(ours)
    assert relaxer.run(fmax=0.05, steps=100)
    BFGS(theirs, logfile=None).run(fmax=0.05, steps=100)
    assert relaxer.report.engine == "BFGS"
    energies = [neb.images[2].get_potential_energy() for neb in (ours, theirs)]
    assert energies[0] == pytest.approx(energies[1], abs=1e-3)


def test_basin_hopping_takes_it_as_its_optimiser():
    atoms = Atoms("Cu4", positions=[[0, 0, 0], [2.5, 0, 0], [0, 2.5, 0], [0, 0, 2.5]], calculator=EMT())
    np.random.seed(0)  # its only source of randomness
    hop = BasinHopping(
        atoms,
        temperature=0.1,
        dr=0.3,
        optimizer=TD3Relaxer,
        fmax=0.05,
        logfile=None,
        optimizer_logfile=None,
        trajectory=None,
        local_minima_trajectory=None,
    )
    hop.run(3)
    assert hop.get_minimum()[0] < atoms.get_potential_energy() + 1e-6


@pytest.mark.parametrize(
    ("atoms", "words"),
    [
        (Atoms("Cu2", positions=np.zeros((2, 3)), cell=[4, 4, 4], pbc=True), "two atoms overlap"),
        (Atoms("Cu2", positions=[[0, 0, 0], [0, 0, np.nan]], cell=[4, 4, 4], pbc=True), "not finite"),
        (Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2.5]], pbc=True), "cell vector is zero"),
        (Atoms(), "holds no atoms"),
        (Atoms("Cu", cell=[[1, 0, 0], [2, 0, 0], [0, 0, 1]], pbc=True), "no volume|cell"),
    ],
    ids=["overlap", "nan", "no cell", "empty", "flat cell"],
)
def test_a_structure_that_has_no_forces_is_a_clear_error(atoms, words):
    atoms.calc = EMT()
    with pytest.raises(UserError, match=words):
        quiet(atoms).run(fmax=0.01)
    with pytest.raises(ValueError, match=words):
        quiet(atoms).run(fmax=0.01)


@pytest.mark.parametrize("moving", [FrechetCellFilter, StrainFilter])
def test_a_cell_that_is_not_there_cannot_be_relaxed(moving):
    free = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 2.4]], calculator=EMT())
    with pytest.raises(UserError, match="it has none in three dimensions"):
        quiet(moving(free))


class Broken(Calculator):
    """EMT that gives NaN in the named calls."""

    implemented_properties = ["energy", "forces"]

    def __init__(self, *calls):
        super().__init__()
        self.bad, self.calls = calls, 0

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        emt.calculate(atoms, ["energy", "forces"], all_changes)
        self.calls += 1
        factor = np.nan if self.calls in self.bad else 1.0
        self.results = {"energy": emt.results["energy"], "forces": factor * emt.results["forces"]}


def test_forces_that_are_not_finite_in_one_call_are_survived():
    atoms = rattled("Cu", 2)
    atoms.calc = Broken(2)
    relaxer = quiet(atoms)
    assert relaxer.run(fmax=0.01, steps=100)
    assert np.isfinite(atoms.positions).all() and relaxer.report.switches


def test_forces_that_are_not_finite_at_the_start_or_for_ever_are_errors():
    for calls in (range(1, 100), range(3, 100)):
        atoms = rattled("Cu", 2)
        atoms.calc = Broken(*calls)
        with pytest.raises(UserError, match="not finite"):
            quiet(atoms).run(fmax=0.01, steps=100)
        assert np.isfinite(atoms.positions).all()


def test_calls_are_those_that_the_calculator_saw_and_steps_limits_them():
    class Noisy(Broken):
        def calculate(self, *args, **kwargs):
            super().calculate(*args, **kwargs)
            noise = 0.05 * np.sin(1e4 * self.atoms.positions)
            self.results["forces"] = self.results["forces"] + noise

    for steps in (3, 40, 90):
        atoms = rattled("Cu", 2)
        atoms.calc = Counted(Noisy())
        relaxer = quiet(atoms)
        with pytest.warns(NotConverged, match="force calls"):
            assert not relaxer.run(fmax=1e-6, steps=steps)
        assert relaxer.report.calls == atoms.calc.calls == steps + 1


def test_calls_of_a_run_that_converges_are_reported():
    atoms = rattled("Cu", 2)
    atoms.calc = Counted(EMT())
    relaxer = quiet(atoms)
    assert relaxer.run(fmax=0.01)
    assert relaxer.report.calls == atoms.calc.calls == relaxer.report.steps + 1


def test_a_restart_file_of_another_structure_is_refused_by_name(tmp_path):
    with pytest.warns(NotConverged):
        quiet(rattled("Cu"), restart=tmp_path / "cu.json").run(fmax=1e-6, steps=2)
    for other in (rattled("Ni"), rattled("Cu", 2), FrechetCellFilter(rattled("Cu"))):
        with pytest.raises(RestartError, match=r"cu\.json belongs to Cu4"):
            quiet(other, restart=tmp_path / "cu.json")


def test_a_restart_file_of_another_cell_is_refused_by_name(tmp_path):
    with pytest.warns(NotConverged):
        quiet(rattled("Cu"), restart=tmp_path / "cu.json").run(fmax=1e-6, steps=2)
    stretched = rattled("Cu")
    stretched.set_cell(1.05 * stretched.cell, scale_atoms=True)
    with pytest.raises(RestartError, match=r"cu\.json belongs to another cell"):
        quiet(stretched, restart=tmp_path / "cu.json")


def test_atoms_put_into_another_cell_between_runs_are_seen_anew():
    atoms = rattled("Cu")
    atoms.calc = EMT()
    relaxer = quiet(atoms)
    assert relaxer.run(fmax=0.01)
    atoms.set_cell(1.1 * atoms.cell, scale_atoms=True)
    atoms.rattle(0.05, seed=3)
    assert relaxer.run(fmax=0.01)
    assert relaxer.report.engine == "spring"


@pytest.mark.parametrize(("fmax", "steps"), [(float("nan"), 5), (-0.1, 5), (0.01, -1)])
def test_limits_that_are_none_are_a_clear_error(fmax, steps):
    with pytest.raises(UserError, match="must be numbers from 0 on"):
        quiet(rattled("Cu")).run(fmax=fmax, steps=steps)


def test_a_constraint_that_turns_forces_around_may_go_uphill():
    atoms = rattled("Cu", 2)
    atoms.calc = EMT()
    atoms.set_constraint(MirrorForce(0, 1, max_dist=2.6, min_dist=2.0, fmax=0.1))
    relaxer = quiet(atoms)
    assert relaxer.run(fmax=0.05, steps=100)
    assert relaxer.report.engine == "BFGS"


def test_a_restart_file_of_another_optimiser_is_refused_by_name(tmp_path):
    BFGS(rattled("Cu"), restart=tmp_path / "bfgs.json", logfile=None).run(fmax=1e-6, steps=2)
    with pytest.raises(RestartError, match=r"bfgs\.json is not a restart file of TD3Relaxer"):
        quiet(rattled("Cu"), restart=tmp_path / "bfgs.json")


def test_a_restart_in_the_middle_of_a_fallback_goes_on_with_it(tmp_path):
    atoms = rattled("Cu", 2)
    atoms.calc = Broken(3)
    with pytest.warns(NotConverged):
        quiet(atoms, restart=tmp_path / "state.json").run(fmax=1e-3, steps=4)
    again = quiet(atoms, restart=tmp_path / "state.json")
    assert again.engine == "BFGSLineSearch"
    assert again.run(fmax=1e-3, steps=100)


def path(optimiser, steps):
    """Where an optimiser has been, the start included."""
    places = []
    optimiser.attach(lambda: places.append(optimiser.atoms.get_positions()))
    optimiser.run(fmax=1e-3, steps=steps)
    return places


def test_its_first_steps_may_be_those_of_bfgs():
    led, bfgs = rattled("Ni", 2, by=0.15), rattled("Ni", 2, by=0.15)
    relaxer = quiet(led, bfgs_steps=4)
    ours, theirs = path(relaxer, 100), path(BFGS(bfgs, logfile=None), 6)
    np.testing.assert_allclose(ours[:5], theirs[:5], atol=1e-12)
    assert np.abs(ours[5] - theirs[5]).max() > 1e-4
    assert relaxer.report.converged and relaxer.report.engine == "spring" and relaxer.switches == ()


def test_a_restart_among_the_first_steps_of_bfgs_resumes_exactly(tmp_path):
    whole, part = rattled("Ni", 2, by=0.15), rattled("Ni", 2, by=0.15)
    straight = path(quiet(whole, bfgs_steps=5), 8)
    with pytest.warns(NotConverged):
        quiet(part, restart=tmp_path / "state.json", bfgs_steps=5, guard=False).run(fmax=1e-3, steps=3)
    again = quiet(part, restart=tmp_path / "state.json", bfgs_steps=5)
    assert again.engine == "lead"
    rest = path(again, 5)
    np.testing.assert_allclose(
        rest, straight[4:], atol=1e-9
    )  # a resumed run does not look at its first place again


def test_forces_that_are_not_finite_in_a_step_of_bfgs_are_survived():
    atoms = rattled("Cu", 2)
    atoms.calc = Broken(2)
    relaxer = quiet(atoms, bfgs_steps=12)
    assert relaxer.run(fmax=0.01, steps=100)
    assert relaxer.engine == "spring" and "lead: the calculator gave" in relaxer.switches[0]


def test_bfgs_first_goes_with_what_has_no_bonds_and_with_constraints():
    relaxer = quiet(StrainFilter(bulk_of_copper()), bfgs_steps=3)
    assert relaxer.engine == "BFGSLineSearch" and relaxer.run(fmax=0.01, steps=100)
    with pytest.raises(UserError, match="bfgs_steps must be a number from 0 on, got -1"):
        quiet(rattled("Cu", 2), bfgs_steps=-1)


def test_no_engine_steps_further_than_maxstep():
    relaxer = quiet(StrainFilter(bulk_of_copper()), maxstep=0.05)
    assert relaxer._inner.maxstep == 0.05


@pytest.mark.parametrize("pressure", [0.0, 5.0, 20.0])
def test_under_pressure_the_enthalpy_is_that_of_bfgs(pressure):
    found = []
    for make in (quiet, lambda a: BFGS(a, logfile=None)):
        atoms = bulk("Cu", cubic=True).repeat(2)
        atoms.rattle(0.1, seed=1)
        atoms.calc = EMT()
        cell = FrechetCellFilter(atoms, scalar_pressure=pressure * GPa)
        optimiser = make(cell)
        assert optimiser.run(fmax=0.003, steps=300)
        found.append(atoms.get_potential_energy() + pressure * GPa * atoms.get_volume())
    assert found[0] == pytest.approx(found[1], abs=1e-4 * 32)
