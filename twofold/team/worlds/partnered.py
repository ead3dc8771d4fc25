"""A team world some of whose seats are played by fixed partners: what is left is the learner's world."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np

from twofold.base import tree
from twofold.base.errors import ConfigError, WorldError
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, named
from twofold.core.protocols import State, World
from twofold.settings.config import settings_from
from twofold.settings.registry import worlds
from twofold.team.seating import Group, Seating, greedy
from twofold.team.sets import Partner, PartnerSet, parse_team, read_partners
from twofold.team.worlds.space import (
    METADATA,
    Frames,
    Info,
    Seeds,
    Shown,
    Stepped,
    TeamObs,
    TeamWorld,
    Values,
    reset_mask,
    seeds_of,
    set_spaces,
    shape_of,
)

log = logging.getLogger("twofold")


@settings
class PartneredConfig:
    """Which world, and who plays the other seats."""

    partners: str = setting("a folder of `twofold partners make`", default="")
    world: str = setting("a registered world; empty: the one that the partners were trained in", default="")
    world_args: Values = setting(
        "settings of the world, over those that the partners were trained with", factory=dict
    )
    team: str = setting(
        "who sits on the partners' seats, such as 4iql3qmix; empty: one partner plays them all", default=""
    )
    seats: int = setting("seats of the learner", default=1, ge=1)
    rotate: bool = setting("the learner's seats change from episode to episode", default=True)

    def __post_init__(self) -> None:
        if not self.partners:
            raise ConfigError("env_args.partners: give a partner set (twofold partners make)")


def inner_world(name: str, settings: Values, rows: int, purpose: str) -> World:
    """A registered world from its free-form settings, checked like those of a config file."""
    if name == "team/partnered":
        raise ConfigError("env_args.world: partners are met in a world of its own, not in 'team/partnered'")
    entry = worlds.get(name)
    typed: object = settings_from(entry.config, settings, "env_args.world_args.")
    return entry.make(typed, rows=rows, purpose=purpose)


def world_of(found: PartnerSet, world: str, world_args: Values) -> tuple[str, Values]:
    """The partners' own world and settings where nothing else is said; another world has settings of its own."""
    if world and world != found.about.world:
        return world, world_args
    return found.about.world, found.about.world_args | world_args


def groups_for(
    found: PartnerSet, which: str, team: str, free: int, agents: int
) -> tuple[list[Partner], list[Group]]:
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


def _evaluations(cfg: PartneredConfig) -> tuple[str, ...]:
    """With the partners of training, and with those never met, if the set declares any."""
    met, found = ("train_partners",), read_partners(Path(cfg.partners))
    if not found.test:
        return met
    there = {partner.algorithm for partner in found.split("test")}
    missing = sorted({name for _, name in parse_team(cfg.team)} - there) if cfg.team else []
    if missing:
        log.warning(
            "no evaluation with partners never met: %s has no test partner of %s",
            found.folder,
            ", ".join(missing),
        )
        return met
    return (*met, "test_partners")


@worlds.register("team/partnered", config=PartneredConfig, evaluations=_evaluations)
def partnered(cfg: PartneredConfig, *, rows: int, purpose: str) -> Seated:
    """Play with (or against) fixed partners; evaluated with those of training and with those never seen."""
    found = read_partners(Path(cfg.partners))
    inner = inner_world(*world_of(found, cfg.world, cfg.world_args), rows, purpose)
    agents = shape_of(inner.single_observation_space).agents
    which = "test" if purpose == "test_partners" else "train"
    partners, groups = groups_for(found, which, cfg.team, cfg.seats, agents)
    if purpose == "train":
        names = sorted({p.algorithm for p in partners})
        split = "the train split" if found.train else "the whole set, which has no split"
        log.info("partners: %d of %s (%s), %s", len(partners), split, ", ".join(names), found.folder)
    sizes = {"agents": agents, "free": cfg.seats, "rows": rows}
    seating = Seating(
        [greedy(partner.load(), rows) for partner in partners], groups, **sizes, rotate=cfg.rotate
    )
    return Seated(inner, seating)


class Seated(TeamWorld):
    """A world in which a seating plays some seats; the free ones are left to whoever steps this world."""

    def __init__(self, inner: World, seating: Seating) -> None:
        self.metadata, self.render_mode = dict(METADATA), "rgb_array"
        self.inner, self.seating, rows = inner, seating, inner.num_envs
        whole = shape_of(inner.single_observation_space)
        others = whole.agents - seating.free
        # The number of the seat comes behind what it sees.
        wider = whole.obs + whole.agents
        shape = replace(whole, agents=seating.free, obs=wider, others=others, other_actions=whole.actions)
        set_spaces(self, rows, shape)
        self._obs: TeamObs = {}
        self._played = np.zeros((rows, others), np.int16)

    def reset(self, *, seed: Seeds = None, options: Info | None = None) -> tuple[TeamObs, Info]:
        seeds, mask = seeds_of(seed, self.num_envs), reset_mask(options, self.num_envs)
        obs, info = self.inner.reset(seed=seeds, options={"reset_mask": mask})
        self._obs = named(obs)
        for row in np.flatnonzero(mask):
            self.seating.deal(int(row), seeds[row])
        self.seating.reset(mask)
        self._played[mask] = 0
        return self._view(), info

    def step(self, actions: Array) -> Stepped:
        return self._play(self.seating.fill(self._obs, actions))

    def _play(self, joint: Array) -> Stepped:
        obs, reward, terminated, truncated, info = self.inner.step(joint)
        self._obs = named(obs)
        free, order = self.seating.free, self.seating.order
        self._played = np.take_along_axis(joint, order[:, free:], 1).astype(np.int16)
        inner = dict(info.get("episode", {}))
        episode = {"team_return": inner.pop("return")} if "return" in inner else {}
        return self._view(), reward, terminated, truncated, info | {"episode": episode | inner}

    def _view(self) -> TeamObs:
        """What the free seats see, with the number of the seat behind it."""
        seats, rows = self.seating.order[:, : self.seating.free], np.arange(self.num_envs)[:, None]
        number = np.eye(self.seating.agents, dtype=np.float32)[seats]
        view = {
            "obs": np.concatenate([self._obs["obs"][rows, seats], number], -1),
            "state": self._obs["state"],
            "avail": self._obs["avail"][rows, seats],
            "step": self._obs["step"],
            "others": self._played,
        }
        return tree.copy(view)

    def snapshot(self) -> State:
        seen = {path: np.array(leaf) for path, leaf in self._obs.items()}
        return {
            "inner": self.inner.snapshot(),
            "seating": self.seating.state_dict(),
            "obs": seen,
            "played": self._played.copy(),
        }

    def restore(self, snapshot: State) -> None:
        self.inner.restore(snapshot["inner"])
        self.seating.load_state_dict(snapshot["seating"])
        self._obs = {key: np.array(leaf) for key, leaf in snapshot["obs"].items()}
        self._played = np.array(snapshot["played"])

    def render(self) -> Frames:
        if not isinstance(self.inner, Shown):
            raise WorldError("the world behind these partners cannot be shown")
        return self.inner.render()

    def close_extras(self, **kwargs: object) -> None:
        self.inner.close()
