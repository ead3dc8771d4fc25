"""Flat weights with the optimiser that moves them, their slow copies, and running standardisation of rewards."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from twofold.core.protocols import State
from twofold.nets import Adam, Flat, track

OptimiserName = Literal["adam", "rmsprop"]


class Kept(Protocol):
    """A part of a learner that goes on from a saved state."""

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


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

    def state_dict(self) -> dict[str, Tensor]:
        return {"square": self.square.clone()}

    def load_state_dict(self, state: State) -> None:
        self.square.copy_(torch.as_tensor(state["square"]))


class Weights:
    """All weights of a network in one tensor, and the optimiser that moves them."""

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        optimiser: OptimiserName = "adam",
        eps: float = 1e-5,
        clip: float = 10.0,
    ) -> None:
        self.module, self.flat, self.clip = module, Flat(module), clip
        self.optimiser = (
            RMSProp(self.flat, lr, eps=eps) if optimiser == "rmsprop" else Adam(self.flat, lr, eps=eps)
        )

    def zero_grad(self) -> None:
        self.flat.zero_grad()

    def descend(self) -> Tensor:
        """One step along the gradients, clipped to a global norm; the norm before."""
        norm = self.flat.clip_(self.clip)
        self.optimiser.step()
        return norm

    def state_dict(self) -> State:
        return {"values": self.flat.values.clone(), "optimiser": dict(self.optimiser.state_dict())}

    def load_state_dict(self, state: State) -> None:
        self.flat.values.copy_(torch.as_tensor(state["values"]))
        self.optimiser.load_state_dict(state["optimiser"])


class Target:
    """A slow copy of weights: taken over every `interval` updates, or mixed in by that share if it is below 1."""

    def __init__(self, copy: nn.Module, online: Weights, interval: float) -> None:
        self.online, self.interval = online.flat, interval
        self.flat = Flat(copy.to(self.online.values.device))
        self.copied = 0  # updates at the last copy

    def track(self, updates: int) -> None:
        """Follow the online weights, which have been updated `updates` times."""
        if self.interval < 1:
            track(self.flat, self.online, self.interval)
        elif updates - self.copied >= self.interval:
            track(self.flat, self.online, 1.0)
            self.copied = updates

    def state_dict(self) -> State:
        return {"values": self.flat.values.clone(), "copied": self.copied}

    def load_state_dict(self, state: State) -> None:
        self.flat.values.copy_(torch.as_tensor(state["values"]))
        self.copied = int(state["copied"])


class RewardScale:
    """Rewards minus their running mean, over their running standard deviation; off, it leaves them alone."""

    def __init__(self, on: bool) -> None:
        self.on, self.mean, self.square, self.count = on, 0.0, 1.0, 1e-4

    def __call__(self, reward: Tensor, mask: Tensor) -> Tensor:
        """Standardised rewards; the batch's played steps are learned from first."""
        if not self.on:
            return reward
        seen = float(mask.sum())
        mean = float((reward * mask).sum()) / seen
        square = float((reward.square() * mask).sum()) / seen
        share = seen / (self.count + seen)
        self.mean += (mean - self.mean) * share
        self.square += (square - self.square) * share
        self.count += seen
        spread = max(self.square - self.mean**2, 1e-8) ** 0.5
        return reward.sub(self.mean).div(spread + 1e-5)

    def state_dict(self) -> State:
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def load_state_dict(self, state: State) -> None:
        self.mean, self.square, self.count = state["mean"], state["square"], state["count"]
