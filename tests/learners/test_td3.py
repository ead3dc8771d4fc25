"""TD3's equations with exact numbers, and the bugs of well-known codes as tests of the right behaviour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from native_parts import needs_native
from parts import Constant, batch, small_td3, td3_with
from torch import Tensor, nn

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.core.schedules import Schedule, Span
from twofold.learners.config import TD3Config
from twofold.learners.engine import Autograd
from twofold.learners.fused import FusedTD3
from twofold.learners.td3 import TD3
from twofold.store.checkpoint import pack, unpack


def target_of(learner: TD3, items: Any, noise: Tensor | None = None) -> Tensor:
    seen = learner.engine.tensors(items)
    return learner.engine.target(seen, learner._reward(seen.reward), noise)


def through_a_file(state: Any) -> Any:
    arrays, rest = pack(state)
    return unpack(rest, {k: v.copy() for k, v in arrays.items()})


def weights(learner: TD3) -> bytes:
    nets = learner.nets
    parts = (nets.actor, nets.critic, nets.target_actor, nets.target_critic)
    return b"".join(flat.values.numpy().tobytes() for flat in parts)


class Echo(nn.Module):
    """An actor whose action shows which observation it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, obs: Tensor) -> Tensor:
        return obs[:, :2] * self.scale


class SumOfActions(nn.Module):
    """A critic pair that values an action by the sum of its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        return action.sum(dim=1) * self.scale[:, None]


# ---- the target ----


def test_target_takes_the_smaller_of_the_two_critics() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(5.0, 7.0))
    target = target_of(learner, batch(1, reward=1.0, discount=0.9))
    assert target.item() == pytest.approx(1.0 + 0.9 * 5.0)


def test_target_bootstraps_through_a_time_limit() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(5.0, 7.0))
    assert target_of(learner, batch(1, reward=1.0, terminated=0.0, discount=0.9)).item() == pytest.approx(5.5)


def test_target_of_a_terminal_step_is_its_reward() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(5.0, 7.0))
    assert target_of(learner, batch(1, reward=1.0, terminated=1.0)).item() == 1.0


def test_target_discounts_by_the_number_of_steps_in_the_item() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(2.0, 2.0))
    assert target_of(learner, batch(1, reward=1.0, discount=0.9**3)).item() == pytest.approx(1 + 0.729 * 2)


def test_target_action_comes_from_the_next_observation() -> None:
    learner = td3_with(Echo(), SumOfActions())
    target = target_of(learner, batch(1, obs=0.1, next_obs=0.4, reward=0.0, discount=1.0))
    assert target.item() == pytest.approx(0.8)


def test_smoothed_target_action_is_clamped_to_the_bounds() -> None:
    learner = td3_with(Echo(), SumOfActions())
    noise = torch.tensor([[0.5, 0.5]])
    target = target_of(learner, batch(1, next_obs=0.8, reward=0.0, discount=1.0), noise)
    assert target.item() == pytest.approx(2.0)


def test_smoothing_noise_is_clipped() -> None:
    learner = small_td3(policy_noise=5.0, noise_clip=0.3)
    noise = learner._smoothing(torch.zeros(500, 2))
    assert noise is not None and noise.abs().max().item() == pytest.approx(0.3)


def test_ddpg_uses_the_first_critic_and_no_noise() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(7.0, 5.0), twin=False, policy_noise=0.0, policy_delay=1)
    assert target_of(learner, batch(1, reward=1.0, discount=0.9)).item() == pytest.approx(1 + 0.9 * 7)
    assert learner._smoothing(torch.zeros(1, 2)) is None


def test_reward_scale_scales_what_the_critics_see() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(0.0, 0.0), reward_scale=5.0)
    assert target_of(learner, batch(1, reward=2.0)).item() == 10.0


def test_a_reward_below_the_floor_counts_as_the_floor_which_sinks_on_its_schedule() -> None:
    floor = Schedule(-6.0, -106.0, after=10, over=100, per="update")
    learner = td3_with(Constant(0.0, 0.0), Constant(0.0, 0.0), reward_floor=floor)
    seen = {}
    for learner.updates in (0, 10, 60, 110, 500):
        seen[learner.updates] = target_of(learner, batch(1, reward=-100.0)).item()
    assert seen == {0: -6.0, 10: -6.0, 60: -56.0, 110: -100.0, 500: -100.0}
    assert target_of(learner, batch(1, reward=-5.0)).item() == -5.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward_floor": Schedule(-6.0, -100.0)},
        {"lr_decay": Schedule(1.0, 0.1)},
        {"lr_decay": Schedule(2.0)},
        {"expl_noise": Schedule(0.1, 0.2, per="update")},
        {"expl_noise": Schedule(-0.1)},
    ],
)
def test_schedules_that_count_the_wrong_thing_or_leave_their_range_are_refused(
    wrong: dict[str, Schedule],
) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TD3Config(**wrong)


# ---- losses ----


def test_critic_loss_is_the_sum_of_both_mean_squared_errors() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(1.0, 3.0))
    loss = learner.engine.critic_gradients(learner.engine.tensors(batch(4)), torch.full((4,), 2.0))
    assert loss.item() == pytest.approx(1.0 + 1.0)
    assert learner.nets.critic.grads.tolist() == pytest.approx([-2.0, 2.0])


def test_huber_loss_is_linear_beyond_its_threshold() -> None:
    learner = td3_with(Constant(0.0, 0.0), Constant(0.0, 0.0), huber=1.0)
    loss = learner.engine.critic_gradients(learner.engine.tensors(batch(4)), torch.full((4,), 3.0))
    assert loss.item() == pytest.approx(2 * (3.0 - 0.5))


def test_actor_climbs_the_first_critic_at_its_own_action() -> None:
    learner = td3_with(Echo(), SumOfActions())
    items = batch(1)
    items.obs[:] = [0.2, 0.3, 0.0]
    assert learner.engine.actor_gradients(learner.engine.tensors(items)).item() == pytest.approx(-0.5)
    assert learner.nets.actor.grads.item() == pytest.approx(-0.5)


def test_actor_step_leaves_the_critic_gradients_alone() -> None:
    learner = small_td3(engine="autograd")
    learner.update(batch(8))
    before = learner.nets.critic.grads.clone()
    learner.engine.actor_gradients(learner.engine.tensors(batch(8, seed=1)))
    assert torch.equal(learner.nets.critic.grads, before)


# ---- the schedule of updates ----


@pytest.mark.parametrize("engine", [pytest.param("native", marks=needs_native), "fused", "autograd"])
def test_policy_and_targets_move_every_second_update(engine: str) -> None:
    learner = small_td3(engine=engine)
    actor, target = learner.nets.actor.values.clone(), learner.nets.target_critic.values.clone()
    learner.update(batch(8))
    assert torch.equal(learner.nets.actor.values, actor) and torch.equal(
        learner.nets.target_critic.values, target
    )
    learner.update(batch(8))
    assert not torch.equal(learner.nets.actor.values, actor)
    assert not torch.equal(learner.nets.target_critic.values, target)


def test_targets_move_by_tau() -> None:
    learner = small_td3(tau=0.25, policy_delay=1)
    old = learner.nets.target_critic.values.clone()
    learner.update(batch(8))
    wanted = 0.75 * old + 0.25 * learner.nets.critic.values
    assert torch.allclose(learner.nets.target_critic.values, wanted)


def test_gradient_clipping_bounds_the_global_norm() -> None:
    learner = small_td3(grad_clip=1e-3)
    learner.update(batch(8, reward=100.0))
    assert learner.nets.critic.grads.norm().item() <= 1.001e-3


# ---- the engines ----


def test_without_the_native_engine_plain_mlps_get_the_fused_one_and_others_autograd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("twofold.learners.choice.absent", lambda: "it was not built")
    assert isinstance(small_td3().engine, FusedTD3)
    assert isinstance(td3_with(Echo(), SumOfActions()).engine, Autograd)
    with pytest.raises(ConfigError, match="engine=fused needs"):
        td3_with(Echo(), SumOfActions(), engine="fused")


def test_fused_and_autograd_engines_agree_in_the_learner() -> None:
    one, other = small_td3(engine="fused"), small_td3(engine="autograd")
    for i in range(20):
        one.update(batch(16, seed=i))
        other.update(batch(16, seed=i))
    assert torch.allclose(one.nets.actor.values, other.nets.actor.values, atol=1e-5)
    assert torch.allclose(one.nets.critic.values, other.nets.critic.values, atol=1e-5)
    assert one.metrics() == pytest.approx(other.metrics(), rel=1e-3, abs=1e-5)


# ---- options ----


def test_learning_rates_fall_linearly_from_the_named_update() -> None:
    learner = small_td3(lr_decay=Schedule(1.0, 0.5, after=2, over=4, per="update"), critic_lr=1e-3)
    seen = []
    for i in range(8):
        learner.update(batch(8, seed=i))
        seen.append(learner.critic_optimiser.lr)
    assert seen == pytest.approx([1e-3, 1e-3, 0.875e-3, 0.75e-3, 0.625e-3, 0.5e-3, 0.5e-3, 0.5e-3])


def test_the_averaged_actor_is_what_evaluation_uses_and_files_keep() -> None:
    learner = small_td3(actor_average=0.5, policy_delay=1)
    start = learner.nets.actor.values.clone()
    learner.update(batch(8))
    wanted = 0.5 * start + 0.5 * learner.nets.actor.values
    assert torch.allclose(learner.nets.average.values, wanted)
    kept = np.concatenate([np.ravel(v) for v in learner.policy_state()["actor"].values()])
    assert np.allclose(kept, wanted.numpy())
    rng, obs = np.random.default_rng(0), np.ones((1, 3), np.float32)
    greedy, exploring = (learner.policy(explore=e, rows=1, rng=rng) for e in (False, True))
    with torch.no_grad():
        assert np.allclose(greedy.act(obs), learner.nets.average.module(torch.ones(1, 3)).numpy(), atol=1e-6)
        wild = learner.nets.actor.module(torch.ones(1, 3)).numpy()
    assert np.allclose(exploring.actor(obs), wild, atol=1e-6)


def test_drawn_noise_differs_between_rows_and_stays_within_an_episode() -> None:
    learner = small_td3(expl_noise=Schedule(0.2), expl_noise_drawn=True)
    policy = learner.policy(explore=True, rows=4, rng=np.random.default_rng(0))
    policy.reset(np.ones(4, bool))
    first = policy.share.copy()
    policy.act(np.zeros((4, 3), np.float32))
    policy.reset(np.array([True, False, False, False]))
    assert len(set(first)) == 4 and policy.share[0] != first[0] and (policy.share[1:] == first[1:]).all()


def test_warm_up_actions_are_held() -> None:
    policy = small_td3(warmup_hold=Span(3)).policy(explore=True, rows=1, rng=np.random.default_rng(0))
    drawn = [tuple(policy.random(np.zeros((1, 3), np.float32))[0]) for _ in range(6)]
    assert drawn[0] == drawn[1] == drawn[2] != drawn[3] == drawn[5]


# ---- saving ----


@pytest.mark.parametrize("engine", [pytest.param("native", marks=needs_native), "fused", "autograd"])
def test_state_round_trip_goes_on_bit_for_bit(engine: str) -> None:
    one, other = small_td3(engine=engine), small_td3(seed=9, engine=engine)
    for i in range(5):
        one.update(batch(8, seed=i))
    other.load_state_dict(through_a_file(one.state_dict()))
    other.rng.bit_generator.state = one.rng.bit_generator.state  # the run keeps its generators
    assert weights(one) == weights(other) and one.metrics() == other.metrics()
    for i in range(5):
        one.update(batch(8, seed=i))
        other.update(batch(8, seed=i))
    assert weights(one) == weights(other)


def test_actor_critic_targets_and_optimisers_are_saved_apart() -> None:
    learner = small_td3()
    for i in range(4):
        learner.update(batch(8, seed=i))
    state = through_a_file(learner.state_dict())
    parts = ("actor", "critic", "target_actor", "target_critic", "actor_optimiser", "critic_optimiser")
    flat = [np.concatenate([np.ravel(x) for x in tree.leaves(state[p]) if np.ndim(x)]) for p in parts]
    assert len({x.tobytes() for x in flat}) == len(parts)
    assert state["critic_optimiser"]["step"] == 4 and state["actor_optimiser"]["step"] == 2


def test_policy_of_another_shape_is_refused_by_name() -> None:
    state = through_a_file(small_td3(hidden=(8,)).policy_state())
    with pytest.raises(ConfigError, match=r"actor\..* is \(4, 8\) in the file and \(4, 16\) here"):
        small_td3(hidden=(16,)).load_policy_state(state)


# ---- acting ----


def test_evaluation_adds_no_noise_and_draws_nothing() -> None:
    rng = np.random.default_rng(0)
    policy = small_td3(expl_noise=Schedule(1.0)).policy(explore=False, rows=1, rng=rng)
    obs = np.ones((1, 3), np.float32)
    before = rng.bit_generator.state
    assert np.array_equal(policy.act(obs), policy.act(obs))
    assert rng.bit_generator.state == before


def test_exploration_stays_within_the_bounds() -> None:
    policy = small_td3(expl_noise=Schedule(3.0)).policy(explore=True, rows=64, rng=np.random.default_rng(0))
    action = policy.act(np.ones((64, 3), np.float32))
    assert action.min() == -1 and action.max() == 1


def test_noise_follows_its_schedule_over_steps() -> None:
    noise = Schedule(0.25, 0.02, over=100, shape="exponential")
    policy = small_td3(expl_noise=noise).policy(explore=True, rows=1, rng=np.random.default_rng(0))
    assert policy.sigma() == 0.25
    for _ in range(50):
        policy.act(np.zeros((1, 3), np.float32))
    assert policy.sigma() == pytest.approx((0.25 * 0.02) ** 0.5)


def test_noise_schedule_per_episode_does_not_move_within_one() -> None:
    learner = small_td3(expl_noise=Schedule(1.0, 0.0, over=10, per="episode"))
    policy = learner.policy(explore=True, rows=1, rng=np.random.default_rng(0))
    policy.reset(np.ones(1, bool))
    for _ in range(50):
        policy.act(np.zeros((1, 3), np.float32))
    assert policy.episodes == 1 and policy.sigma() == pytest.approx(0.9)


def test_random_actions_are_uniform_over_the_whole_range() -> None:
    policy = small_td3().policy(explore=True, rows=5000, rng=np.random.default_rng(0))
    action = policy.random(np.zeros((5000, 3), np.float32))
    assert abs(action.mean()) < 0.03 and action.var() == pytest.approx(1 / 3, rel=0.05)


# ---- bad values ----


@pytest.mark.parametrize("engine", [pytest.param("native", marks=needs_native), "fused", "autograd"])
def test_first_bad_names_the_gradient_that_is_not_finite(engine: str) -> None:
    learner = small_td3(engine=engine)
    for _ in range(2):  # the next update leaves the actor alone
        learner.update(batch(8))
        assert learner.first_bad() is None
    gradients = learner.engine.critic_gradients

    def wrong(*arguments: Any) -> Tensor:
        loss = gradients(*arguments)
        learner.nets.critic.grads[0] = float("nan")
        return loss

    learner.engine.critic_gradients = wrong  # type: ignore[method-assign]
    learner.update(batch(8))
    assert learner.first_bad() == "gradient of critic.layers.0.matrix"


def test_first_bad_names_the_loss() -> None:
    learner = small_td3()
    learner.update(batch(8, reward=float("inf")))
    assert learner.first_bad() == "critic loss"


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 1.1},
        {"tau": 0.0},
        {"policy_delay": 0},
        {"actor_lr": 0.0},
        {"huber": 0.0},
        {"noise_clip": -1.0},
    ],
)
def test_values_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TD3Config(**wrong)
