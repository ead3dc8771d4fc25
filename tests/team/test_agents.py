"""Exploring agents: the share of random actions, and random actions that are held."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from team_parts import SHAPE

from twofold.core.schedules import Schedule
from twofold.team.agents import AgentsConfig, TeamNetworks, TeamPolicy
from twofold.team.worlds.space import team_space

ROWS = 64


def policy(epsilon, hold):
    space, actions = team_space(SHAPE), gym.spaces.MultiDiscrete([SHAPE.actions] * SHAPE.agents)
    nets = TeamNetworks(AgentsConfig(hidden=8), space, actions, torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    return TeamPolicy(nets, nets.agent(), ROWS, epsilon=Schedule(epsilon), rng=rng, hold=hold)


def chosen(acting, steps, avail=None):
    """Actions [steps, rows, A] where the best action is always the first."""
    values = np.zeros((ROWS, SHAPE.agents, SHAPE.actions), np.float32)
    values[..., 0] = 1
    avail = np.ones(values.shape, np.uint8) if avail is None else avail
    return np.stack([acting.choose(values, avail) for _ in range(steps)])


@pytest.mark.parametrize("hold", [1, 2, 8])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_the_share_of_random_actions_is_epsilon_however_long_they_are_held(epsilon, hold):
    found = chosen(policy(epsilon, hold), 400)[50:]
    other = (found != 0).mean() * SHAPE.actions / (SHAPE.actions - 1)  # a random action may be the best one
    assert other == pytest.approx(epsilon, rel=0.06)


def test_held_actions_come_in_runs_that_a_reset_or_an_unavailable_action_ends():
    acting = policy(0.05, 8)
    found = chosen(acting, 300)
    again = (found[1:] == found[:-1])[found[:-1] != 0].mean()
    assert again > 0.6  # without holding about 0.01
    assert (acting.left > 0).any()
    only = np.zeros((ROWS, SHAPE.agents, SHAPE.actions), np.uint8)
    only[..., 0] = 1
    assert (chosen(acting, 1, only) == 0).all()
    chosen(acting, 20)
    acting.reset(np.ones(ROWS, bool))
    assert (acting.left == 0).all()


def test_held_actions_go_on_from_a_saved_state():
    one, other = policy(0.3, 8), policy(0.3, 8)
    chosen(one, 10)
    other.load_state_dict(one.state_dict())
    other.rng = np.random.default_rng(1)
    one.rng = np.random.default_rng(1)
    np.testing.assert_array_equal(chosen(one, 20), chosen(other, 20))
