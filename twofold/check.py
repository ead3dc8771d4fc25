"""Checking learners and networks: the contracts that types cannot say, tried on a small world of random numbers."""

from __future__ import annotations

import dataclasses

import numpy as np

from twofold.base import tree
from twofold.core.experience import Array, Item, Obs, Steps, blank_like
from twofold.core.protocols import AnyLearner, Learner, Policy, State, World
from twofold.core.replay import Ring
from twofold.core.seeding import Generators
from twofold.settings.config import Config
from twofold.store.checkpoint import pack, unpack
from twofold.store.policy_file import make_learner

ROWS, ITEMS, BATCH = 2, 24, 8


def check_learner(config: Config, world: World) -> list[str]:
    """What is wrong with the learner of a config in its world, in words; an empty list if it keeps the contract."""
    one, other = (_made(config, world) for _ in range(2))
    problems = _check_policy(_made(config, world), world)
    replay, same = (_filled(learner, world) for learner in (one, other))  # exploring may teach a learner, too
    if not len(replay):
        return [*problems, f"no item was written within {_LIMIT} steps: is an episode longer?"]
    rngs = [np.random.default_rng(0) for _ in range(2)]
    for _ in range(3):
        one.update(replay.take(rngs[0].integers(0, len(replay), BATCH)))
        other.update(same.take(rngs[1].integers(0, len(same), BATCH)))
    if bad := one.first_bad():
        problems.append(f"after three updates {bad} is not finite")
    if _bytes(one.state_dict()) != _bytes(other.state_dict()):
        problems.append("the same updates gave other weights: a learner must draw from its generators alone")
    if one.updates != 3:
        problems.append(f"`updates` is {one.updates} after three updates")
    return problems + _check_state(config, world, one) + _check_policy_state(config, world, one)


def check_networks(config: Config, world: World) -> list[str]:
    """What is wrong with the networks of a config, in words: they must be drawn from their generator alone."""
    one, other = (_made(config, world) for _ in range(2))
    if _bytes(one.policy_state()) != _bytes(other.policy_state()):
        return ["the same seed gave other weights: networks must draw from the generator they are given"]
    if not any(True for _ in one.acting.parameters()):
        return ["the network that acts has no parameters"]
    return _check_policy(one, world)


def _made(config: Config, world: World) -> AnyLearner:
    rngs = Generators(config.seed)
    return make_learner(config, world.single_observation_space, world.single_action_space, rngs)


def _started(world: World) -> Obs:
    mask = np.ones(world.num_envs, bool)
    obs, _ = world.reset(seed=list(range(world.num_envs)), options={"reset_mask": mask})
    return obs


def _check_policy(learner: Learner[Item], world: World) -> list[str]:
    """Actions of the right shape and type, within [-1, 1] or the choices, the same for the same observation."""
    obs, problems = _started(world), []
    blank = blank_like(world.single_action_space, world.num_envs)
    wanted = () if isinstance(blank, dict) else blank.shape
    for explore in (False, True):
        policy = learner.policy(explore=explore, rows=world.num_envs, rng=np.random.default_rng(0))
        policy.reset(np.ones(world.num_envs, bool))
        for name, action in (("act", policy.act(obs)), ("random", policy.random(obs))):
            if action.shape != wanted:
                problems.append(f"policy.{name} gave actions {action.shape}, the world takes {wanted}")
            elif action.dtype.kind == "f" and not (np.abs(action) <= 1 + 1e-6).all():
                problems.append(f"policy.{name} gave actions outside of [-1, 1]")
    greedy = [
        learner.policy(explore=False, rows=world.num_envs, rng=np.random.default_rng(s)) for s in (0, 1)
    ]
    for policy in greedy:
        policy.reset(np.ones(world.num_envs, bool))
    if not np.array_equal(greedy[0].act(obs), greedy[1].act(obs)):
        problems.append("the greedy policy is random: evaluations could not be compared")
    return problems


_LIMIT = 5_000


def _filled(learner: Learner[Item], world: World) -> Ring[Item]:
    """A replay of some steps that the learner's own random policy takes."""
    writer = learner.writer(world.num_envs)
    replay: Ring[Item] = Ring(1_000, writer.blank(), np.random.default_rng(0))
    policy = learner.policy(explore=True, rows=world.num_envs, rng=np.random.default_rng(0))
    obs = _started(world)
    policy.reset(np.ones(world.num_envs, bool))
    for step in range(_LIMIT):
        action = policy.random(obs)
        next_obs, reward, terminated, truncated, _ = world.step(action)
        valid = np.ones(world.num_envs, bool)
        written = writer.step(Steps(obs, action, reward, next_obs, terminated, truncated, valid))
        if written is not None:
            replay.add(written)
        if len(replay) >= ITEMS:
            break
        obs = _again(world, next_obs, terminated | truncated, step, policy)
    return replay


def _again(world: World, obs: Obs, done: Array, step: int, policy: Policy) -> Obs:
    """Start new episodes in the rows whose episode ended."""
    if not done.any():
        return obs
    seeds = [1_000 * (step + 1) + row for row in range(world.num_envs)]
    policy.reset(done)
    return world.reset(seed=list(seeds), options={"reset_mask": done})[0]


def _bytes(state: State) -> dict[str, bytes]:
    arrays, _ = pack(state)
    return {name: array.tobytes() for name, array in arrays.items()}


def _copied(state: State) -> State:
    """A state as a checkpoint gives it back."""
    arrays, rest = pack(state)
    copied: State = unpack(rest, {name: array.copy() for name, array in arrays.items()})
    return copied


def _check_state(config: Config, world: World, learner: Learner[Item]) -> list[str]:
    """A learner that is given another's state is that learner, its last metrics included."""
    fresh = _made(config, world)
    try:
        fresh.load_state_dict(_copied(learner.state_dict()))
    except (KeyError, TypeError, ValueError) as error:
        return [f"load_state_dict(state_dict()) failed: {error!r}"]
    problems = []
    if _bytes(fresh.state_dict()) != _bytes(learner.state_dict()) or fresh.updates != learner.updates:
        problems.append("load_state_dict(state_dict()) did not bring everything back")
    if fresh.metrics() != learner.metrics():
        problems.append("metrics() differ after load_state_dict: the last metrics belong to the state")
    return problems


def _check_policy_state(config: Config, world: World, learner: Learner[Item]) -> list[str]:
    """A fresh learner with the policy of another acts like it."""
    other = _made(dataclasses.replace(config, seed=config.seed + 1), world)
    other.load_policy_state(_copied(learner.policy_state()))
    obs, acted = _started(world), []
    for each in (learner, other):
        policy = each.policy(explore=False, rows=world.num_envs, rng=np.random.default_rng(0))
        policy.reset(np.ones(world.num_envs, bool))
        acted.append(policy.act(tree.copy(obs)))
    if np.array_equal(acted[0], acted[1]):
        return []
    return ["a policy that was saved and loaded acts differently: policy_state() lacks something"]
