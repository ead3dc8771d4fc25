"""Batches that look back: to the newest items, and to the steps that led to real ends."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array, Transition, Written
from twofold.core.protocols import State
from twofold.core.replay import ReplayConfig, Ring


class Ends:
    """The last steps before real ends: item numbers of the latest episodes that ended in earnest."""

    def __init__(self, cfg: ReplayConfig) -> None:
        self.cfg = cfg
        self._open: dict[int, list[int]] = {}  # row -> numbers of its newest items, of one episode
        # One episode a row, newest last, -1 where shorter.
        self._steps = np.zeros((0, cfg.ending_steps), np.int64)

    def add(self, written: Written[Transition], first: int) -> None:
        """Note items that were given the numbers from `first` on."""
        numbered = zip(written.row.tolist(), written.last.tolist(), strict=True)
        for place, (row, last) in enumerate(numbered):
            steps = self._open.setdefault(row, [])
            steps.append(first + place)
            del steps[: -self.cfg.ending_steps]
            if last:
                if self._counts(written.items, place):
                    self._keep(steps)
                del self._open[row]

    def _counts(self, items: Transition, place: int) -> bool:
        """Whether an episode whose last item this is ended as batches look back from."""
        below = self.cfg.ending_below
        return bool(items.terminated[place]) and (below is None or float(items.reward[place]) < below)

    def _keep(self, steps: list[int]) -> None:
        row = np.full((1, self.cfg.ending_steps), -1, np.int64)
        row[0, -len(steps) :] = steps
        self._steps = np.concatenate([self._steps, row])[-self.cfg.endings_kept :]

    def draw(self, size: int, oldest: int, rng: np.random.Generator) -> Array:
        """Numbers of items before ends: any end, any of its steps that replay still holds; none if there is none."""
        held = self._steps[np.searchsorted(self._steps[:, -1], oldest) :]
        if not len(held) or not size:
            return np.zeros(0, np.int64)
        chosen = held[rng.integers(0, len(held), size)]
        there = (chosen >= oldest).sum(axis=1)  # the newest steps stand at the end
        drawn: Array = chosen[np.arange(size), -1 - (rng.random(size) * there).astype(np.int64)]
        return drawn

    def state_dict(self) -> State:
        return {"steps": self._steps, "open": {str(row): np.array(n) for row, n in self._open.items()}}

    def load_state_dict(self, state: State) -> None:
        self._steps = np.array(state["steps"])
        self._open = {int(row): [int(n) for n in numbers] for row, numbers in state["open"].items()}


class MixedRing(Ring[Transition]):
    """Part of every batch from the newest items, part from the steps that led to real ends, the rest uniform."""

    def __init__(self, capacity: int, blank: Transition, rng: np.random.Generator, cfg: ReplayConfig) -> None:
        super().__init__(capacity, blank, rng)
        self.cfg, self.ends = cfg, Ends(cfg)

    def add(self, written: Written[Transition]) -> None:
        first = self.added
        super().add(written)
        if self.cfg.ending_share:
            self.ends.add(written, first)

    def _draw(self, size: int) -> Array:
        oldest, newest = self.added - len(self), min(self.cfg.recent_items, len(self))
        recent, ending = round(size * self.cfg.recent_share), round(size * self.cfg.ending_share)
        drawn = self._newer(oldest, size)
        drawn[:recent] = self._newer(self.added - newest, recent)
        before_ends = self.ends.draw(ending, oldest, self.rng)
        drawn[recent : recent + len(before_ends)] = before_ends
        return drawn % self.capacity

    def _newer(self, first: int, size: int) -> Array:
        """Numbers of items from `first` to the newest."""
        return self.rng.integers(first, self.added, size)

    def state_dict(self) -> State:
        return super().state_dict() | {"ends": self.ends.state_dict()}

    def load_state_dict(self, state: State) -> None:
        super().load_state_dict(state)
        self.ends.load_state_dict(state["ends"])
