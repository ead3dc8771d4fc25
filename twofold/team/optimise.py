"""Optimisers on flat parameters that the team's learners can choose from."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from twofold.nets import Adam, Flat

OptimiserName = Literal["adam", "rmsprop"]


class RMSProp:
    """RMSprop as PyMARL uses it: no momentum, epsilon outside of the root."""

    def __init__(self, flat: Flat, lr: float, *, alpha: float = 0.99, eps: float = 1e-5) -> None:
        self.flat, self.lr, self.alpha, self.eps = flat, lr, alpha, eps
        self.square = torch.zeros_like(flat.values)

    def step(self) -> None:
        """Move the values against their gradients."""
        grads = self.flat.grads
        self.square.mul_(self.alpha).addcmul_(grads, grads, value=1 - self.alpha)
        self.flat.values.addcdiv_(grads, self.square.sqrt().add_(self.eps), value=-self.lr)

    def state_dict(self) -> dict[str, Any]:
        return {"square": self.square.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.square.copy_(torch.as_tensor(state["square"]))


def make_optimiser(name: OptimiserName, flat: Flat, lr: float, eps: float) -> Adam | RMSProp:
    """The optimiser of this name."""
    return RMSProp(flat, lr, eps=eps) if name == "rmsprop" else Adam(flat, lr, eps=eps)


def load_optimiser(optimiser: Adam | RMSProp, state: dict[str, Any]) -> None:
    """Continue from a saved state, whose tensors may have become arrays."""
    tensors = {
        key: value if isinstance(value, (int, Tensor)) else torch.as_tensor(value)
        for key, value in state.items()
    }
    optimiser.load_state_dict(tensors)  # type: ignore[arg-type]


class RewardScale:
    """Rewards minus their running mean, over their running standard deviation."""

    def __init__(self) -> None:
        self.mean, self.square, self.count = 0.0, 1.0, 1e-4

    def __call__(self, reward: Tensor, mask: Tensor) -> Tensor:
        """Standardised rewards; the batch's played steps are learned from first."""
        seen = float(mask.sum())
        mean = float((reward * mask).sum()) / seen
        square = float((reward.square() * mask).sum()) / seen
        share = seen / (self.count + seen)
        self.mean += (mean - self.mean) * share
        self.square += (square - self.square) * share
        self.count += seen
        spread = max(self.square - self.mean**2, 1e-8) ** 0.5
        return reward.sub(self.mean).div(spread + 1e-5)

    def state_dict(self) -> dict[str, float]:
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.mean, self.square, self.count = state["mean"], state["square"], state["count"]
