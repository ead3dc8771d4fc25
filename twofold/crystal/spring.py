"""The bond-spring quasi-Newton step: a fitted pair potential gives the curvature, secant pairs correct it.

Everything is made of bond vectors and invariants, so turning, shifting or renumbering the crystal turns, shifts or
renumbers the step. A policy may set seven scalars per step; all zeros is the untrained prior.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import diags_array, eye_array

from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.crystal.angles import angle_hessian
from twofold.crystal.bonds import Bonds, Frame, Matrix, find_bonds, length_scale
from twofold.crystal.curvature import DENSE_LIMIT, EIGEN_LIMIT, Curvature, Pairs
from twofold.crystal.motion import Motion, everything
from twofold.crystal.pairs import (
    NONMETALS,
    Evidence,
    PairBasis,
    by_kind,
    combine,
    fit,
    gather,
    pulls,
    unexplained,
)

SCALARS = ("stiffness", "floor", "trust", "length", "history", "doubt", "rest")


@settings
class SpringSettings:
    """The constants of the untrained step."""

    reach: float = setting("bonds up to this many natural lengths", default=1.7, gt=0)
    stiffness: float = setting("of a bond before any force was seen", default=2.0, gt=0, unit="eV/Angstrom^2")
    decay: float = setting("of the pair potential per natural length", default=4.0, gt=0)
    certainty: float = setting("of that prior against the forces", default=1.0, gt=0)
    doubt: float = setting(
        "share of the forces that a pair potential is not expected to explain", default=0.1, gt=0
    )
    forget: float = setting("weight of a force call relative to the next one", default=0.5, gt=0, le=1)
    covalent: float = setting("of one between two nonmetals", default=15.0, gt=0, unit="eV/Angstrom^2")
    bend: float = setting("stiffness of an angle, as a share of its covalent bonds'", default=0.07, ge=0)
    rest: float = setting(
        "stiffness of all else before any step, times the share of forces that bonds do not explain",
        default=4.0,
        gt=0,
        unit="eV/Angstrom^2",
    )
    rest_least: float = setting(
        "bounds of that stiffness once steps measure it", default=0.5, gt=0, unit="eV/Angstrom^2"
    )
    rest_most: float = setting("the upper one", default=12.0, gt=0, unit="eV/Angstrom^2")
    soft: float = setting("`floor` where angles are springs too", default=0.3, gt=0, unit="eV/Angstrom^2")
    floor: float = setting("the softest mode the step believes in", default=1.5, gt=0, unit="eV/Angstrom^2")
    trust: float = setting("how far an atom may move in the first step", default=0.3, gt=0, unit="Angstrom")
    trust_most: float = setting("how far an atom may move in any step", default=0.46, gt=0, unit="Angstrom")
    trust_least: float = setting("how far an atom may always move", default=0.02, gt=0, unit="Angstrom")
    shrink: float = setting(
        "of the last move, after a step that the model did not foresee", default=0.5, gt=0, lt=1
    )
    history: int = setting("secant pairs kept", default=20, ge=0)
    inner: int = setting(
        "solves per step that follow the bonds' anharmonicity; they cost no force call", default=5, ge=1
    )
    stride: float = setting(
        "share of the trust radius that one of these solves may go", default=0.5, gt=0, le=1
    )
    closest: float = setting(
        "a step that brings atoms nearer is shortened", default=0.6, ge=0, unit="natural lengths"
    )
    scale_least: float = setting(
        "least natural length, in sums of covalent radii: squeezed starts have shorter ones",
        default=0.95,
        gt=0,
    )

    def trusted(self, trust: float, kept: float, moved: float) -> float:
        """The trust radius after a move of this length that kept this share of the fall that was foreseen."""
        if kept < 0.25:
            return max(self.trust_least, self.shrink * moved)
        return min(self.trust_most, 2 * trust) if kept > 0.75 and moved > 0.8 * trust else trust


@dataclass(frozen=True)
class Scalars:
    """What a policy sets per step, as factors; the defaults are the prior."""

    stiffness: float = 1.0
    floor: float = 1.0
    trust: float = 1.0
    length: float = 1.0
    history: float = 1.0
    doubt: float = 1.0
    rest: float = 1.0  # of the stiffness of all that bonds are not: BFGS calls it alpha

    @classmethod
    def of(cls, action: Array) -> Scalars:
        """From an action in [-1, 1]^7; zeros give the prior."""
        a = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        spread = np.exp(np.array([0.7, 1.2, 0.7, 0.4, 0.0, 1.6, 1.0]) * a)
        spread[4] = min(1.0, 1.0 + a[4])
        return cls(*(float(value) for value in spread))


@dataclass(frozen=True)
class Point:
    """A place where forces are known."""

    at: Array  # [rows, 3]
    forces: Array  # [rows, 3]
    energy: float
    bonds: Bonds
    slope: Array  # [2, E] of the pair basis
    bend: Array  # [2, E]
    pulls: Array  # [2K, 3 rows], the forces of each basis function


@dataclass
class Memory:
    """What the step remembers of one relaxation."""

    points: list[Point] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    pairs: list[tuple[Array, Array]] = field(default_factory=list)  # (moves, force drops), [3 rows] each
    best: Point | None = None
    trust: float = 0.0
    scale: float = 0.0
    stiffness: Array = field(
        default_factory=lambda: np.zeros(0)
    )  # [K] of a bond of each kind, before any force
    directed: bool = False  # bonds have directions or charges: there are nonmetals
    rest: float = 1.0  # stiffness of all that bonds are not, as the last steps showed it; eV/A^2
    predicted: float = 0.0  # energy drop the model promised
    kept: float = 1.0  # promised drop that came true in the last step
    rejected: int = 0
    calls: int = 0
    forces: list[float] = field(default_factory=list)  # the largest one of every call
    asked: bool | None = None  # whether a policy sets the steps; decided at the second call


def largest(rows: Array) -> float:
    """The length of the longest row."""
    return float(np.sqrt((rows * rows).sum(axis=1).max()))


def accepts(rise: float, forces: Array, before: Array) -> bool:
    """Whether to go on from a point: its energy rose by no more than noise, or its forces are half as large."""
    return rise < 1e-4 * len(forces) or largest(forces) < 0.5 * largest(before)


def evenly(bonds: Bonds) -> Array:
    """Each coordinate's share [3 rows] of a stiffness that atoms have against their neighbours.

    A strain moves the neighbours of every atom by their distance times it, and a row of the cell is the strain times
    the cell factor.
    """
    frame, shares = bonds.frame, np.ones(3 * bonds.frame.rows)
    if frame.cell_factor > 0 and len(bonds.length):
        shares[-9:] = len(frame.atoms) * np.mean(bonds.length**2) / frame.cell_factor**2
    return shares


class SpringStep:
    """`observe` a force call, then `propose` where to go: alternate the two."""

    def __init__(self, settings: SpringSettings | None = None) -> None:
        self.settings = settings or SpringSettings()
        self.motion: Motion | None = None  # of the last call
        self.memory = Memory(trust=self.settings.trust)
        self._basis = PairBasis(self.settings.decay, self.settings.reach)

    def observe(
        self, frame: Frame, at: Array, forces: Array, energy: float, motion: Motion | None = None
    ) -> None:
        """Take in one force call at coordinates `at` [rows, 3]; without `motion` everything may move."""
        memory, settings = self.memory, self.settings
        self.motion = motion = motion or everything(len(at))
        forces = motion.allowed(forces.ravel()).reshape(-1, 3)
        if memory.scale == 0:
            memory.scale = length_scale(frame.atoms, settings.scale_least)
            memory.stiffness = by_kind(frame.atoms.numbers, settings.stiffness, settings.covalent)
            memory.directed = bool(np.isin(frame.atoms.numbers, NONMETALS).any())
        bonds = find_bonds(frame, memory.scale, settings.reach)
        slope, bend = self._basis(bonds.distance, bonds.length)
        pull = motion.allowed(pulls(bonds, slope))
        point = Point(at.copy(), forces.copy(), energy, bonds, slope, bend, pull)
        if memory.points:
            last = memory.points[-1]
            memory.pairs.append(((at - last.at).ravel(), (last.forces - forces).ravel()))
            # Differences: what bonds cannot explain about the forces is mostly the same at both points.
            memory.evidence.append(gather(point.pulls - last.pulls, (forces - last.forces).ravel()))
        else:
            memory.evidence.append(gather(point.pulls, forces.ravel()))
        memory.points.append(point)
        memory.calls += 1
        memory.forces.append(largest(forces))
        self._judge(point)
        for kept in (memory.evidence, memory.pairs):
            del kept[: max(0, len(kept) - settings.history)]
        del memory.points[:-2]

    def _judge(self, point: Point) -> None:
        """Adapt the trust radius and decide whether to go on from this point or from the best one."""
        memory, settings, best = self.memory, self.settings, self.memory.best
        if best is None:
            memory.best = point
            return
        rise, moved = point.energy - best.energy, largest(point.at - best.at)
        memory.kept = float(np.clip(-rise / max(memory.predicted, 1e-12), -5.0, 5.0))
        memory.trust = settings.trusted(memory.trust, memory.kept, moved)
        accepted = accepts(rise, point.forces, best.forces)
        memory.rejected = 0 if accepted else memory.rejected + 1
        if accepted:
            memory.best = point

    def propose(self, scalars: Scalars = Scalars()) -> Array:  # noqa: B008 - frozen
        """The displacement [rows, 3] from the last observed coordinates.

        The first step is always the prior's: one force call cannot tell crystals apart, and it is often enough.
        """
        base, memory, settings, motion = self.memory.best, self.memory, self.settings, self.motion
        if base is None or motion is None:
            raise RuntimeError("propose() needs an observe() first")
        scalars = scalars if memory.calls > 1 else Scalars()
        coefficients = fit(
            memory.evidence,
            memory.stiffness,
            settings.certainty,
            settings.doubt * scalars.doubt,
            settings.forget,
        )
        coefficients = coefficients * scalars.stiffness
        curvature = self._curvature(base, coefficients, motion, scalars)
        trust = min(memory.trust * scalars.trust, settings.trust_most)
        step = self._solve(base, curvature, coefficients, motion, trust) * scalars.length
        step *= min(1.0, trust / max(largest(step), 1e-30))
        step = self._spaced(base.bonds, step)
        moved = step.ravel()[motion.free]
        memory.predicted = float(moved @ base.forces.ravel()[motion.free] - 0.5 * moved @ (curvature @ moved))
        return base.at - memory.points[-1].at + step

    def _curvature(self, base: Point, coefficients: Array, motion: Motion, scalars: Scalars) -> Curvature:
        """The fitted bonds' second derivatives at `base`, corrected by the secant pairs, for what may move."""
        if self.memory.directed:
            return self._directed(base, coefficients, motion, scalars)
        bonds, floor = base.bonds, self.settings.floor * scalars.floor
        along = combine(coefficients, bonds, base.bend)
        across = combine(coefficients, bonds, base.slope) / bonds.distance
        dense = base.at.size <= DENSE_LIMIT

        def safe() -> Matrix:
            springs = bonds.hessian(np.maximum(along, 0.0), np.maximum(across, 0.0), dense)
            size = base.at.size
            lifted = springs + floor * (np.eye(size) if dense else eye_array(size, format="csr"))
            return motion.movable(lifted, floor)

        pairs = [
            (motion.allowed(s)[motion.free], motion.allowed(y)[motion.free]) for s, y in self.memory.pairs
        ]
        exact = motion.movable(bonds.hessian(along, across, dense), floor)
        return Curvature(exact, safe, pairs, scalars.history, floor)

    def _directed(self, base: Point, coefficients: Array, motion: Motion, scalars: Scalars) -> Curvature:
        """Bonds without any push-apart, angles, and a stiffness of all else that the steps measure.

        Secant pairs on such a matrix, positive and of full rank, know at once what a pair potential lacks.
        """
        settings, bonds, dense = self.settings, base.bonds, base.at.size <= DENSE_LIMIT
        along = np.maximum(combine(coefficients, bonds, base.bend), 0.0)
        across = np.maximum(combine(coefficients, bonds, base.slope) / bonds.distance, 0.0)
        covalent = by_kind(bonds.frame.atoms.numbers, 0.0, 1.0)[bonds.kind]
        angles = angle_hessian(bonds, along * covalent, settings.bend)
        springs = bonds.hessian(along, across, dense) + (angles.toarray() if dense else angles)
        floor = settings.soft * scalars.floor
        inside = motion.movable(springs, floor)
        pairs = [
            (motion.allowed(s)[motion.free], motion.allowed(y)[motion.free]) for s, y in self.memory.pairs
        ]
        self.memory.rest = self._rest(inside, pairs, coefficients)
        rest = self.memory.rest * scalars.rest * evenly(bonds)[motion.free]
        whole = inside + (np.diag(rest) if dense else diags_array(rest, format="csr"))
        return Curvature(whole, lambda: whole, pairs, scalars.history, floor)

    def _rest(self, springs: Matrix, pairs: Pairs, coefficients: Array) -> float:
        """The stiffness that the last moves showed beyond the springs'; before any, guessed from the fit."""
        settings = self.settings
        if not pairs:
            found = settings.rest * unexplained(coefficients, self.memory.evidence[-1])
        else:
            found = np.median([(s @ y - s @ (springs @ s)) / max(s @ s, 1e-30) for s, y in pairs[-4:]])
        return float(np.clip(found, settings.rest_least, settings.rest_most))

    def _solve(
        self, base: Point, curvature: Curvature, coefficients: Array, motion: Motion, trust: float
    ) -> Array:
        """Where the model's force vanishes, if that is within `trust`; else the best shifted Newton step."""
        solve, left = curvature.solver(), base.forces.ravel()[motion.free]
        step, smallest = np.zeros_like(base.at), np.inf
        for _ in range(self.settings.inner):
            move = self._centred(solve(left), motion, base)
            if largest(move) > self.settings.stride * trust:
                move = self._limited(base, curvature, left, motion, self.settings.stride * trust)
            trial = step + move
            if largest(trial) > trust:
                return trial * (trust / largest(trial))
            rest = self._force_after(base, curvature, coefficients, trial, motion)
            size = float(np.linalg.norm(rest))
            if size > smallest:
                break
            step, left, smallest = trial, rest, size
            if size < 1e-3 * np.linalg.norm(base.forces):
                break
        return step

    def _force_after(
        self, base: Point, curvature: Curvature, coefficients: Array, step: Array, motion: Motion
    ) -> Array:
        """The model's force after `step`: quadratic, plus what the bonds' anharmonicity adds."""
        bonds = base.bonds
        vector, unit = bonds.stretched(step), bonds.unit
        distance, change = np.sqrt((vector * vector).sum(axis=1)), vector - bonds.vector
        after = combine(coefficients, bonds, self._basis(distance, bonds.length)[0])
        before = combine(coefficients, bonds, base.slope)
        across = before / bonds.distance
        along = ((combine(coefficients, bonds, base.bend) - across) * (change * unit).sum(axis=1))[
            :, None
        ] * unit
        linear = before[:, None] * unit + along + across[:, None] * change
        beyond = bonds.pull((after / distance)[:, None] * vector - linear)
        return (
            motion.allowed((base.forces + beyond).ravel())[motion.free]
            - curvature @ step.ravel()[motion.free]
        )

    def _limited(
        self, base: Point, curvature: Curvature, force: Array, motion: Motion, trust: float
    ) -> Array:
        """The step with every mode stiffened by the smallest shift that keeps it within `trust`."""
        if not curvature.dense:
            step = self._centred(curvature.solver()(force), motion, base)
            return step * (trust / largest(step))
        low, high = 1e-3 * self.settings.floor, 2 * largest(self._centred(force, motion, base)) / trust
        step = self._centred(curvature.solver(high)(force), motion, base)
        for _ in range(12 if force.size <= EIGEN_LIMIT else 6):
            shift = np.sqrt(low * high)
            trial = self._centred(curvature.solver(shift)(force), motion, base)
            if largest(trial) > trust:
                low = shift
            else:
                high, step = shift, trial
        return step

    def _centred(self, step: Array, motion: Motion, base: Point) -> Array:
        """As rows of 3, without net translation when nothing is held in place."""
        flat = np.zeros(base.at.size)
        flat[motion.free] = step
        full = motion.allowed(flat).reshape(-1, 3)
        if motion.everything:
            atoms = len(base.bonds.frame.atoms)
            full[:atoms] -= full[:atoms].mean(axis=0)
        return full

    def _spaced(self, bonds: Bonds, step: Array) -> Array:
        """The step, halved until it brings no two atoms closer than allowed."""
        nearest = np.minimum(self.settings.closest * bonds.length, 0.95 * bonds.distance)
        for _ in range(6):
            vector = bonds.stretched(step)
            if ((vector * vector).sum(axis=1) >= nearest**2).all():
                return step
            step = 0.5 * step
        return step
