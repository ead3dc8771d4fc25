"""The quasi-Newton matrices: bond springs plus secant pairs, and how they are solved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from twofold.core.experience import Array
from twofold.crystal.bonds import Matrix

EIGEN_LIMIT = 60  # coordinates up to which eigenvectors are affordable in every step
DENSE_LIMIT = 450  # coordinates (150 atoms) up to which matrices are dense

Pairs = list[tuple[Array, Array]]  # moves s and force drops y, oldest first
TELLING = 0.1  # cosine between a move and its force drop above which others are told apart from it
NEW = 0.6  # share of a move that newer ones must leave of it


def conjugate(pairs: Pairs) -> Pairs:
    """Each pair without what newer ones say already, so that BFGS updates keep what every one of them says.

    The force drop along a combination of moves is the combination of their drops, as far as the energy is quadratic:
    as far as both pairs agree about what they have in common. An older pair of which little is left is dropped.
    """
    found: Pairs = []
    for move, drop in reversed(pairs):
        size = np.linalg.norm(move)
        for newer, fall in found:
            seen = float(newer @ fall)
            if seen <= TELLING * np.linalg.norm(newer) * np.linalg.norm(fall):
                continue
            share = _agreed(float(move @ fall), float(drop @ newer)) / seen
            move, drop = move - share * newer, drop - share * fall
        if not found or np.linalg.norm(move) > NEW * size:
            found.append((move, drop))
    return found[::-1]


def _agreed(one: float, other: float) -> float:
    """The smaller of two numbers of one sign, else 0."""
    return 0.0 if one * other <= 0 else min(one, other, key=abs)


class Secant:
    """A symmetric matrix (dense or sparse) corrected by rank-one terms so that it maps each move to its force drop.

    BFGS where both the model and the pair curve upwards; otherwise, if `indefinite` is allowed, the symmetric rank-one
    update where it is safe; else the pair is left out, and a positive matrix stays positive.
    """

    def __init__(self, base: Matrix, pairs: Pairs, weight: float, indefinite: bool) -> None:
        self.base, self.weight = base, weight
        self._vectors: list[Array] = []
        self._signs: list[float] = []
        for move, drop in pairs:
            self._learn(move, drop, indefinite)

    def _learn(self, move: Array, drop: Array, indefinite: bool) -> None:
        expected = self._apply(move, 1.0)
        model, seen = float(move @ expected), float(move @ drop)
        if model > 0 and seen > 0.05 * model:
            self._vectors += [drop / np.sqrt(seen), expected / np.sqrt(model)]
            self._signs += [1.0, -1.0]
        elif indefinite:
            missing, gap = drop - expected, seen - model
            if abs(gap) > 0.01 * np.linalg.norm(missing) * np.linalg.norm(move):
                self._vectors.append(missing / np.sqrt(abs(gap)))
                self._signs.append(float(np.sign(gap)))

    def _apply(self, vector: Array, weight: float) -> Array:
        out: Array = self.base @ vector
        for sign, correction in zip(self._signs, self._vectors, strict=True):
            out = out + (weight * sign * (correction @ vector)) * correction
        return out

    def __matmul__(self, vector: Array) -> Array:
        return self._apply(vector, self.weight)

    def dense(self) -> Array:
        """The whole matrix; only when the base is dense."""
        base: Array = self.base
        if not self._vectors:
            return base
        vectors = np.stack(self._vectors)
        full: Array = base + vectors.T @ (np.array(self._signs)[:, None] * self.weight * vectors)
        return full


def definite(matrix: Array) -> bool:
    """True if all eigenvalues are above zero (a Cholesky factor exists)."""
    return bool(linalg.lapack.dpotrf(matrix)[1] == 0)


class Curvature:
    """The model of the energy (`@`: may curve downwards) and a positive definite neighbour of it to step with.

    `exact` are the bonds' true second derivatives; `safe()` makes the same bonds without any push-apart, for
    crystals too large for eigenvectors. `weight` in [0, 1] scales what the pairs say.
    """

    def __init__(
        self, exact: Matrix, safe: Callable[[], Matrix], pairs: Pairs, weight: float, floor: float
    ) -> None:
        self._model = Secant(exact, pairs, weight, indefinite=True)
        self._matrix: Array | None = None
        if not isinstance(exact, np.ndarray):
            self._positive = Secant(safe(), pairs, weight, indefinite=False)
            return
        matrix = self._model.dense()
        self._model = Secant(matrix, [], 1.0, indefinite=True)
        self._matrix = matrix if len(matrix) <= EIGEN_LIMIT else _lifted(matrix, floor)
        if self._matrix is None:
            self._matrix = Secant(safe(), pairs, weight, indefinite=False).dense()
        elif len(matrix) <= EIGEN_LIMIT:
            values, self._vectors = np.linalg.eigh(matrix)
            self._values = np.maximum(np.abs(values), floor)

    def __matmul__(self, vector: Array) -> Array:
        return self._model @ vector

    @property
    def dense(self) -> bool:
        return self._matrix is not None

    def solver(self, shift: float = 0.0) -> Callable[[Array], Array]:
        """A function force -> displacement that solves (positive neighbour + shift) d = F."""
        if self._matrix is None:
            return lambda force: self._conjugate(force, shift)
        if len(self._matrix) <= EIGEN_LIMIT:
            return lambda force: self._vectors @ ((self._vectors.T @ force) / (self._values + shift))
        factor = linalg.cho_factor(self._matrix + shift * np.eye(len(self._matrix)), check_finite=False)
        return lambda force: linalg.cho_solve(factor, force, check_finite=False)

    def _conjugate(self, force: Array, shift: float) -> Array:
        size = len(force)
        # The mean of each atom's diagonal keeps the iteration independent of how the crystal is turned.
        scale = np.repeat(self._positive.base.diagonal().reshape(-1, 3).mean(axis=1), 3) + shift
        matrix = LinearOperator((size, size), matvec=lambda v: self._positive @ v + shift * v)
        nearby = LinearOperator((size, size), matvec=lambda v: v / scale)
        found: Array = cg(matrix, force, rtol=1e-4, maxiter=400, M=nearby)[0]
        return found


def _lifted(matrix: Array, floor: float) -> Array | None:
    """The matrix plus the smaller shift of two that makes it positive definite, or None."""
    for shift in (0.1 * floor, floor):
        lifted = matrix + shift * np.eye(len(matrix))
        if definite(lifted):
            return lifted
    return None
