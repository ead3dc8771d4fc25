"""Mixers: from the chosen action values of all agents to the value of the joint action."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from twofold.nets import MLP
from twofold.nets.mlp import Affine

MixerName = Literal["none", "vdn", "qmix", "qtran"]


class Sum(nn.Module):
    """VDN: the joint value is the sum (Sunehag et al., 2018). It has no weights."""

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """values [..., A], state [..., s] -> [...]."""
        return values.sum(-1)


class Monotonic(nn.Module):
    """QMIX: a two-layer network whose non-negative weights come from the state (Rashid et al., 2018)."""

    def __init__(
        self, agents: int, state: int, *, embed: int, hyper: int, layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.agents, self.embed, self.layers = agents, embed, layers
        # One product makes all first layers; their parts are split below.
        self._parts = [hyper, hyper, embed, embed] if layers == 2 else [agents * embed, embed, embed, embed]
        self.first = Affine(state, sum(self._parts), generator=generator)
        if layers == 2:
            self.second_in = Affine(hyper, agents * embed, generator=generator)
            self.second_out = Affine(hyper, embed, generator=generator)
        self.value = Affine(embed, 1, generator=generator)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """values [..., A], state [..., s] -> [...]; never falls when a value rises."""
        shape, rows = values.shape[:-1], state.reshape(-1, state.shape[-1])
        into, out, bias, before_value = self.first(rows).split(self._parts, -1)
        if self.layers == 2:
            into, out = self.second_in(torch.relu(into)), self.second_out(torch.relu(out))
        into = into.abs().view(-1, self.agents, self.embed)
        # One small product per row: a multiplication and a sum take half the time of bmm and its gradients.
        mixed = nn.functional.elu((values.reshape(-1, self.agents, 1) * into).sum(1) + bias)
        joint = (mixed * out.abs()).sum(-1) + self.value(torch.relu(before_value)).squeeze(-1)
        return torch.reshape(joint, shape)


class JointValue(nn.Module):
    """QTRAN: a joint value of state, agents' memories and joint action, and a state value (Son et al., 2019)."""

    def __init__(
        self, agents: int, state: int, *, memory: int, actions: int, embed: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        inner = memory + actions
        self.actions = actions
        self.encode = MLP(inner, (inner,), inner, generator=generator)
        self.joint = MLP(state + inner, (embed, embed), 1, generator=generator)
        self.state_value = MLP(state, (embed, embed), 1, generator=generator)

    def forward(self, memory: Tensor, action: Tensor, state: Tensor) -> Tensor:
        """memory [..., A, h], action [..., A] (numbers), state [..., s] -> [...]."""
        chosen = nn.functional.one_hot(action, self.actions).to(memory.dtype)
        together = self.encode(torch.cat([memory, chosen], -1)).sum(-2)
        return torch.squeeze(self.joint(torch.cat([state, together], -1)), -1)

    def value(self, state: Tensor) -> Tensor:
        """V(s): what the sum of the agents' values may miss because each sees only a part, [...]."""
        return torch.squeeze(self.state_value(state), -1)
