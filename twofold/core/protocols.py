"""The contracts between the parts, as the trainer sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np

from twofold.base.foreign import AnySpace, Info
from twofold.core.experience import Array, Item, Obs, Steps, Written

if TYPE_CHECKING:
    from torch import nn

    from twofold.core.trainer import Trainer

# Any: as in torch's state_dict. Nested dicts of arrays, tensors, numbers, texts and None: what a checkpoint can hold.
# Whoever wrote a value knows its type; a recursive union would only move the same knowledge into casts.
State = dict[str, Any]
AnyLearner: TypeAlias = "Learner[Any]"  # Any: a registry makes learners by name; their items only they read
Metrics = dict[str, float]
Summary = dict[str, float]  # mean, std, low, high, min, episodes
Episodes = dict[str, Array]  # a metric -> its value in each episode


class World(Protocol):
    """A batch of N environments: Gymnasium's VectorEnv with autoreset disabled.

    Actions are in [-1, 1] per dimension where they are continuous. `terminated` is never a time limit. An episode
    is a pure function of (seed, actions). When an episode ends, `info["episode"]` holds arrays [N] of its metrics.
    """

    num_envs: int
    single_observation_space: AnySpace
    single_action_space: AnySpace

    def reset(self, *, seed: list[int | None], options: Info) -> tuple[Obs, Info]:
        """Start an episode in the rows of `options["reset_mask"]` (bool [N]), each with its own seed."""
        ...

    def step(self, actions: Array, /) -> tuple[Obs, Array, Array, Array, Info]: ...

    def snapshot(self) -> State:
        """All that is needed to go on exactly, in the middle of any episode."""
        ...

    def restore(self, snapshot: State) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Bounded(Protocol):
    """A world whose actions have units of their own: [-1, 1] stands for low to high."""

    action_bounds: tuple[Array, Array]


@runtime_checkable
class Clocked(Protocol):
    """A world that may have a clock: how long one of its steps takes."""

    step_seconds: float | None


class Policy(Protocol):
    """Observations in, actions out, N rows at once; owns recurrent state and exploration."""

    def reset(self, rows: Array) -> None:
        """An episode starts in these rows (bool [N])."""
        ...

    def act(self, obs: Obs) -> Array: ...

    def random(self, obs: Obs) -> Array:
        """Uniformly drawn valid actions, for the warm-up."""
        ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Writer(Protocol[Item]):
    """Steps of N rows in, stacked items out."""

    def blank(self) -> Item:
        """An item with a first axis of length 0: shapes and types of what will come."""
        ...

    def step(self, steps: Steps) -> Written[Item] | None: ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Learner(Protocol[Item]):
    """Owns weights and optimisers; never sees a world."""

    updates: int

    @property
    def acting(self) -> nn.Module:
        """The network that acts when it counts."""
        ...

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> Policy: ...

    def writer(self, rows: int) -> Writer[Item]: ...

    def update(self, items: Item, /) -> None:
        """One gradient update from a batch of items (numpy arrays, valid until the next sample)."""
        ...

    def metrics(self) -> Metrics:
        """Losses and values of the last update, also right after a resume."""
        ...

    def first_bad(self) -> str | None:
        """The name of the first non-finite loss or gradient of the last update, or None."""
        ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...

    def policy_state(self) -> State:
        """What acting needs, and nothing else: the part that is exported, kept as best, and shipped."""
        ...

    def load_policy_state(self, state: State) -> None: ...


@runtime_checkable
class ByEngine(Protocol):
    """A learner that can compute its updates in several ways: the record of a run names the one that did."""

    @property
    def engine_name(self) -> str: ...


class Keeper(Protocol):
    """What keeps a run: its logs, its checkpoints, its best policies."""

    @property
    def best(self) -> float | None:
        """The best validation return so far."""
        ...

    def resume(self, trainer: Trainer[Item]) -> bool:
        """Put the trainer where the newest good checkpoint left it; False if there is none."""
        ...

    def save(self, trainer: Trainer[Item], *, due: bool = False) -> None:
        """A checkpoint of everything; with `due`, only if it is time for one."""
        ...

    def log(self, step: int, values: Metrics, speed: Metrics) -> None: ...

    def log_evaluation(self, step: int, world: str, result: dict[str, Summary]) -> None: ...

    def offer(self, trainer: Trainer[Item], score: Summary) -> None:
        """Keep the policy if it is the best so far, or among the best few."""
        ...

    def refuse(self, name: str, *, at: str, evidence: Mapping[str, object]) -> NoReturn:
        """Stop because of a NaN or an infinity: write the evidence, say where it was found."""
        ...
