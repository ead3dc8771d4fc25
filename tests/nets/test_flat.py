"""Flat parameters and Adam on them."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from twofold.nets import MLP, Adam, Flat, Twin, copy_of


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def network(seed=0, layer_norm=False):
    return MLP(3, [4], 2, layer_norm=layer_norm, generator=generator(seed))


def lose(module, seed=1):
    """A loss whose gradient reaches every parameter."""
    return module(torch.randn(5, 3, generator=generator(seed))).square().sum()


def test_parameters_are_views_of_the_values():
    flat = Flat(network())
    flat.values.fill_(2.0)
    assert all((parameter == 2.0).all() for parameter in flat.module.parameters())
    assert flat.values.numel() == 4 * 4 + 5 * 2


def test_flattening_keeps_every_value():
    flat, plain = Flat(network(layer_norm=True)), network(layer_norm=True)
    for ours, theirs in zip(flat.module.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_autograd_accumulates_into_the_grads():
    flat, plain = Flat(network()), network()
    lose(flat.module).backward()
    lose(plain).backward()
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in plain.parameters()])
    torch.testing.assert_close(flat.grads, expected)
    lose(flat.module).backward()
    torch.testing.assert_close(flat.grads, 2 * expected)
    flat.zero_grad()
    assert flat.grads.abs().sum() == 0
    lose(flat.module).backward()
    torch.testing.assert_close(flat.grads, expected)


def test_views_survive_load_state_dict():
    flat, other = Flat(network(0)), Flat(network(1))
    memory = flat.values.data_ptr()
    flat.module.load_state_dict(other.module.state_dict())
    assert torch.equal(flat.values, other.values)
    assert flat.values.data_ptr() == memory == next(flat.module.parameters()).data_ptr()
    flat.values.zero_()
    assert lose(flat.module).item() == 0.0


def test_clip_scales_to_the_norm_and_returns_the_one_before():
    flat = Flat(nn.Linear(2, 1, bias=False))
    flat.grads.copy_(torch.tensor([3.0, 4.0]))
    assert flat.clip_(10.0).item() == 5.0
    assert flat.grads.tolist() == [3.0, 4.0]
    assert flat.clip_(1.0).item() == 5.0
    assert flat.grads.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_a_module_of_mixed_types_is_refused():
    with pytest.raises(ValueError, match="mixes dtypes"):
        Flat(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double()))
    with pytest.raises(ValueError, match="no parameters"):
        Flat(nn.ReLU())


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_equals_that_of_torch(dtype, weight_decay):
    flat, plain = Flat(network().to(dtype)), network().to(dtype)
    ours = Adam(flat, 1e-2, weight_decay=weight_decay)
    theirs = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=weight_decay)
    for step in range(30):
        x = torch.randn(5, 3, dtype=dtype, generator=generator(step))
        for module, clear in ((flat.module, flat.zero_grad), (plain, theirs.zero_grad)):
            clear()
            module(x).square().sum().backward()
        if step == 15:
            ours.lr = theirs.param_groups[0]["lr"] = 1e-3
        ours.step()
        theirs.step()
    torch.testing.assert_close(flat.values, torch.cat([p.detach().reshape(-1) for p in plain.parameters()]))


def test_the_first_step_of_adam_has_the_size_of_the_learning_rate():
    flat = Flat(nn.Linear(2, 1, bias=False))
    flat.values.zero_()
    flat.grads.copy_(torch.tensor([3.0, -0.01]))
    Adam(flat, 0.5).step()
    assert flat.values.tolist() == pytest.approx([-0.5, 0.5], rel=1e-4)


def test_adam_continues_exactly_from_its_state():
    def train(adam, steps):
        for step in steps:
            adam.flat.grads.copy_(torch.randn(adam.flat.grads.shape, generator=generator(step)))
            adam.step()

    straight = Adam(Flat(network()), 1e-2)
    train(straight, range(6))
    stopped = Adam(Flat(network()), 1e-2)
    train(stopped, range(3))
    state = stopped.state_dict()
    resumed = Adam(Flat(copy_of(stopped.flat.module).requires_grad_(True)), 1e-2)
    resumed.load_state_dict({**state, "step": json.loads(json.dumps(state["step"]))})
    train(stopped, range(3, 6))  # the state is a copy, which later steps do not touch
    train(resumed, range(3, 6))
    assert torch.equal(resumed.flat.values, straight.flat.values)
    assert torch.equal(resumed.second, straight.second)
    assert resumed.state_dict()["step"] == 6


def test_adam_refuses_the_state_of_another_network():
    small = Adam(Flat(network()), 1e-3)
    large = Adam(Flat(Twin(3, 2, [4], generator=generator())), 1e-3)
    with pytest.raises(ValueError, match="optimiser state is for 26 parameters"):
        large.load_state_dict(small.state_dict())
