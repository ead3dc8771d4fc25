"""The numpy mirror of an actor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twofold.nets import MLP, Flat
from twofold.nets.acting import NumpyActor


def actor(**settings):
    return MLP(5, [16, 12], 2, generator=torch.Generator().manual_seed(0), **settings)


def observations(rows):
    return np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)


@torch.no_grad()
def expected(module, obs):
    return module(torch.from_numpy(obs)).numpy()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "gelu", "silu"])
def test_actions_equal_those_of_the_module(activation, layer_norm):
    module = actor(activation=activation, layer_norm=layer_norm, output="tanh")
    mirror = NumpyActor(module)
    for rows in (1, 7, 1):
        np.testing.assert_allclose(
            mirror.act(observations(rows)), expected(module, observations(rows)), rtol=1e-4, atol=1e-6
        )


def test_a_linear_output_is_not_squashed():
    module = actor()
    module.layers[-1].matrix.data.fill_(10.0)
    np.testing.assert_allclose(
        NumpyActor(module).act(observations(3)), expected(module, observations(3)), rtol=1e-5
    )
    assert NumpyActor(module).act(observations(3)).max() > 1


def test_weights_that_move_in_place_are_seen_at_once():
    flat = Flat(actor(output="tanh"))
    mirror = NumpyActor(flat.module)
    flat.values.mul_(0.5)
    np.testing.assert_allclose(mirror.act(observations(1)), expected(flat.module, observations(1)), rtol=1e-5)


def test_weights_that_moved_to_other_memory_are_seen_after_refresh():
    module = actor(output="tanh")
    mirror = NumpyActor(module)
    flat = Flat(module)
    flat.values.mul_(0.5)
    mirror.refresh()
    np.testing.assert_allclose(mirror.act(observations(1)), expected(module, observations(1)), rtol=1e-5)


def test_an_action_is_not_overwritten_by_the_next():
    mirror = NumpyActor(actor(output="tanh"))
    first = mirror.act(observations(1))
    kept = first.copy()
    mirror.act(np.ones((1, 5), np.float32))
    assert np.array_equal(first, kept)
