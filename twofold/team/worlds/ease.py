"""How much of their strength the enemies of training battles lack: never of evaluations."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array

BAND = 0.1  # battles are drawn this far to both sides of the level


class Ease:
    """One drawn share for each battle: anywhere up to the most, or around a level that follows the battles.

    The level begins at the most, falls by `step` with every battle won and rises by it with every one lost, so that
    about half are won until battles at full strength are.
    """

    def __init__(self, most: float, step: float) -> None:
        self.most, self.step, self.level = most, step, most

    def drawn(self, rng: np.random.Generator) -> float:
        """The share that the enemies of a new battle lack."""
        if not self.most:
            return 0.0
        if not self.step:
            return float(rng.uniform(0, self.most))
        return float(np.clip(self.level + rng.uniform(-BAND, BAND), 0, self.most))

    def follow(self, ended: Array, won: Array) -> None:
        """Battles that ended now, and which of them were won."""
        gained = int(won[ended].sum()) - int((~won)[ended].sum())
        self.level = float(np.clip(self.level - self.step * gained, 0, self.most))
