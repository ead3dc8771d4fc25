"""How much of their strength the enemies of training battles lack: never of evaluations."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array

BAND = 0.15  # each enemy's share is drawn this far to both sides of the level


class Ease:
    """One drawn share for each battle, anywhere up to the most; or one for each enemy around a level that follows.

    The level begins at the most, falls by `step` with every battle won and rises by it with every one lost, so that
    about half are won until battles at full strength are. Shares of their own make it smooth: what counts is how many
    shots an enemy takes, and if all had the same share then all would need one more at the same moment. With a step a
    training battle depends on those before it, beside its seed: the level is part of the world's snapshot.
    """

    def __init__(self, most: float, step: float) -> None:
        self.most, self.step, self.level = most, step, most

    def drawn(self, rng: np.random.Generator, enemies: int) -> Array:
        """The share that each enemy of a new battle lacks."""
        if not self.step:
            return np.full(enemies, rng.uniform(0, self.most))
        found: Array = np.clip(self.level + rng.uniform(-BAND, BAND, enemies), 0, self.most)
        return found

    def follow(self, ended: Array, won: Array) -> None:
        """Battles that ended now, and which of them were won."""
        gained = int(won[ended].sum()) - int((~won)[ended].sum())
        self.level = float(np.clip(self.level - self.step * gained, 0, self.most))
