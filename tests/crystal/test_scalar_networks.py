"""What the actor of the spring step is before it learns."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from twofold.base.errors import ConfigError
from twofold.crystal.features import NAMES
from twofold.crystal.networks import ScalarNetworks, ScalarsConfig
from twofold.crystal.policy import METALS, load_weights
from twofold.crystal.spring import SCALARS

NONMETAL = NAMES.index("any nonmetal")


def actor(**settings):
    spaces = (gym.spaces.Box(-3, 3, (len(NAMES),)), gym.spaces.Box(-1, 1, (len(SCALARS),)))
    cfg = ScalarsConfig(**({"actor_hidden": (80, 70)} | settings))
    return ScalarNetworks(cfg, *spaces, torch.Generator().manual_seed(1)).actor()


def seen(nonmetal):
    found = np.random.default_rng(0).uniform(-3, 3, (50, len(NAMES))).astype(np.float32)
    found[:, NONMETAL] = nonmetal
    return found


def test_from_the_prior_every_action_is_zero():
    assert (actor()(torch.from_numpy(seen(0.0))) == 0).all()


def test_from_metals_it_is_the_policy_of_metals_where_there_are_no_nonmetals():
    known, here = load_weights(METALS), seen(0.0)
    wanted = np.array([known.act(one) for one in here])
    assert np.abs(wanted).max() > 0.5
    with torch.no_grad():
        np.testing.assert_allclose(actor(start="metals")(torch.from_numpy(here)).numpy(), wanted, atol=1e-5)


def test_from_metals_it_is_the_prior_where_there_are_nonmetals():
    with torch.no_grad():
        assert (actor(start="metals")(torch.from_numpy(seen(1.0))) == 0).all()


def test_all_of_it_learns_what_to_do_with_nonmetals():
    network = actor(start="metals")
    network(torch.from_numpy(seen(1.0))).sum().backward()
    assert network.layers[-1].matrix.grad[65:-1].abs().max() > 0


@pytest.mark.parametrize(
    "wrong", [{"actor_hidden": (64, 80)}, {"actor_hidden": (80,)}, {"actor_activation": "tanh"}]
)
def test_an_actor_that_cannot_hold_the_policy_of_metals_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"at least \[65, 65\]"):
        actor(start="metals", **wrong)


def test_another_world_is_told_that_it_has_no_policy_of_metals():
    spaces = (gym.spaces.Box(-1, 1, (4,)), gym.spaces.Box(-1, 1, (2,)))
    cfg = ScalarsConfig(actor_hidden=(80, 70), start="metals")
    with pytest.raises(ConfigError, match="for the world crystal/spring"):
        ScalarNetworks(cfg, *spaces, torch.Generator()).actor()
