"""Games of other packages as team worlds: one adapter, and a small shim for each kind of interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from twofold.base.errors import ConfigError, WorldError
from twofold.core.experience import Array
from twofold.rows.envs import EnvRows
from twofold.team.worlds.space import Foreign, Frames, Info, Space, TeamObs, TeamShape, team_space

Action = int | Array  # a choice, or numbers in the game's own bounds


class Game(Protocol):
    """One game for several agents, as `TeamEnv` needs it."""

    observations: list[Space]  # boxes, one for every agent
    actions: list[Space]
    limit: int  # steps of the longest episode
    metrics: dict[str, float]  # of the episode so far

    def reset(self, seed: int | None) -> list[Array]: ...
    def step(self, actions: list[Action]) -> tuple[list[Array], list[float], bool, bool]: ...
    def state(self) -> Array | None: ...
    def avail(self) -> Array | None: ...
    def render(self) -> Frames: ...
    def close(self) -> None: ...


class TeamEnv(gym.Env[TeamObs, Array]):
    """A game with a team observation; the team's reward is the sum (or mean) of its agents' rewards.

    Agents with fewer observations or actions than the others are padded: what is missing is zero and not available.
    """

    def __init__(self, game: Game, *, reward: str = "sum") -> None:
        self.game, self._reward = game, reward
        agents, width = len(game.observations), max(int(np.prod(o.shape or ())) for o in game.observations)
        self.metadata, self.render_mode = {"render_modes": ["rgb_array"], "render_fps": 8}, "rgb_array"
        self._limit, self._steps = game.limit, 0
        self._continuous = isinstance(game.actions[0], spaces.Box)
        counts = self._action_spaces()
        self._avail = np.zeros((agents, max(counts)), np.uint8)
        for agent, count in enumerate(counts):
            self._avail[agent, :count] = 1
        game.reset(0)
        whole = game.state()
        state = agents * width if whole is None else whole.size
        self._shape = TeamShape(agents, width, state, max(counts), game.limit)
        self.observation_space: Space = team_space(self._shape)

    def _action_spaces(self) -> list[int]:
        """Actions of every agent: choices, or numbers where they are continuous."""
        actions = self.game.actions
        if self._continuous:
            sizes = [int(np.prod(space.shape)) for space in actions if isinstance(space, spaces.Box)]
            # Agents with fewer numbers ignore the rest of theirs, so that one actor can serve all.
            self.action_space = spaces.Box(-1, 1, (len(sizes) * max(sizes),), np.float32)
            return sizes
        counts = [int(space.n) for space in actions if isinstance(space, spaces.Discrete)]
        if len(counts) != len(actions):
            raise ConfigError(f"team worlds need discrete or box actions for all agents, got {actions}")
        self.action_space = spaces.MultiDiscrete([max(counts)] * len(counts))
        return counts

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(self.game.reset(seed)), {}

    def step(self, action: Array) -> tuple[TeamObs, float, bool, bool, Info]:
        obs, rewards, terminated, truncated = self.game.step(self._split(action))
        self._steps += 1
        reward = float(np.mean(rewards) if self._reward == "mean" else np.sum(rewards))
        truncated = truncated or (self._steps >= self._limit and not terminated)
        return self._observe(obs), reward, terminated, truncated, {"episode": dict(self.game.metrics)}

    def _split(self, action: Array) -> list[Action]:
        """The joint action as one per agent; a choice that an agent does not have becomes its first."""
        if not self._continuous:
            return [int(a) if self._avail[i, a] else 0 for i, a in enumerate(np.asarray(action, np.int64))]
        parts = []
        for space, numbers in zip(
            self.game.actions, np.asarray(action).reshape(len(self.game.actions), -1), strict=True
        ):
            assert isinstance(space, spaces.Box)
            share = (numbers[: int(np.prod(space.shape))] + 1) / 2
            parts.append(
                (space.low + share.reshape(space.shape) * (space.high - space.low)).astype(np.float32)
            )
        return parts

    def _observe(self, obs: list[Array]) -> TeamObs:
        padded = np.zeros((self._shape.agents, self._shape.obs), np.float32)
        for agent, seen in enumerate(obs):
            flat = np.asarray(seen, np.float32).ravel()
            padded[agent, : flat.size] = flat
        whole, avail = self.game.state(), self.game.avail()
        if avail is not None:
            self._avail = np.asarray(avail, np.uint8)
        state = padded.ravel().copy() if whole is None else np.asarray(whole, np.float32).ravel()
        return {
            "obs": padded,
            "state": state,
            "avail": self._avail.copy(),
            "step": np.array(self._steps, np.int32),
        }

    def render(self) -> Frames:
        return self.game.render()

    def close(self) -> None:
        self.game.close()


class TupleGame:
    """A Gymnasium game with tuples of observations, actions and rewards: level-based foraging, warehouses."""

    def __init__(
        self,
        env: Foreign,
        limit: int,
        *,
        ended: Callable[
            [Foreign], bool
        ],  # whether the game is over, in place of what it says at its time limit
        before_reset: Callable[[Foreign], None] = lambda env: None,
    ) -> None:
        self.env, self.limit, self._ended, self._before_reset = env, limit, ended, before_reset
        seen, acts = env.observation_space, env.action_space
        if not isinstance(seen, spaces.Tuple) or not isinstance(acts, spaces.Tuple):
            raise WorldError(f"this game has no tuples of observations and actions: {seen}, {acts}")
        self.observations: list[Space] = list(seen.spaces)
        self.actions: list[Space] = list(acts.spaces)
        self.metrics: dict[str, float] = {}

    def reset(self, seed: int | None) -> list[Array]:
        self._before_reset(self.env)
        return list(self.env.reset(seed=seed)[0])

    def step(self, actions: list[Action]) -> tuple[list[Array], list[float], bool, bool]:
        obs, rewards, _, _, _ = self.env.step(tuple(actions))
        return list(obs), list(rewards), self._ended(self.env), False

    def state(self) -> Array | None:
        return None

    def avail(self) -> Array | None:
        return None

    def render(self) -> Frames:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


Other = Callable[[Array, Space, np.random.Generator], Action]  # (its observation, its actions, rng)


class ParallelGame:
    """A PettingZoo parallel environment; agents outside of the team follow a fixed policy."""

    def __init__(self, env: Foreign, limit: int, *, team: str = "", other: Other | None = None) -> None:
        self.env, self.limit, self.other = env, limit, other
        self.team = [agent for agent in env.possible_agents if agent.startswith(team)]
        self.others = [agent for agent in env.possible_agents if agent not in self.team]
        if not self.team:
            raise ConfigError(
                f"env_args.team: no agent begins with '{team}'; there are {env.possible_agents}"
            )
        if self.others and other is None:
            raise ConfigError(f"env_args.others: say who plays {', '.join(self.others)}")
        self.observations = [env.observation_space(agent) for agent in self.team]
        self.actions = [env.action_space(agent) for agent in self.team]
        self.metrics: dict[str, float] = {}
        self._rng = np.random.default_rng(0)
        self._seen: dict[str, Array] = {}

    def reset(self, seed: int | None) -> list[Array]:
        self._rng = np.random.default_rng(seed)
        self._seen, _ = self.env.reset(seed=seed)
        return self._team_view()

    def _team_view(self) -> list[Array]:
        """Observations of the team; an agent that left sees zeros."""
        blank = {
            a: np.zeros(space.shape, np.float32)
            for a, space in zip(self.team, self.observations, strict=True)
        }
        return [self._seen.get(agent, blank[agent]) for agent in self.team]

    def step(self, actions: list[Action]) -> tuple[list[Array], list[float], bool, bool]:
        joint = {
            agent: action
            for agent, action in zip(self.team, actions, strict=True)
            if agent in self.env.agents
        }
        for agent in self.others:
            if agent in self.env.agents and self.other is not None:
                joint[agent] = self.other(self._seen[agent], self.env.action_space(agent), self._rng)
        self._seen, rewards, ended, _, _ = self.env.step(joint)
        paid = [float(rewards.get(agent, 0.0)) for agent in self.team]
        over = not self.env.agents
        return self._team_view(), paid, over and any(ended.values()), over and not any(ended.values())

    def state(self) -> Array | None:
        try:
            return np.asarray(self.env.state(), np.float32).ravel()
        except (NotImplementedError, AttributeError):
            return None

    def avail(self) -> Array | None:
        return None

    def render(self) -> Frames:
        return self.env.render()

    def close(self) -> None:
        self.env.close()


def rows_of(make: Callable[[], TeamEnv], rows: int) -> EnvRows:
    """N copies of a game as one world."""
    return EnvRows(make, rows)
