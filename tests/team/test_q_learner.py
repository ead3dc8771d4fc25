"""Team Q-learning: targets by hand, every mixer learns a fixed batch, states round-trip."""

import numpy as np
import pytest
import torch
from team_parts import SHAPE, as_arrays, episodes

from twofold.base import tree
from twofold.base.errors import CheckpointError, ConfigError
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.team.agents import AgentsConfig, TeamNetworks
from twofold.team.learner import QConfig, QLearner, cut
from twofold.team.learning import lambda_returns
from twofold.team.mixers import Monotonic
from twofold.team.worlds.space import TeamShape, team_space


def learner(shape=SHAPE, shared=True, **settings):
    import gymnasium as gym

    space, actions = team_space(shape), gym.spaces.MultiDiscrete([shape.actions] * shape.agents)
    nets = TeamNetworks(
        AgentsConfig(hidden=8, shared=shared), space, actions, torch.Generator().manual_seed(0)
    )
    return QLearner(
        QConfig(**settings), networks=nets, observation_space=space, action_space=actions, rngs=Generators(0)
    )


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mixer", ["none", "vdn", "qmix", "qtran"])
def test_updates_lower_the_loss_on_a_fixed_batch(mixer, shared):
    team, batch, losses = (
        learner(mixer=mixer, shared=shared, lr=3e-3, target_update_interval=1e6),
        episodes(),
        [],
    )
    for _ in range(120):
        team.update(batch)
        losses.append(team.metrics()["learner/loss"])
    assert losses[-1] < 0.5 * losses[0] and team.first_bad() is None


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mixer", ["none", "vdn", "qmix", "qtran"])
def test_gradients_equal_autograd_through_the_whole_loss(mixer, shared):
    team, batch = learner(mixer=mixer, shared=shared, grad_norm_clip=1e9), episodes()
    wanted = autograd_of(team, batch)
    team.update(batch)
    assert torch.allclose(team.online.flat.grads, wanted, atol=1e-5)


@pytest.mark.parametrize("mixer", ["none", "qmix"])
def test_without_the_library_torch_does_the_same(mixer, monkeypatch):
    native = learner(mixer=mixer)
    native.update(episodes())
    monkeypatch.setattr("twofold.nets.recurrent.sequences", lambda like: None)
    monkeypatch.setattr("twofold.team.mixing.sequences", lambda like: None)
    alone = learner(mixer=mixer)
    alone.update(episodes())
    assert alone._mixing is None
    assert torch.allclose(native.online.flat.grads, alone.online.flat.grads, rtol=1e-4, atol=1e-6)
    assert native.metrics() == pytest.approx(alone.metrics(), rel=1e-4)


def test_a_run_that_goes_on_by_another_way_says_so(monkeypatch, caplog):
    state = learner().state_dict()
    monkeypatch.setattr("twofold.team.learning.EpisodeLearner._computed", lambda self: "otherwise")
    learner().load_state_dict(state)
    assert "goes on by otherwise: equal to rounding only" in caplog.text


def autograd_of(team, batch):
    """The loss again with the step-by-step network and autograd alone."""
    from twofold.team.agents import by_agent
    from twofold.team.episodes import longest

    steps = longest(batch.filled)
    unroll = team._unroll.filled(batch, steps)

    def played(net):
        hidden, q, states = net.start(unroll.rows), [], []
        for t in range(steps + 1):
            out, hidden = net(unroll.x[:, t], hidden)
            q.append(out)
            states.append(hidden)
        memory = by_agent(torch.stack(states, 1), team.shape).permute(1, 2, 0, 3)
        return by_agent(torch.stack(q, 1), team.shape), memory

    with torch.no_grad():
        after, memory_after = played(team.target_agent)
    q, memory = played(team.agent)
    team.online.zero_grad()
    team._loss(q, after[:, 1:], memory, memory_after[1:], cut(batch, steps)).backward()
    return team.online.flat.grads.clone()


def test_padding_after_the_end_does_not_matter():
    one, other, batch = learner(mixer="qmix"), learner(mixer="qmix"), episodes()
    noisy = tree.copy(batch)
    empty = noisy.filled == 0
    noisy.reward[empty] = 1e3
    noisy.obs["obs"][:, 1:][empty] = np.where(
        np.roll(~empty, 1, axis=1)[empty][:, None, None], noisy.obs["obs"][:, 1:][empty], 7.0
    )
    one.update(batch)
    other.update(noisy)
    assert torch.allclose(one.online.flat.grads, other.online.flat.grads, atol=1e-6)


def test_the_target_of_a_terminated_step_is_its_reward_and_a_time_limit_bootstraps():
    team = learner(gamma=0.9)
    batch = episodes()
    data = cut(batch, SHAPE.limit)
    value = torch.full((SHAPE.limit, 4, SHAPE.agents), 5.0)
    target = team._target(value, data)
    ended = data.terminated.bool()
    assert torch.allclose(target[ended], data.reward[ended].unsqueeze(-1).expand(-1, 3))
    assert torch.allclose(target[~ended], (data.reward[~ended] + 4.5).unsqueeze(-1).expand(-1, 3))


def test_lambda_returns_by_hand():
    reward, mask = torch.tensor([[1.0], [2.0], [0.0]]), torch.tensor([[1.0], [1.0], [0.0]])
    going_on = torch.full((3, 1), 0.5)
    value = torch.tensor([[4.0], [8.0], [0.0]])
    last = 2 + 0.5 * 8
    first = 1 + 0.5 * (0.25 * 4 + 0.75 * last)
    assert lambda_returns(reward, going_on, value, mask, 0.75)[:2, 0].tolist() == [first, last]
    assert lambda_returns(reward, going_on, value, mask, 0.0)[:2, 0].tolist() == [3.0, 6.0]


def test_qmix_never_falls_when_an_agents_value_rises():
    mixer = Monotonic(3, 7, embed=8, hyper=8, layers=2, generator=torch.Generator().manual_seed(0))
    values, state = torch.randn(50, 3, requires_grad=True), torch.randn(50, 7)
    mixer(values, state).sum().backward()
    assert (values.grad >= 0).all() and values.grad.abs().sum() > 0


def test_double_q_lets_the_online_network_choose():
    plain, double = learner(double_q=False), learner(double_q=True)
    for team in (plain, double):
        team.online.flat.values.mul_(-1)  # the online network now prefers the worst
        team.update(episodes())
    assert double.metrics()["learner/loss"] != plain.metrics()["learner/loss"]


@pytest.mark.parametrize("interval", [3.0, 0.25])
def test_targets_follow_at_once_at_the_interval_or_a_share_at_a_time(interval):
    team = learner(target_update_interval=interval)
    before = team.target.flat.values.clone()
    for _ in range(3):
        team.update(episodes())
        if interval == 3.0 and team.updates < 3:
            assert torch.equal(team.target.flat.values, before)
    if interval == 3.0:
        assert torch.equal(team.target.flat.values, team.online.flat.values)
    else:
        assert not torch.equal(team.target.flat.values, before) and not torch.equal(
            team.target.flat.values, team.online.flat.values
        )


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_a_learner_goes_on_exactly_from_its_state(optimiser):
    one = learner(mixer="qmix", optimiser=optimiser, standardise_rewards=True)
    one.update(episodes(seed=1))
    other = learner(mixer="qmix", optimiser=optimiser, standardise_rewards=True)
    other.load_state_dict(as_arrays(one.state_dict()))
    for team in (one, other):
        team.update(episodes(seed=2))
    assert torch.equal(one.online.flat.values, other.online.flat.values) and one.metrics() == other.metrics()


def observation(rows, rng):
    obs = rng.normal(size=(rows, SHAPE.agents, SHAPE.obs)).astype(np.float32)
    avail = (rng.random((rows, SHAPE.agents, SHAPE.actions)) < 0.5).astype(np.uint8)
    avail[..., 1] = 1
    return {"obs": obs, "avail": avail}


@pytest.mark.parametrize("shared", [True, False])
def test_a_policy_acts_as_the_learner_computes(shared):
    team, rng = learner(shared=shared), np.random.default_rng(0)
    policy, batch = team.policy(explore=False, rows=4, rng=rng), episodes()
    unroll = team._unroll.filled(batch, SHAPE.limit)
    from twofold.team.agents import by_agent

    wanted = by_agent(unroll.forward(team.agent, SHAPE.limit + 1), SHAPE).clone()
    policy.reset(np.ones(4, bool))
    for t in range(SHAPE.limit):
        values = policy.values({"obs": batch.obs["obs"][:, t]})
        going = batch.filled[:, : t + 1].all(axis=1)
        assert np.allclose(values[going], wanted[:, t].transpose(0, 1)[going], atol=1e-5)
        policy.played(batch.action[:, t].astype(np.int64))


def test_no_policy_ever_takes_an_unavailable_action():
    team, rng = learner(), np.random.default_rng(0)
    policy = team.policy(explore=True, rows=5, rng=rng)
    for act in (policy.act, policy.random) * 20:
        obs = observation(5, rng)
        assert np.take_along_axis(obs["avail"], act(obs)[..., None], -1).all()


def test_epsilon_falls_with_the_world_steps_of_all_rows():
    policy = learner(epsilon_anneal_time=100.0).policy(explore=True, rows=5, rng=np.random.default_rng(0))
    for _ in range(10):
        policy.act(observation(5, np.random.default_rng(0)))
    assert policy.steps == 50 and policy.epsilon(policy.steps) == pytest.approx((1.0 + 0.05) / 2)
    assert learner().policy(explore=False, rows=1, rng=np.random.default_rng(0)).epsilon == Schedule(0.0)


def test_a_policy_goes_on_exactly_in_the_middle_of_an_episode():
    team = learner()
    one, other = (team.policy(explore=True, rows=3, rng=np.random.default_rng(4)) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(3):
        one.act(observation(3, rng))
    other.load_state_dict(as_arrays(one.state_dict()))
    other.rng.bit_generator.state = one.rng.bit_generator.state
    obs = observation(3, rng)
    assert (one.act(obs) == other.act(obs)).all()


def test_a_policy_of_other_shapes_is_refused_with_both_shapes():
    small, large = learner(), learner(TeamShape(3, 9, 7, 4, 6))
    with pytest.raises(CheckpointError, match=r"obs_is_state"):
        large.load_policy_state(as_arrays(small.policy_state()))


@pytest.mark.parametrize("bad", [{"gamma": 1.5}, {"lr": 0.0}, {"hypernet_layers": 3}, {"td_lambda": -0.1}])
def test_settings_out_of_range_are_refused(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        QConfig(**bad)
