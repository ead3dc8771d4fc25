"""Replay that draws what there is more to learn from more often, at the cost of a batch however much is held."""

from __future__ import annotations

from typing import Protocol, cast, runtime_checkable

import numpy as np

from twofold.core.experience import Array, Transition, Written
from twofold.core.protocols import Learner, State
from twofold.core.replay import ReplayConfig
from twofold.sampling.mixed import MixedRing

_HIGHEST_AGAIN = 250  # batches after which the highest priority is looked up again


@runtime_checkable
class Prioritises(Protocol):
    """A learner that says how often the items of its last batch should come again."""

    @property
    def lowest_priority(self) -> float | None:
        """No priority is lower; None: all items come equally often."""
        ...

    def priorities(self) -> Array:
        """[B], for the batch of the last update."""
        ...


class PrioritisedRing(MixedRing):
    """Items are drawn with probability proportional to their priority; new ones have the highest there is.

    Rejection sampling draws exactly so: a uniform candidate is kept with probability priority / highest.
    """

    def __init__(
        self, capacity: int, blank: Transition, rng: np.random.Generator, cfg: ReplayConfig, lowest: float
    ) -> None:
        super().__init__(capacity, blank, rng, cfg)
        self._priority = np.zeros(capacity, np.float32)
        self._highest = lowest  # no priority is above it
        self._batches = 0

    def add(self, written: Written[Transition]) -> None:
        before = self.added
        super().add(written)
        self._priority[np.arange(before, self.added) % self.capacity] = self._highest

    def _newer(self, first: int, size: int) -> Array:
        kept: list[Array] = [np.zeros(0, np.int64)]
        missing, candidates = size, 4 * size
        while missing > 0:
            found = self._accepted(first, candidates)[:missing]
            kept.append(found)
            missing -= len(found)
            candidates = min(2 * candidates, 64 * size)
        return np.concatenate(kept)

    def _accepted(self, first: int, candidates: int) -> Array:
        numbers = self.rng.integers(first, self.added, candidates)
        bar = self.rng.random(candidates, dtype=np.float32) * np.float32(self._highest)
        accepted: Array = numbers[bar < self._priority[numbers % self.capacity]]
        return accepted

    def learned(self, learner: Learner[Transition]) -> None:
        """Give the items of the last batch their new priorities."""
        new = cast(Prioritises, learner).priorities()
        self._priority[self.sampled] = new
        self._batches += 1
        if self._batches % _HIGHEST_AGAIN == 0:  # one outlier must not rule the rest of a run
            self._highest = float(self._priority[: len(self)].max())
        else:
            self._highest = max(self._highest, float(new.max()))

    def state_dict(self) -> State:
        own = {"priority": self._priority[: len(self)].copy(), "highest": self._highest}
        return super().state_dict() | own | {"batches": self._batches}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self._priority[: len(state["priority"])] = state["priority"]
        self._highest, self._batches = float(state["highest"]), int(state["batches"])
