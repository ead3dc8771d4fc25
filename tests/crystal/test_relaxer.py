import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, fcc111
from ase.calculators.calculator import Calculator, all_changes
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.filters import FrechetCellFilter, StrainFilter
from ase.io.trajectory import Trajectory
from ase.optimize import BFGS
from ase.optimize.optimize import Optimizer
from crystals import rattled

from twofold.crystal import TD3Relaxer
from twofold.crystal.calculators import Counted
from twofold.crystal.policy import SpringPolicy, default_policy
from twofold.crystal.relaxer import CALM, NotConverged
from twofold.crystal.spring import largest


def quiet(atoms, **kwargs):
    return TD3Relaxer(atoms, logfile=None, **kwargs)


emt = EMT()


class Shaky(Calculator):
    """EMT whose forces stop falling: what a broken potential looks like."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        emt.calculate(atoms, ["energy", "forces"], all_changes)
        noise = 0.3 * np.sin(1e4 * atoms.positions)
        self.results = {"energy": emt.results["energy"], "forces": emt.results["forces"] + noise}


@pytest.mark.parametrize("policy", ["td3", "prior"])
def test_needs_fewer_calls_than_bfgs_and_finds_the_same_energy(policy):
    calls, energies = [], []
    for make in (lambda a: quiet(a, policy=policy), lambda a: BFGS(a, logfile=None)):
        atoms = rattled("Cu", 2)
        atoms.calc = Counted(EMT())
        assert make(atoms).run(fmax=0.01)
        calls.append(atoms.calc.calls)
        energies.append(atoms.get_potential_energy())
    assert calls[0] <= 0.5 * calls[1]
    assert energies[0] == pytest.approx(energies[1], abs=1e-3)


def test_is_an_ase_optimiser():
    assert issubclass(TD3Relaxer, Optimizer)


def test_irun_yields_and_attach_is_called_every_step():
    atoms, seen = rattled(), []
    relaxer = quiet(atoms)
    relaxer.attach(lambda: seen.append(relaxer.nsteps))
    states = list(relaxer.irun(fmax=0.01))
    assert states[-1] and not any(states[:-1])
    assert seen == list(range(len(states)))


def test_trajectory_and_logfile_hold_every_step(tmp_path):
    atoms = rattled()
    relaxer = TD3Relaxer(atoms, logfile=tmp_path / "log", trajectory=tmp_path / "path.traj")
    relaxer.run(fmax=0.01)
    assert len(Trajectory(tmp_path / "path.traj")) == relaxer.nsteps + 1
    assert (tmp_path / "log").read_text().count("TD3Relaxer:") == relaxer.nsteps + 1


def test_no_step_is_made_with_zero_steps():
    atoms = rattled()
    before = atoms.positions.copy()
    with pytest.warns(NotConverged):
        assert not quiet(atoms).run(fmax=0.01, steps=0)
    np.testing.assert_array_equal(atoms.positions, before)


def test_a_restarted_run_goes_on_exactly(tmp_path):
    whole = rattled("Ni", 2, by=0.15)
    quiet(whole).run(fmax=1e-3)
    part = rattled("Ni", 2, by=0.15)
    with pytest.warns(NotConverged):
        quiet(part, restart=tmp_path / "state.json", guard=False).run(fmax=1e-3, steps=3)
    again = quiet(part, restart=tmp_path / "state.json")
    assert again.run(fmax=1e-3)
    np.testing.assert_allclose(part.positions, whole.positions, atol=1e-9)


def test_fixed_atoms_stay():
    atoms = fcc111("Cu", (2, 2, 3), vacuum=6.0)
    atoms.set_constraint(FixAtoms(indices=range(4)))
    atoms.rattle(0.1, seed=1)
    atoms.calc = EMT()
    before = atoms.positions[:4].copy()
    assert quiet(atoms).run(fmax=0.01)
    np.testing.assert_array_equal(atoms.positions[:4], before)


def test_the_cell_relaxes_with_the_atoms():
    atoms = bulk("Cu", a=3.8, cubic=True)
    atoms.rattle(0.05, seed=0)
    atoms.calc = Counted(EMT())
    assert quiet(FrechetCellFilter(atoms)).run(fmax=0.005)
    assert atoms.cell.volume ** (1 / 3) == pytest.approx(3.59, abs=0.01)
    assert atoms.calc.calls < 15


def test_a_held_cell_component_is_held():
    atoms = bulk("Cu", a=3.8, cubic=True)
    atoms.calc = EMT()
    quiet(FrechetCellFilter(atoms, mask=[True, True, False, False, False, False])).run(fmax=0.01, steps=100)
    assert atoms.cell[2, 2] == pytest.approx(3.8, abs=1e-9)
    assert atoms.cell[0, 0] < 3.7


def test_hydrostatic_cells_keep_their_shape():
    atoms = bulk("Al", a=4.3, cubic=True)
    atoms.calc = EMT()
    assert quiet(FrechetCellFilter(atoms, hydrostatic_strain=True)).run(fmax=0.01, steps=100)
    np.testing.assert_allclose(atoms.cell.array, atoms.cell[0, 0] * np.eye(3), atol=1e-9)


def test_a_filter_without_bonds_falls_to_the_line_search():
    atoms = bulk("Cu", a=3.8, cubic=True)
    atoms.calc = EMT()
    relaxer = quiet(StrainFilter(atoms))
    assert relaxer.run(fmax=0.01, steps=100)
    assert relaxer.report.engine == "BFGSLineSearch"


@pytest.mark.filterwarnings("ignore::twofold.crystal.relaxer.NotConverged")
def test_never_ends_worse_than_it_started():
    atoms, seen = rattled("Cu", by=0.02), []
    atoms.calc = Shaky()
    relaxer = quiet(atoms, policy=SpringPolicy(default_policy().network))  # asked everywhere
    relaxer.attach(lambda: seen.append(atoms.get_potential_energy()))
    relaxer.run(fmax=1e-4, steps=100)
    assert (
        atoms.get_potential_energy() <= min(seen) + 1e-9 < seen[0]
    )  # the lowest point, whatever came after it
    assert largest(atoms.get_forces()) <= CALM
    assert not relaxer.report.converged and relaxer.report.switches


def test_says_loudly_when_it_did_not_converge():
    relaxer = quiet(rattled("Cu", 2))
    with pytest.warns(NotConverged, match="largest force"):
        assert not relaxer.run(fmax=1e-6, steps=1)
    assert not relaxer.report.converged


def test_two_atoms_far_apart_do_not_break_it():
    atoms = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 3.2]])
    atoms.calc = EMT()
    assert quiet(atoms).run(fmax=0.01, steps=200)


def test_an_equivariant_step_keeps_the_symmetry():
    atoms = bulk("Cu", cubic=True).repeat(2)
    del atoms[0]
    atoms.calc = EMT()
    quiet(atoms).run(fmax=0.01)
    distances = np.sort(np.linalg.norm(atoms.positions, axis=1))
    shell = [d for d in distances if d < 2.8]
    assert np.ptp(shell) < 1e-8


class Ridge(Calculator):
    """One atom on a cosine of 3 A from ridge to valley: on the way down the force grows before it falls."""

    implemented_properties = ["energy", "forces"]

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        super().calculate(atoms, properties, system_changes)
        x, rate = atoms.positions[0, 0], np.pi / 3
        self.results = {"energy": 0.1 * np.cos(rate * x), "forces": np.zeros((len(atoms), 3))}
        self.results["forces"][0, 0] = 0.1 * rate * np.sin(rate * x)


def on_the_ridge():
    atoms = Atoms("Cu2", positions=[[0.3, 0, 0], [20, 0, 0]], calculator=Ridge())
    atoms.set_constraint(FixAtoms([1]))
    return atoms


def test_a_falling_energy_is_progress_while_forces_grow():
    atoms = on_the_ridge()
    relaxer = quiet(atoms, maxstep=0.05)
    assert relaxer.run(fmax=0.01, steps=200)
    assert relaxer.switches == ()
    assert atoms.positions[0, 0] == pytest.approx(3.0, abs=0.1)


def test_another_engine_takes_over_at_the_lowest_energy():
    atoms = on_the_ridge()
    relaxer = quiet(atoms, maxstep=0.05)
    with pytest.warns(NotConverged):
        relaxer.run(fmax=1e-6, steps=30)
    reached = atoms.positions[0, 0]
    relaxer._switch("it is told to")
    assert reached > 0.8
    assert atoms.positions[0, 0] == pytest.approx(reached, abs=0.1)
