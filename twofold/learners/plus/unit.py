"""The unit that rewards are learned in."""

from __future__ import annotations

from torch import Tensor

from twofold.core.protocols import State


class RewardUnit:
    """The mean size of an item's reward, renewed when the targets move, so that values mean the same in every world.

    The networks that learn answer in units of `size`. Targets are copies of what learned before the last move, so
    theirs is the unit of then: r + gamma^n Q' is taken in units of `target` and handed on in units of `size`.
    """

    def __init__(self) -> None:
        self.size = self.target = 1.0
        self._sum, self._count = 0.0, 0  # of the rewards since the last move

    def see(self, reward: Tensor) -> None:
        """Count the rewards of a batch."""
        self._sum += float(reward.abs().sum())
        self._count += len(reward)

    def take_over(self) -> None:
        """The targets are in today's unit from now on, and learning in that of the rewards seen since the last move."""
        self.target = self.size
        if self._sum > 0:
            self.size = self._sum / self._count
        self._sum, self._count = 0.0, 0

    def state_dict(self) -> State:
        return {"size": self.size, "target": self.target, "sum": self._sum, "count": self._count}

    def load_state_dict(self, state: State) -> None:
        self.size, self.target = float(state["size"]), float(state["target"])
        self._sum, self._count = float(state["sum"]), int(state["count"])
