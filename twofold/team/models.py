"""Models of the other agents: what they do next, or where they want to go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.nets import MLP
from twofold.nets.recurrent import Recurrent
from twofold.team.optimise import Weights


class Normal:
    """Standard normal numbers of any shape from a generator of the run."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, *shape: int) -> Tensor:
        return torch.from_numpy(self.rng.standard_normal(shape, np.float32))


class Gaussian(nn.Module):
    """An encoder to a normal distribution: [..., inputs] -> mean and log variance, each [..., size]."""

    def __init__(self, inputs: int, hidden: int, size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.net = MLP(inputs, (hidden,), 2 * size, generator=generator)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.net(x).chunk(2, -1)
        # A bounded log variance keeps exp() finite whatever an untrained encoder says.
        return mean, log_variance.clamp(-8.0, 4.0)


def divergence(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """KL between diagonal normal distributions, summed over the last axis."""
    return divergences(mean, log_variance, other_mean, other_log_variance).sum(-1)


def divergences(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """KL between diagonal normal distributions, column by column."""
    ratio = log_variance - other_log_variance
    apart = (mean - other_mean).square() * torch.exp(-other_log_variance)
    return 0.5 * (ratio.exp() + apart - 1 - ratio)


def modelled(state: int, columns: tuple[int, ...]) -> int:
    """How many columns of a state of this width the models see."""
    if any(not 0 <= column < state for column in columns):
        raise ConfigError(f"learner.subgoal_columns: the state has the columns 0 to {state - 1}")
    return len(columns) or state


def about(state: Tensor, columns: tuple[int, ...]) -> Tensor:
    """The columns of states [..., s] that the models see."""
    return state[..., list(columns)] if columns else state


class Prior(nn.Module):
    """p_psi(g | s): a VAE of states, trained first and then frozen; its decoder shows what a subgoal means."""

    def __init__(self, state: int, hidden: int, size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.size = size
        self.encode = Gaussian(state, hidden, size, generator=generator)
        self.decode = MLP(size, (hidden,), state, generator=generator)
        # Parameters, so that they are kept and loaded with the weights; no gradient moves them.
        self.centre = nn.Parameter(torch.zeros(state), requires_grad=False)
        self.spread = nn.Parameter(torch.ones(state), requires_grad=False)
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def standardised(self, state: Tensor) -> Tensor:
        """States as the models see them."""
        return (state - self.centre) / self.spread

    def original(self, seen: Tensor) -> Tensor:
        """States as they were before `standardised`."""
        return seen * self.spread + self.centre

    @torch.no_grad()
    def measure(self, state: Tensor, mask: Tensor) -> None:
        """Move centre and spread by the played rows of a batch [T, R, s]."""
        rows = state[mask > 0]
        share = len(rows) / (float(self.seen) + len(rows))
        centre = torch.lerp(self.centre, rows.mean(0), share)
        square = torch.lerp(self.spread.square() + self.centre.square(), rows.square().mean(0), share)
        if float(self.seen) == 0:
            square = rows.square().mean(0)
        self.centre.copy_(centre)
        # A column that never moves must not be blown up.
        spread = (square - centre.square()).clamp(min=0).sqrt()
        self.spread.copy_(torch.where(spread > 1e-3, spread, torch.ones_like(spread)))
        self.seen.add_(len(rows))

    def loss(self, state: Tensor, noise: Tensor, weight: Tensor) -> PriorLoss:
        """Reconstruction (mean square) and KL to the standard normal, over rows of non-zero weight."""
        mean, log_variance = self.encode(state)
        subgoal = mean + noise * torch.exp(0.5 * log_variance)
        error = (self.decode(subgoal) - state).square().mean(-1)
        by_column = divergences(mean, log_variance, torch.zeros_like(mean), torch.zeros_like(mean))
        total = weight.sum()
        kl = (by_column * weight.unsqueeze(-1)).flatten(0, -2).sum(0) / total
        middle = (state * weight.unsqueeze(-1)).flatten(0, -2).sum(0) / total
        variance = ((state - middle).square().mean(-1) * weight).sum() / total
        return PriorLoss((error * weight).sum() / total, kl, variance.detach())


class PriorLoss(NamedTuple):
    """What a VAE of states is trained on, and what its error is to be held against."""

    error: Tensor
    kl: Tensor  # of every column of the subgoal
    variance: Tensor  # of the states


ACTIVE = 0.05  # nats of KL above which a column of the subgoal says something


def improve_prior(
    weights: Weights, prior: Prior, state: Tensor, mask: Tensor, normal: Normal, kl_weight: float
) -> dict[str, Tensor]:
    """One step of the VAE on states [T, R, s] of played steps."""
    error, kl, variance = prior.loss(state, normal(*state.shape[:-1], prior.size), mask)
    weights.zero_grad()
    torch.autograd.backward(error + kl_weight * kl.sum())
    norm = weights.descend()
    kl = kl.detach()
    return {
        "prior_reconstruction": error.detach(),
        "prior_kl": kl.sum(),
        "prior_grad_norm": norm,
        "prior_explains": 1 - error.detach() / variance.clamp(min=1e-8),
        "prior_active": (kl > ACTIVE).sum(),
    }


class SubgoalModel(nn.Module):
    """The CVAE: q_phi(g | history, s) infers the subgoal, p_theta(s | g, history) explains the state by it."""

    def __init__(
        self,
        obs: int,
        seen: int,
        state: int,
        *,
        history: int,
        hidden: int,
        size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.size = size
        self.history = Recurrent(obs, history, history, generator=generator)
        self.infer = Gaussian(history + seen, hidden, size, generator=generator)
        self.explain = MLP(size + history, (hidden,), state, generator=generator)

    def remember(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """x [R, obs], memory [R, h] -> the history up to now and the next memory, each [R, h]."""
        history, memory = (out.squeeze(0) for out in self.history(x.unsqueeze(0), memory.unsqueeze(0)))
        return history, memory

    def before(self, memory: Tensor) -> Tensor:
        """The history up to the step before, [R, h]."""
        return self.history.out(memory.unsqueeze(0)).squeeze(0)

    def forward(self, history: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """history [..., h], what is seen now [..., s] -> mean and log variance of the subgoal."""
        mean, log_variance = self.infer(torch.cat([history, seen], -1))
        return mean, log_variance


class Actions(nn.Module):
    """Predicts what each of the others does from an embedding: [..., size] -> [..., others, actions]."""

    def __init__(
        self, size: int, hidden: int, others: int, actions: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.others, self.actions = others, actions
        self.net = MLP(size, (hidden,), others * actions, generator=generator)

    def forward(self, embedding: Tensor) -> Tensor:
        return torch.reshape(self.net(embedding), (*embedding.shape[:-1], self.others, self.actions))


def action_loss(logits: Tensor, others: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Cross entropy and accuracy of predictions [T, R, others, n] of actions [T, R, others], over played steps."""
    error = nn.functional.cross_entropy(logits.flatten(0, 2), others.flatten(), reduction="none")
    weight = mask.unsqueeze(-1).expand_as(others)
    right = (logits.detach().argmax(-1) == others).float()
    return (error.view_as(others) * weight).sum() / weight.sum(), (right * weight).sum() / weight.sum()


class ActionModel(nn.Module):
    """Naive agent modelling: an embedding of the history from which the others' actions are predicted."""

    def __init__(
        self, obs: int, others: int, actions: int, *, history: int, size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.history = Recurrent(obs, history, size, generator=generator)
        self.predict = Actions(size, history, others, actions, generator=generator)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """x [R, obs], memory [R, h] -> the embedding [R, size] and the next memory."""
        embedding, memory = (out.squeeze(0) for out in self.history(x.unsqueeze(0), memory.unsqueeze(0)))
        return torch.tanh(embedding), memory
