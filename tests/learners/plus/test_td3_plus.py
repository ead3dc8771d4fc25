"""The parts that td3_plus adds to TD3, by exact numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from parts import ACTIONS, OBS, Constant, Networks, batch, small_td3
from plus_parts import plus_with, small_plus

from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.learners.plus.bounds import Bounds
from twofold.learners.plus.config import PlusConfig
from twofold.learners.plus.learner import TD3Plus
from twofold.learners.plus.policy import PlusPolicy


def test_without_its_parts_it_is_td3() -> None:
    settings: dict[str, Any] = {"n_step": 3, "actor_average": 0.9, "engine": "fused"}
    plain, plus = small_td3(**settings), small_plus(**settings)
    for update in range(6):
        for one in (plain, plus):
            one.update(batch(8, seed=update))
    ours, theirs = plus.state_dict(), plain.state_dict()
    assert ours.keys() == theirs.keys() and ours["metrics"] == theirs["metrics"]
    for name in ("actor", "critic", "target_actor", "target_critic"):
        assert torch.equal(getattr(plus.nets, name).values, getattr(plain.nets, name).values)
    acted = [
        one.policy(explore=True, rows=4, rng=np.random.default_rng(1)).act(batch(4).obs)
        for one in (plain, plus)
    ]
    assert np.array_equal(acted[0], acted[1])
    assert plus.lowest_priority is None


# ---- bounds -----------------------------------------------------------------------------------------------------


def clipped(bounds: Bounds, *values: float) -> list[float]:
    """Targets 1 + 0.5 v of these values, clipped, as values again."""
    given = torch.tensor(values)
    found = bounds.clip(1 + 0.5 * given, torch.ones(len(values)), torch.full((len(values),), 0.5))
    return ((found - 1) / 0.5).tolist()


def test_extremes_of_targets_bound_values_only_after_they_are_taken_over() -> None:
    bounds = Bounds()
    bounds.take_over()
    assert clipped(bounds, -9.0, 9.0) == [-9.0, 9.0]  # targets -3.5 and 5.5
    bounds.take_over()
    assert clipped(bounds, -9.0, 2.0, 9.0) == [-3.5, 2.0, 5.5]
    bounds.take_over()
    assert bounds.held == (-3.5, 5.5)


def test_bounds_go_on_from_their_state() -> None:
    bounds, again, fresh = Bounds(), Bounds(), Bounds()
    clipped(bounds, -2.0, 6.0)
    bounds.take_over()
    again.load_state_dict(bounds.state_dict())
    assert clipped(again, -9.0, 9.0) == [0.0, 4.0]
    fresh.load_state_dict(Bounds().state_dict())
    assert clipped(fresh, -9.0, 9.0) == [-9.0, 9.0]


@pytest.mark.parametrize("engine", ["auto", "autograd"])
def test_targets_bootstrap_from_bounded_values_in_every_engine(engine: str) -> None:
    learner = small_plus(value_clip=True, target_every=1, tau=1.0, engine=engine)
    learner.update(
        batch(4, reward=1.0, discount=0.0)
    )  # its targets are 1, so 1 is the only value from now on
    learner.update(batch(4, reward=1.0, discount=0.5))
    assert learner._target.tolist() == [1.5] * 4
    learner.update(batch(4, reward=1.0, discount=0.5, terminated=1.0))
    assert learner._target.tolist() == [1.0] * 4


def test_bounds_leave_values_within_them_alone() -> None:
    bounded, free = (
        small_plus(value_clip=clip, target_every=2, tau=1.0, critic_lr=1e-9) for clip in (True, False)
    )
    for one in (bounded, free):
        one.update(batch(8, reward=-50.0, discount=0.0))
        one.update(batch(8, reward=50.0, discount=0.0))
        one.update(batch(8, seed=2))
    assert bounded.bounds is not None and bounded.bounds.held == (-50.0, 50.0)
    assert torch.equal(bounded._target, free._target)


# ---- targets, optimisers, priorities ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["auto", "autograd"])
def test_hard_targets_are_copies_of_every_k_th_update(engine: str) -> None:
    learner = small_plus(tau=1.0, target_every=3, engine=engine)
    start = learner.nets.target_critic.values.clone()
    for update in range(1, 7):
        learner.update(batch(8, seed=update))
        assert torch.equal(learner.nets.target_critic.values, learner.nets.critic.values) == (update % 3 == 0)
        if update < 3:
            assert torch.equal(learner.nets.target_critic.values, start)


@pytest.mark.parametrize("engine", ["auto", "autograd"])
def test_the_actor_waits_for_its_critics(engine: str) -> None:
    learner = small_plus(
        actor_after=3, policy_delay=2, target_every=1, tau=1.0, actor_average=0.5, engine=engine
    )
    start, critic = learner.nets.actor.values.clone(), learner.nets.critic.values.clone()
    for update in range(1, 4):
        learner.update(batch(8, seed=update))
        assert torch.equal(learner.nets.actor.values, start)
        assert not torch.equal(learner.nets.critic.values, critic)
    learner.update(batch(8, seed=4))  # the first even update after the third
    assert learner.nets.average is not None
    moved = learner.nets.actor.values - start
    assert moved.abs().max() > 0
    assert torch.allclose(learner.nets.average.values, start + 0.5 * moved)


def test_with_many_actions_noise_is_smaller_by_the_square_of_their_ratio() -> None:
    cfg = PlusConfig(expl_noise=Schedule(0.6, 0.2, over=100), expl_noise_actions=6)
    assert cfg.for_actions(6) is cfg
    assert cfg.for_actions(12).expl_noise == Schedule(0.15, 0.05, over=100)
    assert PlusConfig(expl_noise=Schedule(0.6)).for_actions(8).expl_noise == Schedule(0.6)
    learner = small_plus(expl_noise=Schedule(0.3), expl_noise_actions=1)  # it has two actions
    policy = learner.policy(explore=True, rows=1, rng=np.random.default_rng(0))
    assert isinstance(policy, PlusPolicy)
    assert policy.inner.sigma() == pytest.approx(0.075)


def test_the_betas_of_adam_are_settings() -> None:
    learner = small_plus(adam_betas=(0.5, 0.9))
    assert learner.actor_optimiser.betas == learner.critic_optimiser.betas == (0.5, 0.9)


def test_priorities_are_powers_of_the_larger_error_and_no_lower_than_the_huber_threshold() -> None:
    nets = Networks(Constant(0.0, 0.0), Constant(3.0, -1.0))
    learner = plus_with(nets, priority=0.5, huber=4.0, critic_lr=1e-9, gamma=0.0)
    learner.update(batch(4, reward=[12.0, 2.0, -13.0, 3.0], discount=0.0))
    assert learner.priorities().tolist() == pytest.approx([13**0.5, 2.0, 4.0, 2.0])
    assert learner.lowest_priority == 2.0


# ---- what does not go together ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"priority": 0.4}, r"set learner\.huber=1\.0 as well, or learner\.priority=0"),
        ({"value_clip": True}, r"set learner\.target_every as well"),
        ({"adam_betas": (0.9, 1.0)}, r"adam_betas"),
        ({"adam_betas": (0.9,)}, r"adam_betas"),
        ({"target_every": 0}, r"target_every must be above 0"),
        ({"priority": 1.5, "huber": 1.0}, r"priority must be at most 1"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_remedy(settings: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        PlusConfig(**settings)


def test_another_device_is_refused() -> None:
    nets = Networks(Constant(0.0, 0.0), Constant(0.0, 0.0))
    nets.place = torch.device("meta")
    with pytest.raises(ConfigError, match="td3_plus learns on the CPU alone; use cpu"):
        plus_with(nets)


def test_only_vectors_are_normalised() -> None:
    with pytest.raises(
        ConfigError, match=r"learner\.normalise_obs needs observations that are a vector.*set it to false"
    ):
        TD3Plus(
            PlusConfig(normalise_obs=True),
            networks=Networks(Constant(0.0, 0.0), Constant(0.0, 0.0)),
            observation_space=Dict({"a": Box(-1, 1, (2,))}),
            action_space=ACTIONS,
            rngs=Generators(0),
        )
    assert OBS.shape == (3,)
