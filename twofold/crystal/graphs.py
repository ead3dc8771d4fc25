"""Graph networks in plain tensors: CGCNN (Xie and Grossman 2018) and one whose vectors turn with the crystal."""

from __future__ import annotations

from typing import Literal

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.base.setting import setting, settings
from twofold.core.protocols import Policy
from twofold.crystal.exploring import ExploringPolicy, Mode
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.config import TD3Config
from twofold.learners.nets import Nets
from twofold.settings.registry import networks


@settings
class GraphNetConfig:
    """A graph actor and twin graph critics, and how the actor explores."""

    kind: Literal["equivariant", "cgcnn"] = setting(
        "equivariant: vectors turn with the crystal; cgcnn: Xie and Grossman 2018, not equivariant",
        default="equivariant",
    )
    width: int = setting("channels per atom", default=32, ge=1)
    layers: int = setting("rounds of messages", default=2, ge=1)
    basis: int = setting("radial functions between 0 and r_max", default=10, ge=1)
    r_max: float = setting("reach of a bond", default=5.0, gt=0, unit="Angstrom")
    expl_mode: Mode = setting(
        "action: noise on the displacements; state: the actor sees turned and scaled forces, so its symmetry is kept",
        default="action",
    )
    noise_level: float = setting(
        "noise of one greedy exploration where nothing moves, in units of the largest move", default=1.0, ge=0
    )


class Linear(nn.Module):
    """y = x W + b, initialised from the given generator alone."""

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator, bias: bool = True) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


def picked(values: Tensor, index: Tensor) -> Tensor:
    """The neighbours' values: [B, A, ...] at index [B, A, K] -> [B, A, K, ...]."""
    batch = torch.arange(len(values), device=values.device)[:, None, None]
    return values[batch, index.clamp(min=0)]


def radial(distance: Tensor, basis: int, r_max: float) -> Tensor:
    """Gaussians on a grid times a smooth cutoff: [...] -> [..., basis]."""
    centres = torch.linspace(0.5, r_max, basis, dtype=distance.dtype, device=distance.device)
    width = r_max / basis
    cut = 0.5 * (torch.cos(torch.pi * (distance / r_max).clamp(max=1.0)) + 1)
    return torch.exp(-(((distance[..., None] - centres) / width) ** 2)) * cut[..., None]


def log_norm(vectors: Tensor) -> Tensor:
    """log10 of the lengths, bounded: forces span four decades."""
    return torch.log10((vectors * vectors).sum(dim=-1).clamp(min=1e-8)) / 2


def paired(obs: dict[str, Tensor], basis: int, r_max: float) -> Tensor:
    """What all edges between two atoms say together [B, A, A, 4, basis + 1].

    Filters are linear in the radial functions, so the many images of a neighbour can be added up before any layer:
    the sums of (1, direction) times (radial functions, 1). Small cells have far fewer pairs than edges.
    """
    index, edge = obs["neighbour"], obs["vector"]
    distance = torch.sqrt((edge * edge).sum(dim=-1).clamp(min=1e-6))
    one = torch.ones_like(distance)[..., None]
    turning = torch.cat([one, edge / distance[..., None]], dim=-1)
    waves = torch.cat([radial(distance, basis, r_max), one], dim=-1)
    atoms = torch.arange(index.shape[1], device=index.device)
    source = (index[..., None] == atoms).to(edge.dtype)  # [B, A, K, A]; an absent neighbour (-1) is nobody's
    spread = (turning[..., None] * waves[..., None, :]).flatten(-2)  # [B, A, K, 4 (basis + 1)]
    summed = source.transpose(-1, -2) @ spread
    return summed.reshape(*summed.shape[:-1], 4, basis + 1)


class Equivariant(nn.Module):
    """Scalars and vectors per atom exchanged between pairs of atoms; vectors out turn with the crystal."""

    def __init__(self, cfg: GraphNetConfig, vectors: int, generator: torch.Generator) -> None:
        super().__init__()
        self.cfg, width = cfg, cfg.width
        self.embed = Linear(12 + vectors, width, generator)
        self.lift = Linear(vectors, width, generator, bias=False)
        self.messages = nn.ModuleList(Linear(width, 3 * width, generator) for _ in range(cfg.layers))
        self.filters = nn.ModuleList(
            Linear(cfg.basis + 1, 3 * width, generator, bias=False) for _ in range(cfg.layers)
        )
        self.mixes = nn.ModuleList(Linear(width, 2 * width, generator, bias=False) for _ in range(cfg.layers))
        self.updates = nn.ModuleList(Linear(2 * width, 3 * width, generator) for _ in range(cfg.layers))

    def forward(self, obs: dict[str, Tensor], vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Scalars [B, A, C] and vectors [B, A, 3, C] from input vectors [B, A, 3, V]."""
        mask = obs["mask"][..., None]
        pairs = paired(obs, self.cfg.basis, self.cfg.r_max)
        sizes = log_norm(vectors.transpose(-1, -2))
        scalar = functional.silu(self.embed(torch.cat([obs["element"], sizes], -1)))
        vector = self.lift(vectors)
        for layer in range(self.cfg.layers):
            scalar, vector = self._heard(layer, pairs, scalar, vector)
            scalar, vector = self._updated(layer, scalar, vector)
        return scalar * mask, vector * mask[..., None]

    def _heard(self, layer: int, pairs: Tensor, scalar: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Messages of all neighbours: scalars, scalars that point along the bond, and vectors carried over."""
        own, along, carried = self.messages[layer](scalar).chunk(3, dim=-1)  # [B, A, C] of the sender
        weight = self.filters[layer].get_parameter("weight")
        to_own, to_along, to_carried = weight.chunk(3)
        scalar = scalar + ((pairs[..., 0, :] @ to_own.T) * own[:, None]).sum(dim=2) / 10
        pointing = ((pairs[..., 1:, :] @ to_along.T) * along[:, None, :, None]).sum(dim=2)
        brought = (pairs[..., 0, :] @ to_carried.T) * carried[:, None]  # [B, A, A, C]
        kept = (brought[..., None, :] * vector[:, None]).sum(dim=2)
        return scalar, vector + (pointing + kept) / 10

    def _updated(self, layer: int, scalar: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Each atom's own nonlinearity: vectors gated by scalars, scalars moved by inner products."""
        left, right = self.mixes[layer](vector).chunk(2, dim=-1)
        inner = (left * right).sum(dim=2)
        size = torch.sqrt((right * right).sum(dim=2) + 1e-6)
        seen = torch.cat([scalar, torch.log1p(size)], dim=-1)
        gate, bend, shift = self.updates[layer](seen).chunk(3, dim=-1)
        scalar = scalar + functional.silu(shift) + torch.tanh(bend) * inner / (1 + inner.abs())
        return scalar, vector + torch.tanh(gate)[:, :, None, :] * left


class Convolution(nn.Module):
    """CGCNN: each atom adds gated messages of its neighbours (Xie and Grossman 2018)."""

    def __init__(self, cfg: GraphNetConfig, vectors: int, generator: torch.Generator) -> None:
        super().__init__()
        self.cfg, width = cfg, cfg.width
        self.embed = Linear(12 + 4 * vectors, width, generator)
        self.gates = nn.ModuleList(
            Linear(2 * width + cfg.basis + 3, 2 * width, generator) for _ in range(cfg.layers)
        )

    def forward(self, obs: dict[str, Tensor], vectors: Tensor) -> tuple[Tensor, None]:
        """Scalars [B, A, C] from input vectors [B, A, 3, V], whose raw components are features."""
        index, edge = obs["neighbour"], obs["vector"]
        distance = torch.sqrt((edge * edge).sum(dim=-1).clamp(min=1e-6))
        waves = radial(distance, self.cfg.basis, self.cfg.r_max)
        real = (index >= 0)[..., None]
        swapped = vectors.transpose(-1, -2)
        seen = torch.cat([obs["element"], swapped.flatten(-2), log_norm(swapped)], dim=-1)
        atom = functional.silu(self.embed(seen))
        for gate in self.gates:
            both = torch.cat([atom[:, :, None].expand(*index.shape, -1), picked(atom, index)], dim=-1)
            filtered, core = gate(torch.cat([both, waves, edge / distance[..., None]], dim=-1)).chunk(
                2, dim=-1
            )
            message = torch.sigmoid(filtered) * functional.softplus(core) * real
            atom = functional.softplus(atom + message.sum(dim=2) / real.sum(dim=2).clamp(min=1))
        return atom * obs["mask"][..., None], None


def _inputs(obs: dict[str, Tensor], action: Tensor | None = None) -> Tensor:
    """The vectors that an atom has [B, A, 3, V]: forces, the force before, the last move, and perhaps the action."""
    parts = [obs["force"], obs["force_before"], 10 * obs["moved"]]
    if action is not None:
        parts.append(action.reshape(*obs["force"].shape))
    return torch.stack(parts, dim=-1) * obs["mask"][..., None, None]


class GraphActor(nn.Module):
    """A displacement for every atom, none longer than 1, without net translation."""

    def __init__(self, cfg: GraphNetConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.body = BODIES[cfg.kind](cfg, 3, generator)
        self.head = Linear(cfg.width, cfg.width, generator)
        self.out = Linear(cfg.width, 1 if cfg.kind == "equivariant" else 3, generator, bias=False)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        """[B, 3 A] in [-1, 1]."""
        scalar, vector = self.body(obs, _inputs(obs))
        gate = self.head(scalar)
        raw = (
            self.out(functional.silu(gate))
            if vector is None
            else self.out(vector * gate[:, :, None, :])[..., 0]
        )
        mask = obs["mask"][..., None]
        raw = (raw - (raw * mask).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True)) * mask
        size = torch.sqrt((raw * raw).sum(dim=-1, keepdim=True) + 1e-12)
        bounded: Tensor = raw * torch.tanh(size) / size
        return bounded.flatten(1)


class GraphCritic(nn.Module):
    """Two graph critics; a value is the mean over atoms, so it does not grow with the cell."""

    def __init__(self, cfg: GraphNetConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.bodies = nn.ModuleList(BODIES[cfg.kind](cfg, 4, generator) for _ in range(2))
        self.heads = nn.ModuleList(Linear(cfg.width, cfg.width, generator) for _ in range(2))
        self.outs = nn.ModuleList(Linear(cfg.width, 1, generator) for _ in range(2))

    def _value(self, which: int, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        scalar, _ = self.bodies[which](obs, _inputs(obs, action))
        each = self.outs[which](functional.silu(self.heads[which](scalar)))[..., 0] * obs["mask"]
        mean: Tensor = each.sum(dim=1) / obs["mask"].sum(dim=1)
        return mean

    def first(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        """The first critic alone, [B]."""
        return self._value(0, obs, action)

    def forward(self, obs: dict[str, Tensor], action: Tensor) -> Tensor:
        """[2, B]."""
        return torch.stack([self._value(which, obs, action) for which in range(2)])


BODIES: dict[str, type[Equivariant] | type[Convolution]] = {"equivariant": Equivariant, "cgcnn": Convolution}


@networks.register("crystal/graph", config=GraphNetConfig)
class GraphNetworks(ActorCritic):
    """Graph actor and twin graph critics for padded crystals."""

    def __init__(
        self,
        cfg: GraphNetConfig,
        observation_space: AnySpace,
        action_space: AnySpace,
        generator: torch.Generator,
    ) -> None:
        if not isinstance(observation_space, gym.spaces.Dict) or "neighbour" not in observation_space.spaces:
            raise ConfigError("the networks 'crystal/graph' need the world 'crystal/displacements'")
        self.cfg, self.action_space, self.generator = cfg, action_space, generator

    def actor(self) -> nn.Module:
        return GraphActor(self.cfg, self.generator)

    def critic(self) -> nn.Module:
        return GraphCritic(self.cfg, self.generator)

    def policy(
        self, nets: Nets, cfg: TD3Config, *, explore: bool, rows: int, rng: np.random.Generator
    ) -> Policy:
        if not explore:
            return super().policy(nets, cfg, explore=False, rows=rows, rng=rng)
        return ExploringPolicy(
            nets,
            cfg,
            actions=self.action_space.shape or (),
            mode=self.cfg.expl_mode,
            noise_level=self.cfg.noise_level,
            rows=rows,
            rng=rng,
        )
