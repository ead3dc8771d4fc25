"""The contracts between the parts, as the trainer sees them."""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from twofold.core.experience import Array, Obs, Steps

State = dict[str, Any]  # nested dicts of arrays, numbers, strings and None: what a checkpoint can hold
Metrics = dict[str, float]


class World(Protocol):
    """A batch of N environments: Gymnasium's VectorEnv with autoreset disabled.

    Actions are in [-1, 1] per dimension where they are continuous. `terminated` is never a time limit. An episode
    is a pure function of (seed, actions). When an episode ends, `info["episode"]` holds arrays [N] of its metrics.
    """

    num_envs: int
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    def reset(self, *, seed: list[int | None], options: dict[str, Any]) -> tuple[Obs, dict[str, Any]]:
        """Start an episode in the rows of `options["reset_mask"]` (bool [N]), each with its own seed."""
        ...

    def step(self, actions: Array, /) -> tuple[Obs, Array, Array, Array, dict[str, Any]]: ...

    def snapshot(self) -> State:
        """All that is needed to go on exactly, in the middle of any episode."""
        ...

    def restore(self, snapshot: State) -> None: ...

    def close(self) -> None: ...


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


class Writer(Protocol):
    """Steps of N rows in, stacked items out."""

    def blank(self) -> Any:
        """An item with a first axis of length 0: shapes and types of what will come."""
        ...

    def step(self, steps: Steps) -> Any | None: ...

    def state_dict(self) -> State: ...

    def load_state_dict(self, state: State) -> None: ...


class Learner(Protocol):
    """Owns weights and optimisers; never sees a world."""

    updates: int

    def policy(self, *, explore: bool, rows: int, rng: np.random.Generator) -> Policy: ...

    def writer(self, rows: int) -> Writer: ...

    def update(self, batch: Any) -> None:
        """One gradient update from a batch of items (numpy arrays, valid until the next sample)."""
        ...

    def metrics(self) -> Metrics:
        """Losses and values of the last update, as floats."""
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
