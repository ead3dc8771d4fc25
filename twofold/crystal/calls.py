"""An ASE optimizable whose evaluations are counted, whoever asks, and may be limited."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from ase import Atoms
from ase.utils.abc import Optimizable

from twofold.core.experience import Array


class OutOfCalls(Exception):
    """One evaluation more than the limit was asked for."""


class CountedCalls(Optimizable):  # ASE is not checked
    """Counts the places at which energy or forces are asked for; asking twice at one place is one call."""

    def __init__(self, inner: Optimizable) -> None:
        self.inner, self.calls, self.limit = inner, 0, np.inf
        self._at: Array | None = None

    def allow(self, calls: float) -> None:
        """So many calls from now on; the place where we are does not count if it is known."""
        self.limit = self.calls + calls + (0 if self._known() else 1)

    def back(self) -> None:
        """Return to the place of the last call."""
        if self._at is not None:
            self.inner.set_x(self._at)

    def _known(self) -> bool:
        # ASE's calculators compute nothing anew for a smaller change than this.
        return self._at is not None and np.allclose(self.inner.get_x(), self._at, rtol=1e-15, atol=1e-15)

    def _count(self) -> None:
        if self._known():
            return
        if self.calls >= self.limit:
            raise OutOfCalls
        self.calls += 1
        self._at = np.array(self.inner.get_x())

    def get_gradient(self) -> Array:
        self._count()
        gradient: Array = self.inner.get_gradient()
        return gradient

    def get_value(self) -> float:
        self._count()
        return float(self.inner.get_value())

    def get_x(self) -> Array:
        x: Array = self.inner.get_x()
        return x

    def set_x(self, x: Array) -> None:
        self.inner.set_x(x)

    def ndofs(self) -> int:
        return int(self.inner.ndofs())

    def iterimages(self) -> Iterator[Atoms]:
        images: Iterator[Atoms] = self.inner.iterimages()
        return images

    def gradient_norm(self, gradient: Array) -> float:
        return float(self.inner.gradient_norm(gradient))

    def converged(self, gradient: Array, fmax: float) -> bool:
        return bool(self.inner.converged(gradient, fmax))
