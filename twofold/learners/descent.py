"""What follows the gradients of an update: the optimiser's step, the slow copies, a look for what is not finite."""

from __future__ import annotations

from typing import Protocol

from twofold.learners.nets import Nets
from twofold.nets.flat import Adam


class Descends(Protocol):
    """The part of an engine that moves parameters."""

    def descend(self, optimiser: Adam, grad_clip: float | None) -> None:
        """One step of the optimiser, after its gradients are scaled down to a norm of `grad_clip`."""
        ...

    def track(self, tau: float, average: float) -> None:
        """Move the slow copies of the networks, as `Nets.track` does."""
        ...

    def gradient_sum(self) -> float:
        """Of both networks: one number that keeps every NaN and infinity in their gradients."""
        ...


class TorchDescent:
    """By torch's operations, for any networks."""

    nets: Nets

    def descend(self, optimiser: Adam, grad_clip: float | None) -> None:
        if grad_clip is not None:
            optimiser.flat.clip_(grad_clip)
        optimiser.step()

    def track(self, tau: float, average: float) -> None:
        self.nets.track(tau, average)

    def gradient_sum(self) -> float:
        return float(self.nets.critic.grads.sum() + self.nets.actor.grads.sum())
