"""Recurrent agents of a team: their network, and the policy that acts with it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, Obs, named
from twofold.core.protocols import State
from twofold.core.schedules import Schedule
from twofold.nets.recurrent import Recurrent
from twofold.settings.registry import networks
from twofold.team.units import UnitAgent, layout_of
from twofold.team.worlds.space import Space, TeamShape, shape_of


@settings
class AgentsConfig:
    """One network for all agents, or one for each."""

    hidden: int = setting(
        "width of the agents' memory", default=64, ge=1, aliases=("rnn_hidden_dim", "hidden_dim")
    )
    shared: bool = setting("false: every agent has weights of its own", default=True)
    obs_last_action: bool = setting("the agent's own last action is part of its input", default=True)
    obs_agent_id: bool = setting("the agent's number is part of its input", default=True)
    unit_features: int = setting(
        "features of every unit in sight, by the same weights for like units; 0: columns in their order",
        default=0,
        ge=0,
    )


@networks.register("team/agents", config=AgentsConfig)
class TeamNetworks:
    """Recurrent agents for worlds of this shape."""

    place = torch.device("cpu")  # where the learner computes

    def __init__(
        self,
        cfg: AgentsConfig,
        observation_space: Space,
        action_space: Space,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.shape, self.generator = cfg, shape_of(observation_space), generator
        self.copies = 1 if cfg.shared else self.shape.agents
        self.columns = (
            self.shape.obs + self.shape.actions * cfg.obs_last_action + self.shape.agents * cfg.obs_agent_id
        )

    def agent(self, *, extra: int = 0, blank: bool = False) -> Recurrent:
        """The agents' network; `extra` input columns come last, and count for nothing at first if `blank`."""
        if self.cfg.unit_features:
            return self._unit_agent(extra)
        inputs = self.columns + extra
        sizes = (inputs, self.cfg.hidden, self.shape.actions)
        made = Recurrent(*sizes, generator=self.generator, copies=self.copies)
        if blank:
            with torch.no_grad():  # the own columns start as large as without the extra ones
                made.enter.mul_(math.sqrt(inputs / self.columns))
                made.enter[:, self.columns : inputs] = 0
        return made

    def _unit_agent(self, extra: int) -> UnitAgent:
        cfg, shape = self.cfg, self.shape
        if extra or not cfg.shared:
            raise ConfigError(
                "networks.unit_features goes with networks.shared=true and without a model of others: "
                "leave it at 0 for OMG and its relatives"
            )
        layout = layout_of(shape, self.columns, shape.obs if cfg.obs_last_action else None)
        return UnitAgent(
            layout, cfg.hidden, shape.actions, features=cfg.unit_features, generator=self.generator
        )

    def fill(self, x: Tensor, obs: Tensor, last_action: Tensor) -> None:
        """Write inputs [A, ..., columns] from obs [A, ..., d] and the actions before [A, ...] (-1: none yet)."""
        at = self.shape.obs
        x[..., :at] = obs
        if self.cfg.obs_last_action:
            part = x[..., at : at + self.shape.actions]
            part.zero_()
            part.scatter_(
                -1, last_action.clamp(min=0).unsqueeze(-1), (last_action >= 0).to(x.dtype).unsqueeze(-1)
            )
            at += self.shape.actions
        if self.cfg.obs_agent_id:
            part = x[..., at : at + self.shape.agents]
            part.zero_()
            for agent in range(self.shape.agents):
                part[agent, ..., agent] = 1


class TeamPolicy:
    """Acts for all agents of all rows in one call; epsilon-greedy over available actions when exploring."""

    def __init__(
        self,
        nets: TeamNetworks,
        agent: Recurrent,
        rows: int,
        *,
        epsilon: Schedule,
        rng: np.random.Generator,
        sample: bool = False,
    ) -> None:
        self.nets, self.agent, self.rows, self.epsilon, self.rng = nets, agent, rows, epsilon, rng
        self.sample = sample  # draw from the softmax of the outputs in place of taking the highest
        self.steps = 0  # world steps acted for: what the schedule counts
        shape = nets.shape
        self.hidden = agent.start(shape.agents * rows // agent.copies)
        self._x = self.hidden.new_zeros(shape.agents, rows, agent.columns)
        self.last_action = np.full((rows, shape.agents), -1, np.int64)

    def reset(self, rows: Array) -> None:
        at = torch.from_numpy(np.asarray(rows, bool)).to(self.hidden.device)
        self._by_agent(self.hidden)[:, at] = 0
        self.last_action[rows] = -1

    def _by_agent(self, rows: Tensor) -> Tensor:
        """[K, R, ...] as [A, rows, ...]."""
        return rows.view(self.nets.shape.agents, self.rows, -1)

    @torch.no_grad()
    def values(self, obs: Obs, extra: Tensor | None = None) -> Array:
        """The network's outputs for every action, [rows, A, n]; memory goes on by one step."""
        place = self._x.device
        seen, last = agents_first(named(obs)["obs"]).to(place), torch.from_numpy(self.last_action.T).to(place)
        self.nets.fill(self._x, seen, last)
        if extra is not None:
            self._x[..., self.nets.columns :] = extra
        out, self.hidden = self.agent(self._x.view(self.agent.copies, -1, self.agent.columns), self.hidden)
        values: Array = self._by_agent(out).transpose(0, 1).cpu().numpy()
        return values

    def act(self, obs: Obs) -> Array:
        """Actions [rows, A]."""
        return self.choose(self.values(obs), named(obs)["avail"])

    def choose(self, values: Array, avail: Array) -> Array:
        """The best available actions, each replaced by a random available one with probability epsilon."""
        scores = np.where(avail > 0, values, -np.inf)
        if self.sample:  # the highest is then a draw from the softmax
            scores = scores + self.rng.gumbel(size=scores.shape)
        action: Array = scores.argmax(-1)
        epsilon = self.epsilon(self.steps)
        if epsilon > 0:
            random = self.rng.random(action.shape) < epsilon
            action = np.where(random, self._uniform(avail), action)
        self.steps += self.rows
        self.last_action = action
        return action

    def random(self, obs: Obs) -> Array:
        self.steps += self.rows
        self.last_action = self._uniform(named(obs)["avail"])
        return self.last_action

    def _uniform(self, avail: Array) -> Array:
        # The largest of one draw per available action; +1 keeps a draw of 0 above the unavailable.
        draws = (self.rng.random(avail.shape) + 1) * (np.asarray(avail) > 0)
        drawn: Array = np.argmax(draws, -1)
        return drawn

    def played(self, actions: Array) -> None:
        """What the agents really did [rows, A]: they remember that, not what they would have done."""
        self.last_action = actions

    def state_dict(self) -> State:
        return {"hidden": self.hidden.clone(), "last_action": self.last_action, "steps": self.steps}

    def load_state_dict(self, state: State) -> None:
        self.hidden = torch.as_tensor(np.array(state["hidden"])).to(self._x.device)
        self.last_action, self.steps = np.array(state["last_action"]), int(state["steps"])


def agents_first(obs: Array) -> Tensor:
    """[N, A, d] as a float tensor [A, N, d]."""
    return torch.from_numpy(np.ascontiguousarray(obs, np.float32)).transpose(0, 1)


def fill_episodes(nets: TeamNetworks, x: Tensor, obs: Tensor, action: Tensor) -> None:
    """Inputs [K, T + 1, R, columns] from episodes' obs [B, T + 1, A, d] and actions [B, T, A]."""
    agents, steps, batch = nets.shape.agents, obs.shape[1], obs.shape[0]
    before = action.new_full((agents, steps, batch), -1)
    before[:, 1:] = action.permute(2, 1, 0)[:, : steps - 1]
    by_agent = obs.permute(2, 1, 0, 3)
    if nets.copies > 1:
        nets.fill(x, by_agent, before)
        return
    # Shared weights: the rows of one step are (episode, agent), so that those of the longest episodes come first.
    nets.fill(x[0].view(steps, batch, agents, -1).permute(2, 0, 1, 3), by_agent, before)


def by_agent(q: Tensor, shape: TeamShape) -> Tensor:
    """[K, T, R, n] of an unroll as [A, T, B, n]."""
    if q.shape[0] == shape.agents and shape.agents > 1:
        return q
    return q[0].view(q.shape[1], -1, shape.agents, q.shape[-1]).permute(2, 0, 1, 3)
