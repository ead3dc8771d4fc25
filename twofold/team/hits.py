"""Which states are subgoals, and whether inferred ones are reached, beside what chance would reach."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from twofold.core.protocols import State

ALIKE = 1e-4  # embedded states nearer than this are the same


class HitRatio:
    """How often the state of the episode nearest to the inferred subgoal is one of the next H; by chance, and here.

    Where only some states may be subgoals, the nearest of those is looked for, in episodes that have any.
    """

    def __init__(self, horizon: int) -> None:
        self.horizon, self._ratio, self._chance = horizon, math.nan, math.nan
        self._seen: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def see(self, inferred: Tensor, embedded: Tensor, mask: Tensor, may: Tensor) -> None:
        """Subgoals and embedded states [T + 1, R, g], played steps [T, R], states that may be subgoals [T + 1, R]."""
        self._seen = (inferred, embedded, mask, may)

    def ratio(self) -> float:
        """Computed when it is asked for: an update need not wait for it."""
        self._measure()
        return self._ratio

    def chance(self) -> float:
        """What a subgoal nearest to any state of its episode, all alike, would have reached."""
        self._measure()
        return self._chance

    def _measure(self) -> None:
        if self._seen is None:
            return
        (inferred, embedded, mask, may), self._seen = self._seen, None
        there = (exists(mask) * may).t()  # [R, T + 1]
        weight = mask.t() * (there.sum(-1, keepdim=True) > 0)
        total, states = weight.sum().clamp(min=1), embedded.transpose(0, 1)
        ahead = torch.arange(len(mask) + 1) - torch.arange(len(mask)).unsqueeze(-1)  # [T, T + 1]
        near = ((ahead >= 1) & (ahead <= self.horizon)).float() * there.unsqueeze(1)  # [R, T, T + 1]
        # A state that comes again is reached as well: which of its times was nearest means nothing.
        alike = (torch.cdist(states, states) < ALIKE).float()
        reached = ((near @ alike) > 0).float() * there.unsqueeze(1)
        apart = torch.cdist(inferred[:-1].transpose(0, 1), states)  # [R, T, T + 1]
        nearest = apart.masked_fill(there.unsqueeze(1) == 0, torch.inf).argmin(-1, keepdim=True)
        self._ratio = float((reached.gather(-1, nearest).squeeze(-1) * weight).sum() / total)
        by_chance = reached.sum(-1) / there.sum(-1, keepdim=True).clamp(min=1)
        self._chance = float((by_chance * weight).sum() / total)

    def state_dict(self) -> State:
        found = {"ratio": self.ratio(), "chance": self.chance()}
        return {name: None if math.isnan(value) else value for name, value in found.items()}

    def load_state_dict(self, state: State) -> None:
        found = {name: math.nan if value is None else float(value) for name, value in state.items()}
        self._ratio, self._chance, self._seen = found["ratio"], found["chance"], None


def exists(mask: Tensor) -> Tensor:
    """State t exists if step t - 1 was played: [T, R] -> [T + 1, R]."""
    return torch.cat([torch.ones_like(mask[:1]), mask])


def first_ahead(there: Tensor, horizon: int) -> Tensor:
    """Steps [T, R] to the first of the next states [T + 1, R] in which something is there; 0: none is near."""
    steps = torch.zeros(len(there) - 1, *there.shape[1:], dtype=torch.int64)
    found = torch.zeros_like(steps[0])
    for t in reversed(range(len(steps))):
        found = torch.where(there[t + 1], 1, torch.where(found > 0, found + 1, 0))
        steps[t] = found
    return torch.where(steps > horizon, 0, steps)


def ratio(signal: Tensor, noise: Tensor, mask: Tensor) -> Tensor:
    """How much a subgoal's columns move with what was seen, against their noise; over played steps."""
    played = mask > 0
    return signal[played].std(0).mean() / noise[played].std(0).mean().clamp(min=1e-8)


def explained(guess: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Share of the truth's variance that a guess [T, R, g] explains over played steps; below 0: worse than its mean."""
    guessed, told = guess[mask > 0], truth[mask > 0]
    return 1 - (guessed - told).square().sum() / (told - told.mean(0)).square().sum().clamp(min=1e-8)
