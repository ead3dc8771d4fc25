"""Fully connected networks."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from twofold.nets.mlp import ACTIVATIONS, MLP, Affine


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_affine_multiplies_by_all_rows_but_the_last_and_adds_that():
    layer = Affine(2, 1, generator=generator())
    layer.matrix.data = torch.tensor([[2.0], [3.0], [5.0]])
    assert layer(torch.tensor([[10.0, 100.0]])).item() == 325.0
    assert layer(torch.tensor([10.0, 100.0])).tolist() == [325.0]


def test_a_network_by_hand():
    network = MLP(1, [2], 1, generator=generator())
    network.layers[0].matrix.data = torch.tensor([[1.0, -1.0], [0.5, 0.5]])
    network.layers[1].matrix.data = torch.tensor([[10.0], [100.0], [1.0]])
    # x = 2: hidden relu(2.5), relu(-1.5) -> 2.5, 0
    assert network(torch.tensor([[2.0]])).item() == 26.0


def test_tanh_output_stays_inside_one():
    network = MLP(3, [4], 2, output="tanh", generator=generator())
    network.layers[-1].matrix.data.fill_(100.0)
    assert network(torch.ones(1, 3)).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_layer_norm_comes_between_the_product_and_the_activation(activation):
    network = MLP(3, [4], 2, activation=activation, layer_norm=True, generator=generator())
    x = torch.randn(5, 3, generator=generator(1))
    hidden = ACTIVATIONS[activation](functional.layer_norm(network.layers[0](x), (4,)))
    torch.testing.assert_close(network(x), network.layers[1](hidden))


def test_weights_are_uniform_within_one_over_the_root_of_the_inputs():
    matrix = MLP(100, [400], 1, generator=generator()).layers[0].matrix.detach()
    assert matrix.abs().max() <= 0.1
    assert matrix.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert matrix[-1].std().item() == pytest.approx(0.1 / 3**0.5, rel=0.1)  # the bias too


def test_initialisation_uses_only_the_given_generator():
    before = torch.get_rng_state()
    first, second = (MLP(3, [4], 2, generator=generator(7)).layers[0].matrix for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, MLP(3, [4], 2, generator=generator(8)).layers[0].matrix)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_unknown_activation_is_named_with_its_choices():
    with pytest.raises(ValueError, match="activation must be one of relu, tanh, elu, gelu, silu, got 'rely'"):
        MLP(1, [1], 1, activation="rely", generator=generator())
    with pytest.raises(ValueError, match="output must be one of linear, tanh"):
        MLP(1, [1], 1, output="sigmoid", generator=generator())
