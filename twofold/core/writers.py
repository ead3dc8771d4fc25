"""Writers turn steps into items, batched over rows; n-step returns live here."""

from __future__ import annotations

import numpy as np

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.base.foreign import AnySpace
from twofold.core.experience import Array, Steps, Transition, Written, blank_like
from twofold.core.protocols import State


class TransitionWriter:
    """n-step transitions: at most n rewards are summed, fewer where the episode ends or is cut."""

    def __init__(
        self,
        rows: int,
        observation_space: AnySpace,
        action_space: AnySpace,
        *,
        n_step: int,
        gamma: float,
    ) -> None:
        self.rows, self.n_step, self.gamma = rows, n_step, gamma
        self._obs_space, self._action_space = observation_space, action_space
        self._pending: list[Transition] = []  # newest last; each holds all rows
        self._live: list[Array] = []  # [N] bool: does this row of the pending step still wait?
        self._every = np.arange(rows)

    def blank(self) -> Transition:
        obs, action = blank_like(self._obs_space), blank_like(self._action_space)
        zero = np.zeros(0, np.float32)
        if isinstance(action, dict):
            raise WorldError("actions with names cannot be learned from: join them into one array")
        return Transition(obs, action, zero, blank_like(self._obs_space), zero, zero)

    def step(self, steps: Steps) -> Written[Transition] | None:
        """The transitions that are complete after this step."""
        ended = steps.terminated.astype(np.float32)
        reward = steps.reward.astype(np.float32)
        if self.n_step > 1:
            return self._n_step(steps, reward, ended)
        gamma = np.full(self.rows, self.gamma, np.float32)
        whole = Transition(steps.obs, steps.action, reward, steps.next_obs, ended, gamma)
        written = Written(whole, self._every, steps.terminated | steps.truncated)
        return written if steps.valid.all() else _picked(written, steps.valid)

    def _n_step(self, steps: Steps, reward: Array, ended: Array) -> Written[Transition] | None:
        done: list[Written[Transition] | None] = []
        broken = ~steps.valid
        if broken.any():  # the step never happened: what waits ends at the last observation that was real
            waiting = range(len(self._pending))
            done += [self._release(i, broken, broken & (i == waiting[-1])) for i in waiting]
        self._extend(steps, reward, ended)
        over = steps.terminated | steps.truncated
        for i in range(len(self._pending)):
            full = len(self._pending) - i >= self.n_step
            newest = i == len(self._pending) - 1
            done.append(self._release(i, np.ones(self.rows, bool) if full else over, over & newest))
        while self._live and not self._live[0].any():
            del self._live[0], self._pending[0]
        found = [written for written in done if written is not None]
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

    def _release(self, i: int, rows: Array, last: Array) -> Written[Transition] | None:
        """What waits since step i in these rows; `last` are rows whose episode it ends."""
        out = rows & self._live[i]
        self._live[i] = self._live[i] & ~out
        return _picked(Written(self._pending[i], self._every, last), out)

    def state_dict(self) -> State:
        waiting = {str(i): dict(tree.items(p)) for i, p in enumerate(self._pending)}
        return {"pending": waiting, "live": {str(i): live for i, live in enumerate(self._live)}}

    def load_state_dict(self, state: State) -> None:
        count = len(state["live"])
        self._live = [np.asarray(state["live"][str(i)], bool) for i in range(count)]
        self._pending = [self._rebuilt(state["pending"][str(i)]) for i in range(count)]

    def _rebuilt(self, leaves: State) -> Transition:
        paths = iter([path for path, _ in tree.items(self.blank())])
        found: Transition = tree.map(lambda _: np.asarray(leaves[next(paths)]), self.blank())
        return found


def _picked(written: Written[Transition], rows: Array) -> Written[Transition] | None:
    return tree.index(written, rows) if rows.any() else None


def _like(mask: Array, leaf: Array) -> Array:
    """The row mask shaped to broadcast over a leaf."""
    return mask.reshape(-1, *([1] * (leaf.ndim - 1)))
