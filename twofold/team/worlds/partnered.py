"""A team world some of whose seats are played by fixed partners: what is left is the learner's world."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.settings.config import settings_from
from twofold.settings.registry import worlds
from twofold.team.seating import Group, PartnerSet, Seating, parse_team, read_partners
from twofold.team.worlds.space import METADATA, dress, reset_mask, shape_of

Array = Any  # numpy arrays, whose stubs cannot follow reductions and indexing


@dataclass(frozen=True)
class PartneredConfig:
    """Which world, and who plays the other seats."""

    world: str = "team/lbf"
    world_args: dict[str, Any] = field(default_factory=dict)  # settings of that world
    partners: str = ""  # a folder of `twofold partners make`
    team: str = ""  # such as 4iql3qmix: who sits on the partners' seats; empty: one partner plays them all
    seats: int = 1  # seats of the learner
    rotate: bool = True  # the learner's seats change from episode to episode
    own_reward: bool = False  # the learner is paid its own reward, where the world tells them apart

    def __post_init__(self) -> None:
        if not self.partners:
            raise ConfigError("env_args.partners: give a partner set (twofold partners make)")
        if self.seats < 1:
            raise ConfigError(f"env_args.seats must be at least 1, got {self.seats}")


def inner_world(name: str, settings: dict[str, Any], rows: int, purpose: str) -> Any:
    """A registered world from its free-form settings, checked like those of a config file."""
    entry = worlds.get(name)
    typed: object = settings_from(entry.config, settings, "env_args.world_args.")
    return entry.make(typed, rows=rows, purpose=purpose)


def groups_for(
    found: PartnerSet, which: str, team: str, free: int, agents: int
) -> tuple[list[Any], list[Group]]:
    """The policies to load and the groups of seats that draw from them."""
    chosen = found.split(which)
    if not team:
        return chosen, [Group(agents - free, tuple(range(len(chosen))))]
    groups = []
    for count, algorithm in parse_team(team):
        fitting = tuple(i for i, partner in enumerate(chosen) if partner.algorithm == algorithm)
        if not fitting:
            known = ", ".join(sorted({p.algorithm for p in chosen}))
            raise ConfigError(
                f"{found.folder}: no {which} partner of the algorithm '{algorithm}'; there are {known}"
            )
        groups.append(Group(count, fitting))
    return chosen, groups


@worlds.register("team/partnered", config=PartneredConfig, evaluations=("train_partners", "test_partners"))
class Partnered(gym.vector.VectorEnv[Any, Any, Any]):
    """Play with (or against) fixed partners; evaluated with those of training and with those never seen."""

    def __init__(self, cfg: PartneredConfig, *, rows: int, purpose: str) -> None:
        self.metadata, self.render_mode, self.cfg = dict(METADATA), "rgb_array", cfg
        self.inner = inner_world(cfg.world, cfg.world_args, rows, purpose)
        whole = shape_of(self.inner.single_observation_space)
        found = read_partners(Path(cfg.partners))
        which = "test" if purpose == "test_partners" else "train"
        partners, groups = groups_for(found, which, cfg.team, cfg.seats, whole.agents)
        self.names = [partner.name for partner in partners]
        sizes = {"agents": whole.agents, "free": cfg.seats, "rows": rows}
        self.seating = Seating([partner.load() for partner in partners], groups, **sizes, rotate=cfg.rotate)
        self._own = cfg.own_reward and whole.individual
        others = whole.agents - cfg.seats
        wider = whole.obs + whole.agents
        shape = replace(whole, agents=cfg.seats, obs=wider, others=others, other_actions=whole.actions)
        dress(self, rows, shape)
        self._obs: Any = None
        self._played = np.zeros((rows, others), np.int16)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seeds = seed if isinstance(seed, (list, tuple)) else [seed] * self.num_envs
        mask = reset_mask(options, self.num_envs)
        self._obs, info = self.inner.reset(seed=list(seeds), options={"reset_mask": mask})
        for row in np.flatnonzero(mask):
            self.seating.deal(int(row), seeds[row])
        self.seating.reset(mask)
        self._played[mask] = 0
        return self._view(), info

    def step(self, actions: Array) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        joint = self.seating.fill(self._obs, actions)
        self._obs, reward, terminated, truncated, info = self.inner.step(joint)
        free = self.cfg.seats
        self._played = np.take_along_axis(joint, self.seating.order[:, free:], 1).astype(np.int16)
        episode = (
            {"team_return": info["episode"].pop("return")} if "return" in info.get("episode", {}) else {}
        )
        first = np.take_along_axis(self.seating.owner, self.seating.order[:, free : free + 1], 1)[:, 0]
        episode |= info.get("episode", {}) | {"partner": first.astype(float)}
        if self._own:
            reward = np.take_along_axis(self._obs["rewards"], self.seating.order[:, :free], 1).sum(
                -1, dtype=float
            )
        return self._view(), reward, terminated, truncated, info | {"episode": episode}

    def _view(self) -> dict[str, Array]:
        """What the learner's seats see, with the number of the seat behind it."""
        seats = self.seating.order[:, : self.cfg.seats]
        rows = np.arange(self.num_envs)[:, None]
        number = np.eye(self.seating.agents, dtype=np.float32)[seats]
        view = {
            "obs": np.concatenate([self._obs["obs"][rows, seats], number], -1),
            "state": self._obs["state"],
            "avail": self._obs["avail"][rows, seats],
            "step": self._obs["step"],
            "others": self._played,
        }
        if "rewards" in self._obs:
            view["rewards"] = self._obs["rewards"][rows, seats]
        return tree.copy(view)  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        seen = {path: np.array(leaf) for path, leaf in tree.items(self._obs)}
        return {
            "inner": self.inner.snapshot(),
            "seating": self.seating.state_dict(),
            "obs": seen,
            "played": self._played.copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.inner.restore(snapshot["inner"])
        self.seating.load_state_dict(snapshot["seating"])
        self._obs = {
            key: np.array(snapshot["obs"][key]) for key in self.inner.single_observation_space.spaces
        }
        self._played = np.array(snapshot["played"])

    def render(self) -> Any:
        return self.inner.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.inner.close()
