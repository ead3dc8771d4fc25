"""State-action embeddings (SALE: Fujimoto et al. 2023): what comes next is learned first, then acted and judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from twofold.nets.acting import NumpyActor, NumpyTwin
from twofold.nets.mlp import MLP, Affine
from twofold.nets.numpy_mlp import Array
from twofold.nets.twin import Twin

SMALLEST = 1e-8  # no vector is divided by less than this


def avg_l1(x: Tensor) -> Tensor:
    """Vectors [..., n] with a mean absolute value of 1: embeddings can neither shrink nor grow."""
    return x / x.abs().mean(dim=-1, keepdim=True).clamp(min=SMALLEST)


@dataclass(frozen=True)
class Sizes:
    """Of all the networks of an agent with embeddings."""

    obs: int
    actions: int
    width: int  # of every hidden layer
    embedding: int  # of a state, and of a state with an action


class Encoder(nn.Module):
    """zs = AvgL1(f(s)), and zsa = g(a, zs), which learns to be the zs of the next state."""

    def __init__(self, sizes: Sizes, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        hidden, pair = (sizes.width, sizes.width), sizes.actions + sizes.embedding
        self.state = MLP(sizes.obs, hidden, sizes.embedding, activation=activation, generator=generator)
        self.action = MLP(pair, hidden, sizes.embedding, activation=activation, generator=generator)

    def zs(self, obs: Tensor) -> Tensor:
        """obs [B, o] -> [B, z]."""
        return avg_l1(self.state(obs))

    def zsa(self, zs: Tensor, action: Tensor) -> Tensor:
        """zs [B, z], action [B, a] -> [B, z]."""
        joined: Tensor = self.action(torch.cat([action, zs], dim=-1))
        return joined

    def loss(self, obs: Tensor, action: Tensor, following: Tensor) -> Tensor:
        """Mean squared difference between zsa and the zs of what followed, which is only looked at."""
        with torch.no_grad():
            wanted = self.zs(following)
        return functional.mse_loss(self.zsa(self.zs(obs), action), wanted)


class SaleActor(nn.Module):
    """pi([AvgL1(W s), zs]); the state encoder in it is a frozen copy, renewed with the targets."""

    def __init__(self, state: MLP, sizes: Sizes, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        self.state = state.requires_grad_(False)
        self.first = Affine(sizes.obs, sizes.width, generator=generator)
        self.body = MLP(
            sizes.width + sizes.embedding,
            (sizes.width, sizes.width),
            sizes.actions,
            activation=activation,
            output="tanh",
            generator=generator,
        )

    def forward(self, obs: Tensor) -> Tensor:
        """obs [B, o] -> action [B, a] in [-1, 1]."""
        action: Tensor = self.body(torch.cat([avg_l1(self.first(obs)), avg_l1(self.state(obs))], dim=-1))
        return action


class SaleCritic(nn.Module):
    """Q_k([AvgL1(W_k [a, s]), zsa, zs]); the encoders in it are frozen copies, renewed with the targets."""

    def __init__(
        self, encoder: Encoder, sizes: Sizes, activation: str, layer_norm: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.first_layer = Affine(sizes.obs + sizes.actions, sizes.width, generator=generator, copies=2)
        self.body = Twin(
            2 * sizes.embedding,
            sizes.width,
            (sizes.width, sizes.width),
            activation=activation,
            layer_norm=layer_norm,
            generator=generator,
        )

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """obs [B, o], action [B, a] -> values [2, B]."""
        zs = self.encoder.zs(obs)
        x = torch.cat([action, obs], dim=-1)
        own = avg_l1(self.first_layer(x.expand(2, *x.shape)))
        embedded = torch.cat([self.encoder.zsa(zs, action), zs], dim=-1)
        return self.body.values(torch.cat([own, embedded.expand(2, *embedded.shape)], dim=-1), slice(None))


class NumpySale:
    """A `SaleActor` computed by numpy on the memory of its weights."""

    def __init__(self, actor: SaleActor) -> None:
        self._state, self._body = NumpyActor(actor.state), NumpyActor(actor.body)
        self._first = actor.first.matrix.detach().numpy()

    def act(self, obs: Array) -> Array:
        """obs [N, o] -> a fresh array of actions [N, a]."""
        own = obs @ self._first[:-1] + self._first[-1]
        return self._body.act(np.concatenate([_avg_l1(own), _avg_l1(self._state.act(obs))], axis=1))


class NumpySaleCritic:
    """A `SaleCritic` computed by numpy on the memory of its weights."""

    def __init__(self, critic: SaleCritic) -> None:
        self._state, self._action = NumpyActor(critic.encoder.state), NumpyActor(critic.encoder.action)
        self._first = critic.first_layer.matrix.detach().numpy()
        self._body = NumpyTwin(critic.body)

    def values(self, obs: Array, action: Array) -> Array:
        """obs [N, o], action [N, a] -> [2, N]."""
        zs, x = _avg_l1(self._state.act(obs)), np.concatenate([action, obs], axis=1)
        embedded = np.concatenate([self._action.act(np.concatenate([action, zs], axis=1)), zs], axis=1)
        own = _avg_l1(x @ self._first[:, :-1] + self._first[:, -1:])
        both = np.broadcast_to(embedded, (2, *embedded.shape))
        return self._body.values(np.concatenate([own, both], axis=2))


def _avg_l1(x: Array) -> Array:
    normal: Array = x / np.maximum(np.abs(x).mean(axis=-1, keepdims=True), np.float32(SMALLEST))
    return normal
