"""Who sits where: fixed policies that play some seats of a team, episode by episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from twofold.base.errors import ConfigError
from twofold.core.experience import Array, Obs
from twofold.core.protocols import Policy, State
from twofold.store.policy_file import LoadedPolicy


@runtime_checkable
class Remembers(Protocol):
    """A policy whose agents remember their last actions: what was played, not what they would have played."""

    def played(self, actions: Array) -> None: ...


@dataclass(frozen=True)
class Group:
    """Seats for one policy of these candidates, redrawn for every episode."""

    seats: int
    candidates: tuple[int, ...]  # places in the list of policies


def greedy(policy: LoadedPolicy, rows: int) -> Policy:
    """A loaded policy for this many rows, as it acts when it counts; it draws nothing."""
    return policy.learner.policy(explore=False, rows=rows, rng=np.random.default_rng(0))


class Seating:
    """Plays the seats of all groups for N rows; the first `free` seats of each row's order are left to a learner."""

    def __init__(
        self,
        policies: list[Policy],
        groups: list[Group],
        *,
        agents: int,
        free: int,
        rows: int,
        rotate: bool,
    ) -> None:
        taken = sum(group.seats for group in groups)
        if taken + free != agents:
            raise ConfigError(
                f"the team has {agents} seats: {taken} for partners and {free} for the learner are not that"
            )
        self.groups, self.agents, self.free, self.rotate = groups, agents, free, rotate
        self.policies = policies
        self.order = np.tile(np.arange(agents), (rows, 1))  # [N, A]: which seat comes first, second, ...
        self.owner = np.full((rows, agents), -1)  # [N, A]: the policy that plays each seat; -1 is the learner

    def deal(self, row: int, seed: int | None) -> None:
        """Seats and partners of the episode that begins in this row."""
        rng = np.random.default_rng(None if seed is None else [seed, 7])
        self.order[row] = rng.permutation(self.agents) if self.rotate else np.arange(self.agents)
        self.owner[row] = -1
        at = self.free
        for group in self.groups:
            self.owner[row, self.order[row, at : at + group.seats]] = group.candidates[
                rng.integers(len(group.candidates))
            ]
            at += group.seats

    def reset(self, rows: Array) -> None:
        for policy in self.policies:
            policy.reset(rows)

    def fill(self, obs: Obs, actions: Array) -> Array:
        """The joint actions [N, A] from the learner's [N, free], in the order of its seats."""
        joint = np.zeros(self.owner.shape, np.int64)
        np.put_along_axis(joint, self.order[:, : self.free], np.asarray(actions, np.int64), 1)
        for index in np.unique(self.owner[self.owner >= 0]):
            mine = self.owner == index
            joint[mine] = self.policies[index].act(obs)[mine]
        for policy in self.policies:
            if isinstance(policy, Remembers):
                policy.played(joint)
        return joint

    def state_dict(self) -> State:
        states = {str(i): policy.state_dict() for i, policy in enumerate(self.policies)}
        return {"order": self.order.copy(), "owner": self.owner.copy(), "policies": states}

    def load_state_dict(self, state: State) -> None:
        self.order, self.owner = np.array(state["order"]), np.array(state["owner"])
        for i, policy in enumerate(self.policies):
            policy.load_state_dict(state["policies"][str(i)])
