"""TD3Relaxer: an ASE optimiser that steps with bond springs, guarded by ASE's own optimisers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
from ase import Atoms
from ase.filters import Filter, UnitCellFilter
from ase.optimize import BFGS, FIRE, BFGSLineSearch
from ase.optimize.optimize import DEFAULT_MAX_STEPS, Optimizer, RestartError

from twofold.base.errors import UserError
from twofold.core.experience import Array
from twofold.core.protocols import State
from twofold.crystal.calls import CountedCalls, OutOfCalls
from twofold.crystal.curvilinear import step_for
from twofold.crystal.motion import Motion, Optimisable, frame_of, goes_uphill, permitted
from twofold.crystal.optimisable import atoms_of, cell_of, identity, unwrapped
from twofold.crystal.policy import SpringPolicy, default_policy, load_weights
from twofold.crystal.spring import Scalars, SpringSettings, SpringStep
from twofold.crystal.structures import checked

log = logging.getLogger(__name__)
ENGINES: dict[str, type[Optimizer]] = {
    "lead": BFGS,
    "BFGSLineSearch": BFGSLineSearch,
    "BFGS": BFGS,
    "FIRE": FIRE,
}
PATIENCE = {"spring": 25, "BFGSLineSearch": 60, "BFGS": 60}  # steps without progress before a switch
DROP = 1e-5  # eV per atom: so much lower is progress, whatever the forces do
CALM = 1.0  # eV/A: a low energy with larger forces than this and than the start's is a hole of the potential
POINTS = ("began", "best", "lowest", "mark")  # that the guard remembers
CELL, OTHER = 1e-6, 1e-2  # A, a cell that differs by more is another one; in a file, where it may be rounded
COINCIDENT = 1e-4  # A, atoms nearer than this have no direction to be pushed apart in


class NotConverged(UserWarning):
    """A relaxation ended above its force limit; the atoms are at the lowest point that was seen."""


@dataclass(frozen=True)
class Report:
    """How a relaxation went."""

    converged: bool
    engine: str  # that made the last step
    steps: int
    calls: int  # evaluations of energy and forces, of all engines
    energy: float  # eV; under a pressure the enthalpy
    fmax: float  # eV/A, the largest force
    switches: tuple[str, ...] = ()  # why engines were changed


@dataclass(frozen=True)
class Seen:
    """A point of the path that can be gone back to."""

    x: Array
    energy: float
    fmax: float


class TD3Relaxer(Optimizer):  # ASE is not checked
    """Relax atoms (or a cell filter around them) in few force calls.

    `policy` is "td3" (the trained one inside the package), "prior" (the untrained step), a policy file, or a
    SpringPolicy. `guard` keeps the best point and hands over to BFGSLineSearch, then FIRE, when forces stop falling
    or the energy ends above where it began. What has no bonds to look at (a band of images, a subset) is relaxed by
    ASE's optimisers alone. The first `bfgs_steps` are BFGS's own: from far away they choose its minimum, for more
    calls. After `run`, `report` says how it went.

        TD3Relaxer(atoms, trajectory="relax.traj").run(fmax=0.01)
    """

    def __init__(
        self,
        atoms: Optimisable,
        restart: str | Path | None = None,
        logfile: IO[str] | str | Path | None = "-",
        trajectory: str | Path | None = None,
        append_trajectory: bool = False,
        maxstep: float | None = None,
        *,
        policy: str | Path | SpringPolicy = "td3",
        settings: SpringSettings | None = None,
        guard: bool = True,
        bfgs_steps: int = 0,
        **kwargs: object,  # what ASE's Optimizer takes besides
    ) -> None:
        settings = settings or SpringSettings()
        if maxstep is not None:
            settings = replace(settings, trust=min(settings.trust, maxstep), trust_most=maxstep)
        self.maxstep = settings.trust_most
        if bfgs_steps < 0:
            raise UserError(f"bfgs_steps must be a number from 0 on, got {bfgs_steps}")
        self.settings, self.guard, self.bfgs_steps = settings, guard, bfgs_steps
        self.policy = _policy(policy)
        atoms = unwrapped(atoms)
        # A line search needs an energy that belongs to the forces, which a band of images does not have.
        self._downhill = isinstance(atoms, (Atoms, Filter)) and not goes_uphill(atoms_of(atoms))
        self._engines = ("lead", "spring", "BFGSLineSearch" if self._downhill else "BFGS", "FIRE")
        self.engine = "lead" if bfgs_steps else "spring"
        self.switches: tuple[str, ...] = ()
        self.report: Report | None = None
        self._forget()
        self._inner: Optimizer | None = None
        self._led: list[State] = []  # places and gradients of BFGS's own steps
        super().__init__(atoms, restart, logfile, trajectory, append_trajectory, **kwargs)
        self.optimizable: CountedCalls = CountedCalls(atoms.__ase_optimizable__())
        self._spring = step_for(atoms, settings) if isinstance(atoms, Atoms) else SpringStep(settings)
        self._cell = cell_of(atoms)
        if not isinstance(atoms, (Atoms, UnitCellFilter)):
            self._without_springs(f"{type(atoms).__name__} has no bonds to look at")
        elif not self._downhill:
            self._without_springs("a constraint turns forces around, so the way is not downhill")
        self._replay()

    # ---- ASE's interface ----

    def irun(self, fmax: float = 0.05, steps: int = DEFAULT_MAX_STEPS) -> Iterator[bool]:
        """Run as a generator; yields whether it has converged. `steps` limits the force calls after the first."""
        if not 0 <= fmax < np.inf or steps < 0:
            raise UserError(f"fmax (eV/A) and steps must be numbers from 0 on, got {fmax} and {steps}")
        if isinstance(self.atoms, (Atoms, Filter)):
            checked(atoms_of(self.atoms), "cannot relax this structure", COINCIDENT)
        self._look_again()
        self.fmax, converged = fmax, False
        self.optimizable.allow(steps)
        try:
            for converged in super().irun(fmax, steps):
                yield converged
        except OutOfCalls:
            self.optimizable.back()
        self._finish(bool(converged))

    def run(self, fmax: float = 0.05, steps: int = DEFAULT_MAX_STEPS) -> bool:
        """Run to the force limit or for this many force calls after the first; True if converged."""
        return bool([False, *self.irun(fmax, steps)][-1])

    def step(self) -> None:
        """One step of the engine in charge, after the guard's look at where we are."""
        gradient, energy = self.optimizable.get_gradient(), self.optimizable.get_value()
        if np.isfinite(gradient).all() and np.isfinite(energy):
            self._watch(Seen(self.optimizable.get_x(), energy, self.optimizable.gradient_norm(gradient)))
        else:
            self._not_finite()
        if self.engine == "lead" and self.nsteps >= self.bfgs_steps:
            self._take("spring")
        self._advance()
        self._save()

    def _advance(self) -> None:
        if self.engine == "spring":
            self._spring_step()
        else:
            self._inner_step()

    def gradient_converged(self, gradient: Array) -> bool:
        """Small forces at a place that is one, and (guarded) not at a higher energy than the start."""
        energy = self.optimizable.get_value()
        if not super().gradient_converged(gradient) or not np.isfinite(energy):
            return False
        if not np.isfinite(self.optimizable.get_x()).all():
            return False
        if not self.guard or self._began is None or self.engine != "spring":
            return True
        if energy <= self._began.energy + 1e-4 * self.optimizable.ndofs() / 3:
            return True
        self._switch("the forces vanished at a higher energy than the start's")
        return False

    def _look_again(self) -> None:
        """Forget what was seen in another cell, which the atoms were put into since the last run."""
        cell = cell_of(self.atoms)
        if np.allclose(cell, self._cell, atol=CELL):
            return
        self._cell = cell
        self._forget()
        if isinstance(self._spring, SpringStep):
            self._spring = SpringStep(self.settings)

    def _forget(self) -> None:
        self._record: list[State] = []  # every observation and action: all that a restart needs
        self._began: Seen | None = None
        self._best: Seen | None = None  # of the smallest force, not above the start
        self._lowest: Seen | None = None  # in energy: where another engine takes over
        self._mark: Seen | None = None  # energy and force that the next progress is measured from
        self._patience = 0

    # ---- the spring engine ----

    def _spring_step(self) -> None:
        coordinates, motion = self.atoms.get_positions(), Motion.of(self.atoms)
        forces = -self.optimizable.get_gradient().reshape(-1, 3)
        energy = self.optimizable.get_value()
        self._spring.observe(frame_of(self.atoms), coordinates, forces, energy, motion)
        scalars = Scalars()
        if self.policy:
            scalars = self.policy.scalars(self._spring, self.fmax or 0.05)
        self._remember(coordinates, forces, energy, scalars)
        move = permitted(self.atoms, self._spring.propose(scalars))
        if not np.isfinite(move).all():
            self._switch("the step was not finite")
            return self._inner_step()
        self.optimizable.set_x((coordinates + move).ravel())
        return None

    # ---- the guard ----

    def _watch(self, now: Seen) -> None:
        """Keep the best point; count steps without progress; hand over when patience is at its end."""
        if self._began is None or self._best is None or self._lowest is None or self._mark is None:
            self._began = self._best = self._lowest = self._mark = now
            return
        mark, allowed = self._mark, now.energy <= self._began.energy + 1e-6 * len(now.x)
        if allowed and now.fmax < self._best.fmax:
            self._best = now
        if now.energy < self._lowest.energy and now.fmax <= max(CALM, self._began.fmax):
            self._lowest = now
        # Forces grow on the way down from a saddle or around a bond: a lower energy is progress as well.
        lower = now.energy < mark.energy - DROP * len(now.x) / 3
        if lower or (allowed and now.fmax < 0.9 * mark.fmax):
            self._mark = Seen(now.x, min(mark.energy, now.energy), min(mark.fmax, now.fmax))
            self._patience = 0
        else:
            self._patience += 1
        if self.guard and self._patience > PATIENCE.get(self.engine, DEFAULT_MAX_STEPS):
            self._switch(f"no progress in {self._patience} steps")

    def _not_finite(self) -> None:
        """Go back to the best point and on with another engine, where there are both."""
        what = "the calculator gave a force or energy that is not finite"
        if self._best is None:
            raise UserError(
                f"{what} at the start: are atoms too close, or is the calculator not made for them?"
            )
        last = self.engine == self._engines[-1]
        self._switch(what)
        if last:
            raise UserError(f"{what}, with every engine; the atoms are at the best point (see .switches)")

    def _switch(self, why: str) -> None:
        """Hand over to the next engine, at the best point."""
        self.switches = (*self.switches, f"{self.engine}: {why}")
        log.info("%s; another engine takes over", self.switches[-1])
        after = min(self._engines.index(self.engine) + 1, len(self._engines) - 1)
        self._patience = 0
        point = self._point()
        if point is not None:
            self.optimizable.set_x(point.x)
        self._take(self._engines[after])

    def _without_springs(self, why: str) -> None:
        """Begin behind them."""
        self.engine = "spring"
        self._switch(why)

    def _take(self, engine: str) -> None:
        """This engine is in charge from here on; no step of it is longer than asked for."""
        self.engine, self._inner = engine, None
        if engine != "spring":
            self._inner = ENGINES[engine](self.optimizable, logfile=None)
            self._inner.maxstep = min(self._inner.maxstep, self.maxstep)
            self._inner.fmax = self.fmax

    def _inner_step(self) -> None:
        assert self._inner is not None
        if self.engine == "lead" and self.restart is not None:
            self._led.append({"x": self.optimizable.get_x(), "gradient": self.optimizable.get_gradient()})
        try:
            self._inner.step()
        except (RuntimeError, ValueError, ArithmeticError) as error:  # a line search that cannot go downhill
            if self.engine == self._engines[-1]:
                raise
            self._switch(f"failed ({error})")
            self._advance()
        if not np.isfinite(self.optimizable.get_x()).all():
            self._not_finite()

    def _finish(self, converged: bool) -> None:
        """Never end worse than the best point; say loudly when that is not good enough."""
        fmax = self.optimizable.gradient_norm(self.optimizable.get_gradient())
        energy, point = self.optimizable.get_value(), self._point()
        if not converged and self.guard and point is not None and not self._better(energy, fmax, point):
            self.optimizable.set_x(point.x)
            energy, fmax = point.energy, point.fmax
        calls = self.optimizable.calls
        self.report = Report(converged, self.engine, self.nsteps, calls, energy, fmax, self.switches)
        if not converged:
            message = f"not converged after {calls} force calls: largest force {fmax:.4f} > {self.fmax} eV/A"
            warnings.warn(message, NotConverged, stacklevel=3)

    def _point(self) -> Seen | None:
        """The best point: lowest in energy, or calmest where energies do not belong to forces."""
        return self._lowest if self._downhill else self._best

    def _better(self, energy: float, fmax: float, point: Seen) -> bool:
        return energy <= point.energy if point is self._lowest else fmax <= point.fmax

    # ---- restarting ----

    def _remember(self, coordinates: Array, forces: Array, energy: float, scalars: Scalars) -> None:
        if self.restart is not None:
            atoms = atoms_of(self.atoms)
            entry = {"at": coordinates, "forces": forces, "energy": energy, "scalars": asdict(scalars)}
            entry |= {"positions": atoms.positions.copy(), "cell": atoms.cell.array.copy()}
            self._record.append(entry | {"asked": self._spring.memory.asked})

    def _save(self) -> None:
        if self.restart is None:
            return
        state: State = {
            "structure": identity(self.atoms),
            "cell": cell_of(self.atoms),
            "record": self._record,
            "engine": self.engine,
        }
        for name in POINTS:
            point = getattr(self, f"_{name}")
            state[name] = None if point is None else asdict(point)
        state |= {"switches": list(self.switches), "patience": self._patience, "nsteps": self.nsteps + 1}
        state["led"] = self._led if self.engine == "lead" else []
        self.dump(state)

    def read(self) -> None:
        """ASE calls this when the restart file exists."""
        state = self.load()
        wanted = {"structure", "cell", "record", "engine", *POINTS, "switches", "patience", "nsteps"}
        if not isinstance(state, dict) or not wanted <= state.keys():
            raise RestartError(f"{self.restart} is not a restart file of TD3Relaxer: name another one")
        if state["structure"] != identity(self.atoms):
            raise RestartError(
                f"{self.restart} belongs to {state['structure']}, not to {identity(self.atoms)}: "
                "remove it, or name another one"
            )
        if not np.allclose(state["cell"], cell_of(self.atoms), atol=OTHER):
            raise RestartError(f"{self.restart} belongs to another cell: remove it, or name another one")
        self._record, self._patience = state["record"], int(state["patience"])
        self.switches, self.nsteps = tuple(state["switches"]), int(state["nsteps"])
        self._began, self._best, self._lowest, self._mark = (
            None if state[k] is None else Seen(**(state[k] | {"x": np.array(state[k]["x"])})) for k in POINTS
        )
        self.engine, self._led = state["engine"], state.get("led", [])

    def _replay(self) -> None:
        """Bring the engine back to where the restart file left it; the springs by seeing the same calls again."""
        if self._inner is None:
            self._take(self.engine)
        if (lead := self._inner) is not None:
            for seen in self._led:
                lead.prepare_step(np.array(seen["x"]), np.array(seen["gradient"]))
        if not self._record:
            return
        atoms = atoms_of(self.atoms)
        now = atoms.positions.copy(), atoms.cell.array.copy()
        for entry in self._record:
            entry |= {key: np.array(entry[key]) for key in ("at", "forces", "positions", "cell")}
            atoms.set_cell(entry["cell"])
            atoms.positions = entry["positions"]
            motion = Motion.of(self.atoms)
            self._spring.observe(frame_of(self.atoms), entry["at"], entry["forces"], entry["energy"], motion)
            self._spring.propose(Scalars(**entry["scalars"]))
            self._spring.memory.asked = entry.get("asked")
        atoms.set_cell(now[1])
        atoms.positions = now[0]


def _policy(choice: str | Path | SpringPolicy) -> SpringPolicy | None:
    if isinstance(choice, SpringPolicy):
        return choice
    if choice == "prior":
        return None
    return default_policy() if choice == "td3" else load_weights(choice)
