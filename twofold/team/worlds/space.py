"""The observation of a team: what every agent sees, the whole state, and what each agent may do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.base.foreign import Frames as Frames
from twofold.base.foreign import Info as Info
from twofold.base.foreign import Shown as Shown
from twofold.base.values import Values as Values
from twofold.core.experience import Array
from twofold.core.protocols import State
from twofold.store.spaces import SizedBox

Space = AnySpace
Foreign: TypeAlias = Any  # Any: an object of a package without types
TeamObs = dict[
    str, Array
]  # obs [N, A, d], state [N, s], avail [N, A, n], step [N]; others [N, ...] with partners
TeamWorld = gym.vector.VectorEnv[TeamObs, Array, Array]
Seeds = int | list[int | None] | None
Stepped = tuple[TeamObs, Array, Array, Array, Info]


METADATA: Info = {
    "autoreset_mode": AutoresetMode.DISABLED,
    "render_modes": ["rgb_array"],
    "render_fps": 8,
}


@dataclass(frozen=True)
class Units:
    """Like units in an agent's observation: their columns, one unit after the other, and the actions aimed at them."""

    first: int  # column of the first unit
    count: int
    columns: int  # of each unit
    action: int = -1  # the one aimed at the first unit, the others follow; -1: none is


@dataclass(frozen=True)
class TeamShape:
    """The sizes of a team game, as read from its spaces."""

    agents: int
    obs: int
    state: int
    actions: int
    limit: int  # the longest episode, in steps
    others: int = 0  # agents played by fixed partners; obs["others"] holds their last actions
    other_actions: int = 0
    units: tuple[Units, ...] = ()  # where a world says so


def team_space(shape: TeamShape) -> spaces.Dict:
    """obs [A, d], state [s], avail [A, n] and the step number, whose upper bound is the episode limit."""
    inner: dict[str, Space] = {
        "obs": _seen(shape),
        "state": _unbounded(shape.state),
        "avail": spaces.Box(0, 1, (shape.agents, shape.actions), np.uint8),
        "step": spaces.Box(0, shape.limit, (), np.int32),
    }
    if shape.others:
        inner["others"] = spaces.Box(0, max(shape.other_actions - 1, 1), (shape.others,), np.int16)
    return spaces.Dict(inner)


def _seen(shape: TeamShape) -> spaces.Box:
    """Observations of all agents [A, d]; where units are listed in them, it is kept with the space."""
    box = _unbounded(shape.agents, shape.obs)
    units = {
        f"{name}_{i}": size for i, group in enumerate(shape.units) for name, size in asdict(group).items()
    }
    return SizedBox(box.low, box.high, units) if units else box


def _units(box: Space) -> tuple[Units, ...]:
    """What `_seen` kept."""
    sizes = box.sizes if isinstance(box, SizedBox) else {}
    names = [field.name for field in fields(Units)]
    return tuple(Units(*(sizes[f"{name}_{i}"] for name in names)) for i in range(len(sizes) // len(names)))


def _unbounded(*shape: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def shape_of(space: Space) -> TeamShape:
    """The sizes that `team_space` was made with."""
    if not isinstance(space, spaces.Dict) or not {"obs", "state", "avail", "step"} <= space.spaces.keys():
        raise ConfigError(
            f"a team's learner needs a team's world (obs, state, avail and step); this one has {space}: "
            "twofold list shows which environments go with which algorithm"
        )
    agents, actions = _shape(space["avail"])
    step = space["step"]
    assert isinstance(step, spaces.Box)
    others = space.spaces.get("others")
    hidden = (_shape(others)[0], int(others.high.max()) + 1) if isinstance(others, spaces.Box) else (0, 0)
    sizes = agents, _shape(space["obs"])[1], _shape(space["state"])[0], actions, int(step.high.max())
    return TeamShape(*sizes, *hidden, _units(space["obs"]))


def _shape(space: Space) -> tuple[int, ...]:
    assert space.shape is not None
    return space.shape


def set_spaces(world: TeamWorld, rows: int, shape: TeamShape) -> None:
    """Give a world of discrete actions its spaces."""
    world.num_envs = rows
    world.single_observation_space = team_space(shape)
    world.single_action_space = spaces.MultiDiscrete([shape.actions] * shape.agents)
    world.observation_space = batch_space(world.single_observation_space, rows)
    world.action_space = batch_space(world.single_action_space, rows)


class Arrays:
    """The state of a world that is a few arrays: `self._name` for each name of `state`."""

    state: ClassVar[tuple[str, ...]]

    def snapshot(self) -> State:
        return {name: getattr(self, f"_{name}").copy() for name in self.state}

    def restore(self, snapshot: State) -> None:
        for name in self.state:
            setattr(self, f"_{name}", np.array(snapshot[name]))


def reset_mask(options: Info | None, rows: int) -> Array:
    """The rows to reset; all of them when nothing is said."""
    if not options or "reset_mask" not in options:
        return np.ones(rows, bool)
    return np.asarray(options["reset_mask"], bool)


def seeds_of(seed: Seeds, rows: int) -> list[int | None]:
    """One seed for each row."""
    return seed if isinstance(seed, list) else [seed] * rows
