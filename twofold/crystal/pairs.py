"""A pair potential fitted while relaxing: two exponentials per pair of elements, by ridge regression on forces.

To first order in the density an embedded-atom metal *is* a pair potential, so even the forces of the first call
tell most of the curvature. V'(r) = -(length / decay) (c0 exp(-2 decay (rho - 1)) + c1 exp(-decay (rho - 1))) cut(rho)
with rho = r / length; c = (k, -k) is a Morse bond of stiffness k at its natural length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twofold.core.experience import Array
from twofold.crystal.bonds import Bonds

# Elements whose bonds have directions (among themselves) or charges (with metals).
NONMETALS = (1, 2, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 32, 33, 34, 35, 36, 51, 52, 53, 54, 85, 86)


def by_kind(numbers: Array, other: float, covalent: float) -> Array:
    """A value for every pair of elements [K], in the order of `Bonds.kind`: `covalent` for two nonmetals."""
    nonmetal = np.isin(np.unique(numbers), NONMETALS).astype(int)
    high, low = np.tril_indices(len(nonmetal))
    values: Array = np.array([other, other, covalent])[nonmetal[low] + nonmetal[high]]
    return values


@dataclass(frozen=True)
class Evidence:
    """One force call as the regression sees it: normal equations, not the forces themselves."""

    gram: Array  # [2K, 2K]
    answer: Array  # [2K]
    square: float  # sum of the squared forces
    components: int


@dataclass(frozen=True)
class PairBasis:
    """The radial functions: slopes V' and stiffnesses V'' of both exponentials."""

    decay: float
    reach: float

    def __call__(self, distance: Array, length: Array) -> tuple[Array, Array]:
        """Slopes and stiffnesses, each [2, E]."""
        rho, rate = distance / length, self.decay * np.array([[2.0], [1.0]])
        inside = np.maximum(1 - (rho / self.reach) ** 6, 0.0)
        cut, cut_slope = inside**2, -12 * inside * (rho / self.reach) ** 5 / self.reach
        wave = np.exp(-rate * (rho - 1))
        slope = -wave * cut * length / self.decay
        return slope, wave * (rate * cut - cut_slope) / self.decay


def combine(coefficients: Array, bonds: Bonds, parts: Array) -> Array:
    """Sum the two parts [2, E] with each bond's own coefficients [K, 2]."""
    own = coefficients[bonds.kind]
    total: Array = own[:, 0] * parts[0] + own[:, 1] * parts[1]
    return total


def pulls(bonds: Bonds, slope: Array) -> Array:
    """The forces of each basis function alone [2K, 3 rows]; `slope` [2, E] is from the basis at these bonds."""
    tension = slope[:, :, None] * bonds.unit
    member = bonds.kind == np.arange(bonds.kinds)[:, None]
    features = bonds.pull(np.where(member[:, None, :, None], tension[None], 0.0))  # [K, 2, rows, 3]
    return features.reshape(2 * bonds.kinds, -1)


def gather(features: Array, target: Array) -> Evidence:
    """What these forces, or a difference of forces, say about the coefficients."""
    return Evidence(features @ features.T, features @ target, float(target @ target), target.size)


def fit(evidence: list[Evidence], stiffness: Array, certainty: float, doubt: float, forget: float) -> Array:
    """Coefficients [K, 2]: a Morse prior of `stiffness` [K] held with `certainty`, against doubted forces."""
    prior = np.stack([stiffness, -stiffness], axis=1).ravel()
    gram = np.diag(certainty / np.repeat(stiffness, 2) ** 2)
    answer = gram @ prior
    weight = 1.0
    for seen in reversed(evidence):
        trust = weight / (doubt**2 * seen.square / seen.components + 1e-8)
        gram, answer = gram + trust * seen.gram, answer + trust * seen.answer
        weight *= forget
    return np.linalg.solve(gram, answer).reshape(-1, 2)


def unexplained(coefficients: Array, seen: Evidence) -> float:
    """Share of the forces' norm that the fitted bonds do not explain, in [0, ...]."""
    flat = coefficients.ravel()
    left = flat @ seen.gram @ flat - 2 * flat @ seen.answer + seen.square
    return float(np.sqrt(max(left, 0.0) / max(seen.square, 1e-30)))
