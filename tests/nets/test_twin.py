"""Two critics as one ensemble."""

from __future__ import annotations

import pytest
import torch

from twofold.nets.mlp import MLP
from twofold.nets.twin import Twin


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def inputs(rows=6):
    x = torch.randn(rows, 5, generator=generator(1))
    return x[:, :3], x[:, 3:]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_first_equals_the_first_of_both(layer_norm):
    twin = Twin(3, 2, [8, 7], layer_norm=layer_norm, generator=generator())
    both = twin(*inputs())
    assert both.shape == (2, 6)
    torch.testing.assert_close(twin.first(*inputs()), both[0])


def test_each_critic_is_a_network_of_its_own_on_action_and_obs():
    twin = Twin(3, 2, [8], activation="tanh", generator=generator())
    obs, action = inputs()
    for k in range(2):
        alone = MLP(5, [8], 1, activation="tanh", generator=generator())
        for mine, shared in zip(alone.layers, twin.layers, strict=True):
            mine.matrix.data = shared.matrix.data[k]
        torch.testing.assert_close(twin(obs, action)[k], alone(torch.cat([action, obs], dim=1))[:, 0])


def test_values_by_hand():
    twin = Twin(1, 1, [], generator=generator())
    twin.layers[0].matrix.data = torch.tensor([[[10.0], [1.0], [0.5]], [[20.0], [2.0], [0.25]]])
    # 10 x action + obs + bias, action 3 and obs 4
    assert twin(torch.tensor([[4.0]]), torch.tensor([[3.0]])).tolist() == [[34.5], [68.25]]


def test_the_critics_start_apart():
    twin = Twin(3, 2, [8], generator=generator())
    assert all(not torch.equal(*layer.matrix) for layer in twin.layers)


def test_layer_norm_learns_a_scale_for_each_critic():
    twin = Twin(3, 2, [8], layer_norm=True, generator=generator())
    twin(*inputs())[0].sum().backward()
    gradient = twin.norms[0].scale.grad
    assert gradient[0].abs().sum() > 0
    assert gradient[1].abs().sum() == 0
