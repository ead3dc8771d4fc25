"""Models of the other agents: what they do next, or where they want to go."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

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
    ratio = log_variance - other_log_variance
    apart = (mean - other_mean).square() * torch.exp(-other_log_variance)
    return 0.5 * (ratio.exp() + apart - 1 - ratio).sum(-1)


class Prior(nn.Module):
    """p_psi(g | s): a VAE of states, trained first and then frozen; its decoder shows what a subgoal means."""

    def __init__(self, state: int, hidden: int, size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.encode = Gaussian(state, hidden, size, generator=generator)
        self.decode = MLP(size, (hidden,), state, generator=generator)

    def loss(self, state: Tensor, noise: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction (mean square) and KL to the standard normal, over rows of non-zero weight."""
        mean, log_variance = self.encode(state)
        subgoal = mean + noise * torch.exp(0.5 * log_variance)
        error = (self.decode(subgoal) - state).square().mean(-1)
        kl = divergence(mean, log_variance, torch.zeros_like(mean), torch.zeros_like(mean))
        return (error * weight).sum() / weight.sum(), (kl * weight).sum() / weight.sum()


def improve_prior(
    weights: Weights, prior: Prior, state: Tensor, mask: Tensor, normal: Normal, kl_weight: float
) -> dict[str, Tensor]:
    """One step of the VAE on states [T, R, s] of played steps."""
    error, kl = prior.loss(state, normal(*state.shape[:-1], prior.decode.inputs), mask)
    weights.zero_grad()
    torch.autograd.backward(error + kl_weight * kl)
    norm = weights.descend()
    return {"prior_reconstruction": error.detach(), "prior_kl": kl.detach(), "prior_grad_norm": norm}


class SubgoalModel(nn.Module):
    """The CVAE: q_phi(g | history, s) infers the subgoal, p_theta(s | g, history) explains the state by it."""

    def __init__(
        self, obs: int, state: int, *, history: int, hidden: int, size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.size = size
        self.history = Recurrent(obs, history, history, generator=generator)
        self.infer = Gaussian(history + state, hidden, size, generator=generator)
        self.explain = MLP(size + history, (hidden,), state, generator=generator)

    def forward(self, x: Tensor, memory: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x [R, obs], memory [R, h], state [R, s] -> mean, log variance, history and the next memory."""
        history, memory = (out.squeeze(0) for out in self.history(x.unsqueeze(0), memory.unsqueeze(0)))
        mean, log_variance = self.infer(torch.cat([history, state], -1))
        return mean, log_variance, history, memory


class ActionModel(nn.Module):
    """Naive agent modelling: an embedding of the history from which the others' actions are predicted."""

    def __init__(
        self, obs: int, others: int, actions: int, *, history: int, size: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.size, self.others, self.actions = size, others, actions
        self.history = Recurrent(obs, history, size, generator=generator)
        self.predict = MLP(size, (history,), others * actions, generator=generator)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """x [R, obs], memory [R, h] -> the embedding [R, size] and the next memory."""
        embedding, memory = (out.squeeze(0) for out in self.history(x.unsqueeze(0), memory.unsqueeze(0)))
        return torch.tanh(embedding), memory

    def logits(self, embedding: Tensor) -> Tensor:
        """Scores of the others' next actions, [R, others, actions]."""
        return torch.reshape(self.predict(embedding), (*embedding.shape[:-1], self.others, self.actions))
