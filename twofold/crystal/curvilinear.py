"""The step for molecules: a quadratic model in internal coordinates, corrected by secant pairs in them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from ase import Atoms
from scipy import linalg

from twofold.core.experience import Array
from twofold.crystal.bonds import Frame
from twofold.crystal.curvature import Pairs, conjugate
from twofold.crystal.forcefield import ForceField
from twofold.crystal.internals import Internals, find_links
from twofold.crystal.motion import Motion, everything
from twofold.crystal.pairs import NONMETALS
from twofold.crystal.spring import Scalars, SpringSettings, SpringStep, accepts, largest

SOLVES = 8  # of the model per step, which follow the curved coordinates; they cost no force call
SHARES = (1.0, 0.5, 0.25, 0.125)  # of such a solve's move that are tried until the model is lower
LARGEST = 150  # atoms; matrices are dense
CROWDED = 6  # neighbours of an atom beyond which its bonds have no directions
DAMPED = 0.2  # least share of the model's curvature that a secant pair may leave (Powell)


@dataclass(frozen=True)
class Place:
    """A place where forces are known, in both kinds of coordinates."""

    at: Array  # [n, 3]
    forces: Array  # [n, 3]
    energy: float
    values: Array = field(default_factory=lambda: np.zeros(0))  # [m]
    slopes: Array = field(default_factory=lambda: np.zeros((0, 0)))  # [m, 3n]


@dataclass
class Track:
    """What the step remembers of one relaxation."""

    places: list[Place] = field(default_factory=list)
    best: Place | None = None
    trust: float = 0.0
    predicted: float = 0.0  # energy drop the model promised
    kept: float = 1.0  # promised drop that came true in the last step
    rejected: int = 0
    calls: int = 0
    forces: list[float] = field(default_factory=list)  # the largest one of every call
    asked: bool | None = None  # whether a policy sets the steps; decided at the second call


def suits(atoms: Atoms) -> bool:
    """True for molecules: free in space, every bond with a nonmetal, few neighbours to each atom."""
    if atoms.pbc.any() or not 2 < len(atoms) <= LARGEST:
        return False
    links, nonmetal = find_links(atoms), np.isin(atoms.numbers, NONMETALS)
    crowded = len(links.centre) and np.bincount(links.centre).max() > CROWDED
    return not crowded and bool((nonmetal[links.centre] | nonmetal[links.other]).all() and nonmetal.any())


class CurvilinearStep:
    """`observe` a force call, then `propose` where to go: alternate the two."""

    def __init__(self, atoms: Atoms, settings: SpringSettings | None = None) -> None:
        self.settings = settings or SpringSettings()
        self.memory = Track(trust=self.settings.trust)
        self.motion = everything(len(atoms))
        self._describe(Internals(atoms))

    def _describe(self, internals: Internals) -> None:
        self.internals, self.field = internals, ForceField(internals)
        self.rest = internals.length[internals.bonds]  # [bonds], where each is expected to rest

    def observe(
        self, frame: Frame, at: Array, forces: Array, energy: float, motion: Motion | None = None
    ) -> None:
        """Take in one force call at coordinates `at` [n, 3]; without `motion` everything may move."""
        self.motion = motion = motion or everything(len(at))
        memory = self.memory
        forces = motion.allowed(forces.ravel()).reshape(-1, 3)
        place = self._measured(Place(at.copy(), forces, energy))
        memory.places.append(place)
        memory.calls += 1
        memory.forces.append(largest(forces))
        del memory.places[: -self.settings.history - 1]
        self._judge(place)
        if memory.best is place:
            self._look(frame.atoms)

    def _look(self, atoms: Atoms) -> None:
        """Take the internal coordinates of the best place, which is the last one; a rattled start may have others."""
        found = Internals(atoms)
        if found.same(self.internals):
            return
        self._describe(found)
        self.memory.places = [self._measured(place) for place in self.memory.places]
        self.memory.best = self.memory.places[-1]

    def _measured(self, place: Place) -> Place:
        values, slopes = self.internals(place.at)
        return replace(place, values=values, slopes=slopes)

    def _judge(self, place: Place) -> None:
        memory, settings, best = self.memory, self.settings, self.memory.best
        if best is None:
            memory.best = place
            return
        rise, moved = place.energy - best.energy, largest(place.at - best.at)
        memory.kept = float(np.clip(-rise / max(memory.predicted, 1e-12), -5.0, 5.0))
        memory.trust = settings.trusted(memory.trust, memory.kept, moved)
        accepted = accepts(rise, place.forces, best.forces)
        memory.rejected = 0 if accepted else memory.rejected + 1
        if accepted:
            memory.best = place

    def propose(self, scalars: Scalars = Scalars()) -> Array:  # noqa: B008 - frozen
        """The displacement [n, 3] from the last observed coordinates.

        Of the scalars `stiffness` (of the force field), `trust`, `length` and `history` have a meaning here.
        """
        memory, base = self.memory, self.memory.best
        if base is None:
            raise RuntimeError("propose() needs an observe() first")
        scalars = scalars if memory.calls > 1 else Scalars()
        trust = min(memory.trust * scalars.trust, self.settings.trust_most)
        for _ in range(3):
            stiffness = self.field(self.rest) * scalars.stiffness
            hessian = self._hessian(stiffness, scalars.history)
            tension = self._carried(base, stiffness)
            after, change = self._minimum(base, hessian, tension, trust)
            self._expect(after)
        if scalars.length != 1:
            after = base.at + scalars.length * (after - base.at)
            change = self.internals.between(self.internals(after)[0], base.values)
        memory.predicted = float(-(tension @ change) - 0.5 * change @ hessian @ change)
        out: Array = after - memory.places[-1].at
        return out

    def _expect(self, after: Array) -> None:
        """Bonds rest where the model goes to."""
        own = self.internals
        vectors = own.links.vectors(after)[own.bonds]
        length = np.linalg.norm(vectors, axis=1)
        start = own.length[own.bonds]
        self.rest = np.clip(length, start - 0.25, start + 0.25)

    def _carried(self, place: Place, stiffness: Array) -> Array:
        """The gradient in internal coordinates [m], shared among them as springs would share it."""
        slopes = self._free(place.slopes)
        matrix = slopes.T @ (stiffness[:, None] * slopes)
        gradient = -place.forces.ravel()[self.motion.free]
        out: Array = stiffness * (slopes @ linalg.solve(matrix, gradient, assume_a="pos", check_finite=False))
        return out

    def _free(self, slopes: Array) -> Array:
        return slopes if self.motion.free.all() else slopes[:, self.motion.free]

    def _hessian(self, stiffness: Array, weight: float = 1.0) -> Array:
        """Second derivatives in internal coordinates [m, m]: the force field and damped BFGS pairs of this weight."""
        field, scale = self.field.matrix(stiffness), np.sqrt(stiffness)
        hessian = field
        for scaled, shrunk in conjugate(self._pairs(stiffness)):
            move, drop = scaled / scale, shrunk * scale
            expected = hessian @ move
            model, seen = float(move @ expected), float(move @ drop)
            if model <= 0:
                continue
            if seen < DAMPED * model:
                mix = (1 - DAMPED) * model / (model - seen)
                drop = mix * drop + (1 - mix) * expected
                seen = float(move @ drop)
            hessian = hessian + np.outer(drop, drop) / seen - np.outer(expected, expected) / model
        return hessian if weight == 1 else field + weight * (hessian - field)

    def _pairs(self, stiffness: Array) -> Pairs:
        """Moves and rises of the gradient, in units in which every internal coordinate is equally stiff."""
        places, scale = self.memory.places, np.sqrt(stiffness)
        carried = [self._carried(place, stiffness) for place in places]
        return [
            (
                scale * self.internals.between(places[k].values, places[k - 1].values),
                (carried[k] - carried[k - 1]) / scale,
            )
            for k in range(1, len(places))
        ]

    def _minimum(self, base: Place, hessian: Array, tension: Array, trust: float) -> tuple[Array, Array]:
        """Where the model is lowest within the trust radius [n, 3], and the internal coordinates' change to there."""
        after, change, shift, lowest = base.at.copy(), np.zeros_like(tension), 0.0, 0.0
        slopes = base.slopes
        for solve in range(SOLVES):
            own = self._free(slopes)
            uphill = (
                own.T @ (tension + hessian @ change) + shift * (after - base.at).ravel()[self.motion.free]
            )
            matrix = own.T @ hessian @ own
            if solve == 0:
                shift = self._shift(matrix, -uphill, trust)
            move = self._move(matrix, shift, -uphill)
            # Around an atom in a plane no angle can open without the others: a full move may end higher.
            for share in SHARES:
                trial = _inside(base.at, after + share * move, trust)
                values, trial_slopes = self.internals(trial)
                changed = self.internals.between(values, base.values)
                height = float(tension @ changed + 0.5 * changed @ hessian @ changed)
                height += 0.5 * shift * float(((trial - base.at) ** 2).sum())
                if height < lowest:
                    break
            else:
                break
            after, slopes, change, lowest = trial, trial_slopes, changed, height
            if largest(move) < 1e-4:
                break
        return after, change

    def _move(self, matrix: Array, shift: float, force: Array) -> Array:
        lifted = self._held(matrix) + shift * np.eye(len(matrix))
        flat = np.zeros(self.motion.free.size)
        flat[self.motion.free] = linalg.solve(lifted, force, assume_a="pos", check_finite=False)
        return self.motion.allowed(flat).reshape(-1, 3)

    def _held(self, matrix: Array) -> Array:
        if not len(self.motion.held):
            return matrix
        held = self.motion.held[:, self.motion.free]
        inside = np.eye(len(matrix)) - held.T @ held
        out: Array = inside @ matrix @ inside + held.T @ held
        return out

    def _shift(self, matrix: Array, force: Array, trust: float) -> float:
        """The smallest shift of all stiffness that keeps the first move within the trust radius."""
        values, vectors = np.linalg.eigh(self._held(matrix))
        along = vectors.T @ force

        def reach(shift: float) -> float:
            flat = np.zeros(self.motion.free.size)
            flat[self.motion.free] = vectors @ (along / (values + shift))
            return largest(flat.reshape(-1, 3))

        if reach(0.0) <= trust:
            return 0.0
        low, high = 1e-3, 2 * float(np.linalg.norm(force)) / trust
        for _ in range(20):
            middle = np.sqrt(low * high)
            low, high = (middle, high) if reach(middle) > trust else (low, middle)
        return float(high)


def _inside(start: Array, after: Array, trust: float) -> Array:
    """No atom much further than the trust radius from where it was."""
    far = largest(after - start) / (1.2 * trust)
    return after if far <= 1 else start + (after - start) / far


def step_for(atoms: Atoms, settings: SpringSettings | None = None) -> SpringStep | CurvilinearStep:
    """The step that suits these atoms."""
    return CurvilinearStep(atoms, settings) if suits(atoms) else SpringStep(settings)
