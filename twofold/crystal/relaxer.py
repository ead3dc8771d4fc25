"""TD3Relaxer: an ASE optimiser that steps with bond springs, guarded by ASE's own optimisers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from ase import Atoms
from ase.constraints import FixAtoms
from ase.filters import FrechetCellFilter, UnitCellFilter
from ase.optimize import FIRE, BFGSLineSearch
from ase.optimize.optimize import DEFAULT_MAX_STEPS, Optimizer

from twofold.core.experience import Array
from twofold.crystal.bonds import Frame
from twofold.crystal.policy import SpringPolicy, default_policy, load_weights
from twofold.crystal.spring import Scalars, SpringSettings, SpringStep

log = logging.getLogger(__name__)
ENGINES = ("spring", "BFGSLineSearch", "FIRE")  # each is the next one's fallback
PATIENCE = {
    "spring": 25,
    "BFGSLineSearch": 60,
}  # steps without 10 % less force before the next engine takes over


class NotConverged(UserWarning):
    """A relaxation ended above its force limit; the atoms are at the best point that was seen."""


@dataclass(frozen=True)
class Report:
    """How a relaxation went."""

    converged: bool
    engine: str  # that made the last step
    steps: int
    energy: float  # eV
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

    `policy` is "td3" (the trained one inside the package), "prior" (the untrained step), a weights file, or a
    SpringPolicy. `guard` keeps the best point and hands over to BFGSLineSearch, then FIRE, when forces stop falling
    or the energy ends above where it began. After `run`, `report` tells how it went.

        TD3Relaxer(atoms, trajectory="relax.traj").run(fmax=0.01)
    """

    def __init__(
        self,
        atoms: Any,  # Atoms, or a filter around them
        restart: str | Path | None = None,
        logfile: IO[str] | str | Path | None = "-",
        trajectory: str | Path | None = None,
        append_trajectory: bool = False,
        maxstep: float | None = None,
        *,
        policy: str | Path | SpringPolicy = "td3",
        settings: SpringSettings | None = None,
        guard: bool = True,
        **kwargs: Any,
    ) -> None:
        settings = settings or SpringSettings()
        if maxstep is not None:
            settings = replace(settings, trust=min(settings.trust, maxstep), trust_most=maxstep)
        self.maxstep = settings.trust_most
        self.settings, self.guard = settings, guard
        self.policy = _policy(policy)
        self.engine = ENGINES[0]
        self.switches: tuple[str, ...] = ()
        self.report: Report | None = None
        self._record: list[dict[str, Any]] = []  # every observation and action: all that a restart needs
        self._began: Seen | None = None
        self._best: Seen | None = None
        self._patience = 0
        self._inner: Optimizer | None = None
        super().__init__(atoms, restart, logfile, trajectory, append_trajectory, **kwargs)
        self._spring = SpringStep(settings, _free(atoms))
        if not isinstance(atoms, (Atoms, UnitCellFilter)):
            self._switch(f"{type(atoms).__name__} has no bonds to look at")
        self._replay()

    # ---- ASE's interface ----

    def irun(self, fmax: float = 0.05, steps: int = DEFAULT_MAX_STEPS) -> Iterator[bool]:
        """Run as a generator; yields whether it has converged."""
        self.fmax, converged = fmax, False
        for converged in super().irun(fmax, steps):
            yield converged
        self._finish(bool(converged))

    def run(self, fmax: float = 0.05, steps: int = DEFAULT_MAX_STEPS) -> bool:
        """Run to the force limit or for so many steps; True if converged."""
        return bool([False, *self.irun(fmax, steps)][-1])

    def step(self) -> None:
        """One step of the engine in charge, after the guard's look at where we are."""
        gradient, energy = self.optimizable.get_gradient(), float(self.optimizable.get_value())
        self._watch(Seen(self.optimizable.get_x(), energy, float(self.optimizable.gradient_norm(gradient))))
        if self.engine == "spring":
            self._spring_step()
        else:
            self._inner_step()
        self._save()

    def gradient_converged(self, gradient: Array) -> bool:
        """Small forces, and (guarded) not at a higher energy than the start."""
        if not super().gradient_converged(gradient):
            return False
        if not self.guard or self._began is None or self.engine != "spring":
            return True
        if float(self.optimizable.get_value()) <= self._began.energy + 1e-4 * self.optimizable.ndofs() / 3:
            return True
        self._switch("the forces vanished at a higher energy than the start's")
        return False

    # ---- the spring engine ----

    def _spring_step(self) -> None:
        coordinates = self.atoms.get_positions()
        forces = -self.optimizable.get_gradient().reshape(-1, 3)
        energy = float(self.optimizable.get_value())
        if not (np.isfinite(forces).all() and np.isfinite(energy)):
            self._switch("the calculator gave a force or energy that is not finite")
            return self._inner_step()
        self._spring.observe(_frame(self.atoms), coordinates, forces, energy)
        scalars = self.policy.scalars(self._spring, self.fmax or 0.05) if self.policy else Scalars()
        self._remember(coordinates, forces, energy, scalars)
        move = _allowed(self.atoms, self._spring.propose(scalars))
        if not np.isfinite(move).all():
            self._switch("the step was not finite")
            return self._inner_step()
        self.optimizable.set_x((coordinates + move).ravel())
        return None

    # ---- the guard ----

    def _watch(self, now: Seen) -> None:
        """Keep the best point; count steps without progress; hand over when patience is at its end."""
        if self._began is None or self._best is None:
            self._began = self._best = now
            return
        lower = now.energy <= self._began.energy + 1e-6 * len(now.x)
        if lower and now.fmax < self._best.fmax:
            self._patience = 0 if now.fmax < 0.9 * self._best.fmax else self._patience + 1
            self._best = now
        else:
            self._patience += 1
        if self.guard and self._patience > PATIENCE.get(self.engine, DEFAULT_MAX_STEPS):
            self._switch(f"no progress in {self._patience} steps")

    def _switch(self, why: str) -> None:
        """Hand over to the next engine, at the best point."""
        self.switches = (*self.switches, f"{self.engine}: {why}")
        log.info("%s; going on with another engine", self.switches[-1])
        self.engine, self._patience = ENGINES[min(ENGINES.index(self.engine) + 1, len(ENGINES) - 1)], 0
        if self._best is not None:
            self.optimizable.set_x(self._best.x)
        make = {"BFGSLineSearch": BFGSLineSearch, "FIRE": FIRE}[self.engine]
        self._inner = make(self.atoms, logfile=None)
        self._inner.fmax = self.fmax

    def _inner_step(self) -> None:
        assert self._inner is not None
        try:
            self._inner.step()
        except (RuntimeError, ValueError, ArithmeticError) as error:  # a line search that cannot go downhill
            if self.engine == ENGINES[-1]:
                raise
            self._switch(f"failed ({error})")
            self._inner.step()

    def _finish(self, converged: bool) -> None:
        """Never end worse than the best point; say loudly when that is not good enough."""
        fmax = float(self.optimizable.gradient_norm(self.optimizable.get_gradient()))
        energy = float(self.optimizable.get_value())
        if not converged and self.guard and self._best is not None and not self._better(energy, fmax):
            self.optimizable.set_x(self._best.x)
            energy, fmax = self._best.energy, self._best.fmax
        self.report = Report(converged, self.engine, self.nsteps, energy, fmax, self.switches)
        if not converged:
            message = f"not converged after {self.nsteps} steps: largest force {fmax:.4f} > {self.fmax} eV/A"
            warnings.warn(message, NotConverged, stacklevel=3)

    def _better(self, energy: float, fmax: float) -> bool:
        assert self._best is not None and self._began is not None
        return fmax <= self._best.fmax and energy <= self._began.energy + 1e-6 * len(self._best.x)

    # ---- restarting ----

    def _remember(self, coordinates: Array, forces: Array, energy: float, scalars: Scalars) -> None:
        if self.restart is not None:
            atoms = self.atoms if isinstance(self.atoms, Atoms) else self.atoms.atoms
            entry = {"at": coordinates, "forces": forces, "energy": energy, "scalars": asdict(scalars)}
            self._record.append(
                entry | {"positions": atoms.positions.copy(), "cell": atoms.cell.array.copy()}
            )

    def _save(self) -> None:
        if self.restart is None:
            return
        seen = {name: None if point is None else asdict(point) for name, point in self._points().items()}
        state = {"record": self._record, "engine": self.engine, "switches": list(self.switches), **seen}
        self.dump(state | {"patience": self._patience, "nsteps": self.nsteps + 1})

    def _points(self) -> dict[str, Seen | None]:
        return {"began": self._began, "best": self._best}

    def read(self) -> None:
        """ASE calls this when the restart file exists."""
        state = self.load()
        self._record, self._patience = state["record"], int(state["patience"])
        self.switches, self.nsteps = tuple(state["switches"]), int(state["nsteps"])
        began, best = (
            None if state[k] is None else Seen(**(state[k] | {"x": np.array(state[k]["x"])}))
            for k in ("began", "best")
        )
        self._began, self._best = began, best
        if state["engine"] != "spring":
            self._resume_engine = state["engine"]

    def _replay(self) -> None:
        """Bring the spring step back to where the restart file left it, by showing it the same calls again."""
        atoms = self.atoms if isinstance(self.atoms, Atoms) else self.atoms.atoms
        now = atoms.positions.copy(), atoms.cell.array.copy()
        for entry in self._record:
            entry |= {key: np.array(entry[key]) for key in ("at", "forces", "positions", "cell")}
            atoms.set_cell(entry["cell"])
            atoms.positions = entry["positions"]
            self._spring.observe(_frame(self.atoms), entry["at"], entry["forces"], entry["energy"])
            self._spring.propose(Scalars(**entry["scalars"]))
        atoms.set_cell(now[1])
        atoms.positions = now[0]
        if engine := getattr(self, "_resume_engine", None):
            self.engine = engine
            self._inner = {"BFGSLineSearch": BFGSLineSearch, "FIRE": FIRE}[engine](self.atoms, logfile=None)


def _policy(choice: str | Path | SpringPolicy) -> SpringPolicy | None:
    if isinstance(choice, SpringPolicy):
        return choice
    if choice == "prior":
        return None
    return default_policy() if choice == "td3" else load_weights(choice)


def _frame(atoms: Atoms | UnitCellFilter) -> Frame:
    if isinstance(atoms, Atoms):
        return Frame(atoms)
    factor = atoms.exp_cell_factor if isinstance(atoms, FrechetCellFilter) else atoms.cell_factor
    return Frame(atoms.atoms, np.asarray(atoms.deform_grad()), float(factor))


def _free(atoms: Any) -> Array | None:
    """Which coordinates may move [rows, 3]; None if all may."""
    inner = atoms if isinstance(atoms, Atoms) else getattr(atoms, "atoms", None)
    free = np.ones((len(atoms), 3), bool)
    for constraint in getattr(inner, "constraints", ()):
        if isinstance(constraint, FixAtoms):
            free[constraint.index] = False
    if isinstance(atoms, UnitCellFilter):
        free[-3:] = np.asarray(atoms.mask) != 0
    return None if free.all() else free


def _allowed(atoms: Any, move: Array) -> Array:
    """The move without what a cell filter forbids: rotation, and shape or volume where it holds them."""
    if isinstance(atoms, UnitCellFilter):
        cell = 0.5 * (move[-3:] + move[-3:].T)
        trace = np.trace(cell) / 3 * np.eye(3)
        if atoms.hydrostatic_strain:
            cell = trace
        if atoms.constant_volume:
            cell = cell - trace
        move[-3:] = cell
    return move
