"""The quasi-Newton matrix: bond springs plus secant pairs, and its solves (eigen, Cholesky or conjugate gradients)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from ..core.experience import Array

EIGEN_LIMIT = 60  # coordinates up to which eigenvectors are affordable in every step
DENSE_LIMIT = 450  # coordinates (150 atoms) up to which the matrix is dense


def positive(matrix: Array, floor: float) -> Array:
    """The matrix with its eigenvalues replaced by their size, none below `floor`."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(np.abs(values), floor)) @ vectors.T


class Curvature:
    """B = springs + BFGS corrections of the pairs (moves s, force drops y), oldest first; positive definite.

    `springs` is a dense array or a sparse one. Pairs whose curvature is not clearly positive are left out;
    `weight` in [0, 1] scales the corrections (a blend of two positive matrices is positive).
    """

    def __init__(self, springs: Any, pairs: list[tuple[Array, Array]], weight: float) -> None:
        self.springs, self.weight = springs, weight
        self.corrections: list[tuple[Array, Array]] = []  # (gained, lost): + gained gained^T - lost lost^T
        for move, drop in pairs:
            self._learn(move, drop)
        self.matrix = self._dense() if isinstance(springs, np.ndarray) else None
        self._spectrum: tuple[Array, Array] | None = None

    def _learn(self, move: Array, drop: Array) -> None:
        expected = self._apply(move, 1.0)
        model, seen = move @ expected, move @ drop
        if model > 0 and seen > 0.05 * model:
            self.corrections.append((drop / np.sqrt(seen), expected / np.sqrt(model)))

    def _apply(self, vector: Array, weight: float) -> Array:
        out = self.springs @ vector
        for gained, lost in self.corrections:
            out = out + weight * (gained * (gained @ vector) - lost * (lost @ vector))
        return out

    def __matmul__(self, vector: Array) -> Array:
        return self.matrix @ vector if self.matrix is not None else self._apply(vector, self.weight)

    def _dense(self) -> Array:
        if not self.corrections:
            return self.springs
        gained = np.stack([g for g, _ in self.corrections])
        lost = np.stack([e for _, e in self.corrections])
        return self.springs + self.weight * (gained.T @ gained - lost.T @ lost)

    def solver(self, shift: float = 0.0) -> Any:
        """A function force -> displacement that solves (B + shift) d = F."""
        if self.matrix is None:
            return lambda force: self._conjugate(force, shift)
        if len(self.matrix) <= EIGEN_LIMIT:
            return lambda force: self._by_modes(force, shift)
        factor = linalg.cho_factor(self.matrix + shift * np.eye(len(self.matrix)), check_finite=False)
        return lambda force: linalg.cho_solve(factor, force, check_finite=False)

    def _by_modes(self, force: Array, shift: float) -> Array:
        if self._spectrum is None:
            self._spectrum = np.linalg.eigh(self.matrix)
        values, vectors = self._spectrum
        return vectors @ ((vectors.T @ force) / (np.abs(values) + shift))

    def _conjugate(self, force: Array, shift: float) -> Array:
        size = len(force)
        # The mean of each atom's diagonal keeps the iteration independent of how the crystal is turned.
        scale = np.repeat(self.springs.diagonal().reshape(-1, 3).mean(axis=1), 3) + shift
        matrix = LinearOperator((size, size), matvec=lambda v: self._apply(v, self.weight) + shift * v)
        jacobi = LinearOperator((size, size), matvec=lambda v: v / scale)
        return cg(matrix, force, rtol=1e-6, maxiter=400, M=jacobi)[0]
