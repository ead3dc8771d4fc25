"""Target networks."""

from __future__ import annotations

import torch

from twofold.nets import MLP, Flat, copy_of, track


def flat(seed=0):
    return Flat(MLP(3, [4], 2, generator=torch.Generator().manual_seed(seed)))


def test_track_moves_a_share_of_the_way():
    target, online = flat(0), flat(1)
    target.values.fill_(1.0)
    online.values.fill_(3.0)
    track(target, online, 0.25)
    assert set(target.values.tolist()) == {1.5}
    assert set(online.values.tolist()) == {3.0}


def test_track_with_tau_one_copies():
    target, online = flat(0), flat(1)
    track(target, online, 1.0)
    assert torch.equal(target.values, online.values)


def test_a_copy_is_equal_but_independent():
    online = flat()
    target = Flat(copy_of(online.module))
    assert torch.equal(target.values, online.values)
    online.values.zero_()
    assert target.values.abs().sum() > 0


def test_a_copy_holds_and_asks_for_no_gradients():
    online = flat()
    online.module(torch.ones(1, 3)).sum().backward()
    copied = copy_of(online.module)
    assert all(p.grad is None and not p.requires_grad for p in copied.parameters())
    assert Flat(copied).grads.numel() == 0
    assert online.grads.abs().sum() > 0
