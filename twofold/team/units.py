"""Agents that read like units by the same weights, and value an action by the unit that it is aimed at.

What is learnt of one enemy holds for all: the order in which an observation lists them says nothing (deep sets, Zaheer
et al. 2017; for the units of SMAC, Hao et al. 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from twofold.base.errors import ConfigError
from twofold.nets.recurrent import Recurrent, Unroll
from twofold.team.worlds.space import TeamShape, Units


@dataclass(frozen=True)
class Layout:
    """Which columns of an agent's input belong to which unit, and which to the agent itself."""

    units: tuple[list[list[int]], ...]  # of every group: the columns of each of its units
    own: list[int]
    aimed: int  # the group that the last actions are aimed at, one each


def layout_of(shape: TeamShape, inputs: int, last_action: int | None) -> Layout:
    """`last_action`: where its columns begin; a unit's own columns then tell whether it was aimed at."""
    aimed = [i for i, group in enumerate(shape.units) if group.action >= 0]
    if len(aimed) != 1:
        raise ConfigError(
            "networks.unit_features needs a world that lists the units that an agent sees, and actions that are aimed "
            "at one kind of them: skirmish without healers; leave it at 0"
        )

    def columns(group: Units, unit: int) -> list[int]:
        first = group.first + unit * group.columns
        told = [] if group.action < 0 or last_action is None else [last_action + group.action + unit]
        return [*range(first, first + group.columns), *told]

    units = tuple([columns(group, unit) for unit in range(group.count)] for group in shape.units)
    taken = {column for group in units for unit in group for column in unit}
    return Layout(units, [column for column in range(inputs) if column not in taken], aimed[0])


class UnitAgent(Recurrent):
    """Units -> relu -> their sum, beside the own columns -> `Recurrent`, which says what it seeks in a target."""

    def __init__(
        self, layout: Layout, width: int, actions: int, *, features: int, generator: torch.Generator
    ) -> None:
        groups, own = layout.units, len(layout.own)
        plain = actions - len(groups[layout.aimed])
        super().__init__(own + features * len(groups), width, plain + 1 + features, generator=generator)
        self.columns = own + sum(len(unit) for group in groups for unit in group)
        self.aimed, self.plain, self.features = layout.aimed, plain, features
        self.readers = nn.ParameterList(_matrix(len(group[0]), features, generator) for group in groups)
        self.places = [torch.tensor(group) for group in groups]
        self.own = torch.tensor(layout.own)

    def room(self, steps: int, rows: int) -> UnitUnroll:
        return UnitUnroll(self, steps, rows)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [..., columns] as those of the recurrent part, and the features of the units aimed at."""
        features = [self._read(x, group) for group in range(len(self.places))]
        own = x.index_select(-1, self.own.to(x.device))
        return torch.cat([own, *(each.sum(-2) for each in features)], -1), features[self.aimed]

    def _read(self, x: Tensor, group: int) -> Tensor:
        """[..., units, features]: nought for a unit that is not seen, since its columns are all nought."""
        place, reader = self.places[group].to(x.device), self.readers[group]
        columns = x.index_select(-1, place.flatten()).view(*x.shape[:-1], *place.shape)
        seen = columns.any(-1, keepdim=True).to(x.dtype)  # the bias is for those alone
        rows = torch.cat([columns, seen], -1).view(-1, len(reader))
        return torch.relu_(rows @ reader).view(*columns.shape[:-1], self.features)

    def values(self, out: Tensor, features: Tensor) -> Tensor:
        """What the recurrent part gave, and features [..., units, features], as values of all actions."""
        sought = out[..., self.plain + 1 :].unsqueeze(-2) / math.sqrt(self.features)
        aimed = (features * sought).sum(-1) + out[..., self.plain : self.plain + 1]
        return torch.cat([out[..., : self.plain], aimed], -1)

    def forward(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """One step, differentiable: the reference for `UnitUnroll`, and what acts."""
        inner, features = self.read(x)
        out, hidden = super().forward(inner, hidden)
        return self.values(out, features), hidden


def _matrix(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    bound = 1 / math.sqrt(rows)
    return nn.Parameter(torch.empty(rows + 1, columns).uniform_(-bound, bound, generator=generator))


class UnitUnroll(Unroll):
    """The way through time by hand, what comes before and after it by autograd, of the live rows alone."""

    def __init__(self, net: UnitAgent, steps: int, rows: int) -> None:
        super().__init__(net, steps, rows)
        self._inputs = net.enter.new_zeros(1, steps, rows, net.columns)

    @property
    def x(self) -> Tensor:
        return self._inputs

    def forward(self, net: Recurrent, steps: int) -> Tensor:
        """Values for the first `steps` steps of `x`, [1, steps, R, actions]; nought behind the live rows."""
        assert isinstance(net, UnitAgent)
        self._at = at = self._live_rows(steps)
        self._before = net.read(self._inputs[0].flatten(0, 1).index_select(0, at))
        inner, features = (part.detach() for part in self._before)
        self._flat(self._x, 0, steps * self.rows)[:, :-1].index_copy_(0, at, inner)
        out = super().forward(net, steps)[0].flatten(0, 1).index_select(0, at)
        self._leaves = out.requires_grad_(), features.requires_grad_()
        self._after = net.values(*self._leaves)
        return self._spread(self._after.detach(), steps)

    @torch.no_grad()
    def backward(self, net: Recurrent, d_q: Tensor, d_hidden: Tensor | None = None) -> None:
        steps, d_values = d_q.shape[1], d_q[0].flatten(0, 1).index_select(0, self._at)
        d_out, d_features = torch.autograd.grad(self._after, self._leaves, d_values)
        super().backward(net, self._spread(d_out, steps), d_hidden)
        d_entered = self._flat(self._d_entered, 0, steps * self.rows).index_select(0, self._at)
        d_inner = d_entered @ net.enter[0, :-1].t()
        torch.autograd.backward(self._before, (d_inner, d_features))

    def _live_rows(self, steps: int) -> Tensor:
        """Their numbers among all rows of all steps."""
        live = torch.from_numpy(self.live[:steps]).unsqueeze(1)
        at = (torch.arange(self.rows) < live).flatten().nonzero().squeeze(1)
        return at.to(self._inputs.device)

    def _spread(self, values: Tensor, steps: int) -> Tensor:
        """Values of the live rows [N, n] at their places, [1, steps, R, n]."""
        room = values.new_zeros(steps * self.rows, values.shape[-1])
        room.index_copy_(0, self._at, values)
        return room.view(1, steps, self.rows, -1)
