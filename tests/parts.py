"""Small worlds and learners that tests build with."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from twofold.base import tree
from twofold.base.signals import Stopped
from twofold.core.experience import Transition, Written
from twofold.core.seeding import Generators
from twofold.core.trainer import Trainer
from twofold.learners.actor_critic import ActorCritic
from twofold.learners.config import TD3Config
from twofold.learners.td3 import TD3
from twofold.learners.vector import VectorConfig, VectorNetworks
from twofold.store.policy_file import make_learner

OBS = Box(-np.inf, np.inf, (3,), np.float32)
ACTIONS = Box(-1.0, 1.0, (2,), np.float32)


def small_td3(seed: int = 0, hidden: tuple[int, ...] = (8,), **settings: Any) -> TD3:
    """A TD3 for three observations and two actions."""
    cfg = VectorConfig(actor_hidden=hidden, critic_hidden=hidden)
    nets = VectorNetworks(cfg, OBS, ACTIONS, torch.Generator().manual_seed(seed))
    return TD3(
        TD3Config(**settings),
        networks=nets,
        observation_space=OBS,
        action_space=ACTIONS,
        rngs=Generators(seed),
    )


class Constant(nn.Module):
    """A critic pair that answers two constants, or an actor that answers one action."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs: Tensor, action: Tensor | None = None) -> Tensor:
        if action is None:
            return self.values.expand(len(obs), -1)
        return self.values[:, None].expand(-1, len(obs))


class Networks(ActorCritic):
    """Networks given ready-made."""

    def __init__(self, actor: nn.Module, critic: nn.Module) -> None:
        self._actor, self._critic, self.action_space = actor, critic, ACTIONS

    def actor(self) -> nn.Module:
        return self._actor

    def critic(self) -> nn.Module:
        return self._critic


def td3_with(actor: nn.Module, critic: nn.Module, **settings: Any) -> TD3:
    """A TD3 around two given modules."""
    return TD3(
        TD3Config(**settings),
        networks=Networks(actor, critic),
        observation_space=OBS,
        action_space=ACTIONS,
        rngs=Generators(0),
    )


def batch(size: int = 4, seed: int = 0, **fixed: Any) -> Transition:
    """Random transitions; `fixed` replaces fields by constants."""
    rng = np.random.default_rng(seed)
    fields = {
        "obs": rng.standard_normal((size, 3)),
        "action": rng.uniform(-1, 1, (size, 2)),
        "reward": rng.standard_normal(size),
        "next_obs": rng.standard_normal((size, 3)),
        "terminated": np.zeros(size),
        "discount": np.full(size, 0.99),
    }
    for name, value in fixed.items():
        fields[name] = np.broadcast_to(np.asarray(value, float), fields[name].shape)
    return Transition(**{name: np.array(value, np.float32) for name, value in fields.items()})


def numbered(first: int, count: int) -> Transition:
    """Items whose reward is their number."""
    items = batch(count)
    return Transition(
        items.obs,
        items.action,
        np.arange(first, first + count, dtype=np.float32),
        items.next_obs,
        items.terminated,
        items.discount,
    )


def written(items: Any, row: int = 0, last: bool = False) -> Written[Any]:
    """Items of one row; with `last`, the last of them ends its episode."""
    count = len(tree.leaves(items)[0])
    ends = np.zeros(count, bool)
    ends[-1:] = last
    return Written(items, np.full(count, row), ends)


class Counter(gym.Env[Any, Any]):
    """Counts its steps; the observation is (seed, step, last action); ends or is cut after `length` steps."""

    def __init__(self, length: int = 5, terminates: bool = True, low: Any = -1.0, high: Any = 1.0) -> None:
        self.length, self.terminates = length, terminates
        self.observation_space = OBS
        low, high = np.broadcast_to(low, (2,)), np.broadcast_to(high, (2,))
        self.action_space = Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        self.actions: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.start = 0, float(self.np_random.random())
        return self._obs(0.0), {}

    def _obs(self, last: float) -> Any:
        return np.array([self.start, self.steps, last])

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.actions.append(np.array(action))
        over = self.steps >= self.length
        info = {"episode": {"won": 1.0}} if over else {}
        return self._obs(float(action[0])), 1.0, over and self.terminates, over and not self.terminates, info


def stop_at(trainer: Trainer[Any], step: int) -> None:
    """Train until a signal comes in the middle of an episode at `step`."""
    collect = trainer._collect

    def collected() -> None:
        collect()
        if trainer.steps >= step:
            trainer.stop.received = 15

    trainer._collect = collected  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        trainer.train()


__all__ = [
    "ACTIONS",
    "OBS",
    "Constant",
    "Counter",
    "Networks",
    "batch",
    "make_learner",
    "numbered",
    "small_td3",
    "td3_with",
    "written",
]
