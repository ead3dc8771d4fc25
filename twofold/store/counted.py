"""A policy that tells how many episodes were played with it."""

from __future__ import annotations

from twofold.base.progress import Tell
from twofold.core.experience import Array, Obs
from twofold.core.protocols import Policy, State


class Counted:
    """Acts as the policy does; every episode that ends is told."""

    def __init__(self, policy: Policy, tell: Tell) -> None:
        self._policy, self._tell, self._begun, self._rows = policy, tell, 0, 0

    def reset(self, rows: Array) -> None:
        self._begun, self._rows = self._begun + int(rows.sum()), len(rows)
        self._tell(self._begun - self._rows)
        self._policy.reset(rows)

    def act(self, obs: Obs) -> Array:
        return self._policy.act(obs)

    def random(self, obs: Obs) -> Array:
        return self._policy.random(obs)

    def state_dict(self) -> State:
        return self._policy.state_dict()

    def load_state_dict(self, state: State) -> None:
        self._policy.load_state_dict(state)
