"""Writers turn steps into items, batched over rows; n-step returns live here."""

from __future__ import annotations

from typing import Any

import numpy as np

from twofold.core import tree
from twofold.core.experience import Array, Steps, Transition, blank_like


class TransitionWriter:
    """n-step transitions: at most n rewards are summed, fewer where the episode ends or is cut."""

    def __init__(
        self, rows: int, observation_space: Any, action_space: Any, *, n_step: int, gamma: float
    ) -> None:
        self.rows, self.n_step, self.gamma = rows, n_step, gamma
        self._obs_space, self._action_space = observation_space, action_space
        self._pending: list[Transition] = []  # newest last; each holds all rows
        self._live: list[Array] = []  # [N] bool: does this row of the pending step still wait?

    def blank(self) -> Transition:
        obs, zero = blank_like(self._obs_space), np.zeros(0, np.float32)
        return Transition(obs, blank_like(self._action_space), zero, blank_like(self._obs_space), zero, zero)

    def step(self, steps: Steps) -> Transition | None:
        """The transitions that are complete after this step."""
        ended = steps.terminated.astype(np.float32)
        reward = steps.reward.astype(np.float32)
        if self.n_step == 1:
            gamma = np.full(self.rows, self.gamma, np.float32)
            whole = Transition(steps.obs, steps.action, reward, steps.next_obs, ended, gamma)
            return whole if steps.valid.all() else self._picked(whole, steps.valid)
        return self._n_step(steps, reward, ended)

    @staticmethod
    def _picked(items: Transition, rows: Array) -> Transition | None:
        return tree.index(items, rows) if rows.any() else None

    def _n_step(self, steps: Steps, reward: Array, ended: Array) -> Transition | None:
        done: list[Transition | None] = []
        broken = ~steps.valid
        if broken.any():  # the step never happened: what waits ends at the last observation that was real
            done += [self._release(i, broken) for i in range(len(self._pending))]
        self._extend(steps, reward, ended)
        over = steps.terminated | steps.truncated
        for i in range(len(self._pending)):
            full = len(self._pending) - i >= self.n_step
            done.append(self._release(i, np.ones(self.rows, bool) if full else over))
        while self._live and not self._live[0].any():
            del self._live[0], self._pending[0]
        found = [items for items in done if items is not None]
        return tree.concatenate(found) if found else None

    def _extend(self, steps: Steps, reward: Array, ended: Array) -> None:
        """Add this step's reward to every waiting row and begin a new pending step."""
        for i, (old, live) in enumerate(zip(self._pending, self._live, strict=True)):
            grow = live & steps.valid
            self._pending[i] = Transition(
                old.obs,
                old.action,
                np.where(grow, old.reward + old.discount * reward, old.reward),
                tree.map(lambda a, b, g=grow: np.where(_like(g, a), b, a), old.next_obs, steps.next_obs),
                np.where(grow, ended, old.terminated),
                np.where(grow, old.discount * np.float32(self.gamma), old.discount),
            )
        gamma = np.full(self.rows, self.gamma, np.float32)
        new = Transition(steps.obs, steps.action, reward, steps.next_obs, ended, gamma)
        self._pending.append(tree.copy(new))
        self._live.append(steps.valid.copy())

    def _release(self, i: int, rows: Array) -> Transition | None:
        out = rows & self._live[i]
        self._live[i] = self._live[i] & ~out
        return self._picked(self._pending[i], out)

    def state_dict(self) -> dict[str, Any]:
        waiting = {str(i): dict(tree.items(p)) for i, p in enumerate(self._pending)}
        return {"pending": waiting, "live": {str(i): live for i, live in enumerate(self._live)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        count = len(state["live"])
        self._live = [np.asarray(state["live"][str(i)], bool) for i in range(count)]
        self._pending = [self._rebuilt(state["pending"][str(i)]) for i in range(count)]

    def _rebuilt(self, leaves: dict[str, Any]) -> Transition:
        paths = iter([path for path, _ in tree.items(self.blank())])
        return tree.map(lambda _: np.asarray(leaves[next(paths)]), self.blank())  # type: ignore[no-any-return]


def _like(mask: Array, leaf: Array) -> Array:
    """The row mask shaped to broadcast over a leaf."""
    return mask.reshape(-1, *([1] * (leaf.ndim - 1)))
