"""COMA: the policy it differentiates is the one that plays, and it learns a matrix game's best row."""

import numpy as np
import pytest
import torch
from team_parts import SHAPE, as_arrays, episodes

from twofold.core.seeding import Generators
from twofold.team.agents import AgentsConfig, TeamNetworks
from twofold.team.coma import Coma, ComaConfig
from twofold.team.learner import cut
from twofold.team.worlds.space import team_space


def coma(**settings):
    import gymnasium as gym

    space, actions = team_space(SHAPE), gym.spaces.MultiDiscrete([SHAPE.actions] * SHAPE.agents)
    nets = TeamNetworks(AgentsConfig(hidden=8), space, actions, torch.Generator().manual_seed(0))
    return Coma(
        ComaConfig(**settings),
        networks=nets,
        observation_space=space,
        action_space=actions,
        rngs=Generators(0),
    )


def test_probabilities_are_zero_where_nothing_is_available_and_keep_their_floor():
    team = coma(epsilon_start=0.2)
    avail = torch.tensor([[True, False, True, False]])
    policy = team._probabilities(torch.tensor([[50.0, 50.0, 0.0, 0.0]]), avail)
    assert policy[0].tolist() == pytest.approx([0.9, 0.0, 0.1, 0.0], abs=1e-6)


def test_the_critic_does_not_see_the_agents_own_action_but_all_others():
    team, batch = coma(), episodes()
    data = cut(batch, 2)
    start = SHAPE.state + SHAPE.obs
    action = team._actions(data, torch.full((3, 4, 3, 4), 0.25))
    before = team._critic_inputs(batch, data, action)[0, 0, 1, start : start + 12].view(3, 4)
    assert before[1].sum() == 0 and before[0].argmax() == batch.action[0, 0, 0] and before[2].sum() == 1


def test_actions_that_pay_become_more_likely():
    team, batch = coma(lr=1e-2, critic_lr=1e-2, gamma=0.0, td_lambda=0.0), episodes(count=8)
    batch.obs["avail"][:] = 1
    batch.reward[:] = (batch.action == 2).sum(-1) * batch.filled
    for _ in range(150):
        team.update(batch)
    policy = team.policy(explore=False, rows=8, rng=np.random.default_rng(0))
    chosen = policy.act({"obs": batch.obs["obs"][:, 0], "avail": batch.obs["avail"][:, 0]})
    assert (chosen == 2).mean() > 0.8 and team.first_bad() is None


def test_a_learner_goes_on_exactly_from_its_state():
    one, other = coma(), coma()
    one.update(episodes(seed=1))
    other.load_state_dict(as_arrays(one.state_dict()))
    for team in (one, other):
        team.update(episodes(seed=2))
    assert (
        torch.equal(one.actor_weights.flat.values, other.actor_weights.flat.values)
        and one.metrics() == other.metrics()
    )


def test_the_gradients_share_of_uniform_actions_follows_the_steps_learned_from_not_a_policy():
    played, quiet = coma(), coma()
    policy = played.policy(explore=True, rows=4, rng=np.random.default_rng(0))
    for _ in range(50):
        policy.act({key: leaf[:, 0] for key, leaf in episodes().obs.items()})
    for team in (played, quiet):
        team.update(episodes())
    assert torch.equal(played.actor_weights.flat.values, quiet.actor_weights.flat.values)
    assert quiet.played == episodes().filled.sum()


def test_the_last_state_of_an_episode_has_an_action_that_the_policy_would_take():
    team, batch = coma(), episodes()
    data = cut(batch, SHAPE.limit)
    only = torch.zeros(SHAPE.limit + 1, 4, 3, 4)
    only[..., 2] = 1.0
    action, last = team._actions(data, only), batch.filled.sum(1)
    for episode, end in enumerate(last):
        assert action[end, episode].tolist() == [2, 2, 2]
        assert (action[:end, episode].numpy() == batch.action[episode, :end]).all()


def test_a_cut_episode_bootstraps_from_the_action_of_its_last_state():
    team, batch = coma(gamma=0.5, td_lambda=0.0), episodes()
    batch.terminated[:] = 0
    data = cut(batch, SHAPE.limit)
    policy = torch.zeros(SHAPE.limit + 1, 4, 3, 4)
    policy[..., 1] = 1.0
    action = team._actions(data, policy)
    inputs = team._critic_inputs(batch, data, action)
    end = int(batch.filled[0].sum())
    value = team.target_critic(inputs[end, 0])[
        :, 1
    ]  # every agent's value of action 1 in the state after the last step
    wanted = data.reward[end - 1, 0] + 0.5 * value
    assert torch.allclose(team._target(inputs, action, data)[end - 1, 0], wanted)


def test_the_critic_takes_a_step_for_each_step_of_the_longest_episode_and_the_target_counts_them():
    team, batch = coma(target_update_interval=10), episodes()
    longest = int(batch.filled.sum(1).max())
    before = team.target.flat.values.clone()
    team.update(batch)
    assert team.critic_steps == longest and torch.equal(team.target.flat.values, before)
    while team.critic_steps < 10:
        team.update(batch)
    assert torch.equal(team.target.flat.values, team.critic_weights.flat.values)
    assert team.target.copied == team.critic_steps
