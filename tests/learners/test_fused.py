"""The hand-derived gradients against autograd's."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from twofold.nets.fused import FusedTD3, supports

from twofold.nets import MLP, Adam, Flat, Twin, copy_of, track

OBS, ACTION = 5, 2


class Networks:
    """Online and target actor and critic, flattened, with their optimisers."""

    def __init__(self, hidden=(16, 12), activation="relu", dtype=torch.float64, seed=0, **critic):
        generator = torch.Generator().manual_seed(seed)
        actor = MLP(OBS, hidden, ACTION, activation=activation, output="tanh", generator=generator).to(dtype)
        twin = Twin(OBS, ACTION, hidden, activation=activation, generator=generator, **critic).to(dtype)
        self.actor, self.critic = Flat(actor), Flat(twin)
        self.target_actor, self.target_critic = Flat(copy_of(actor)), Flat(copy_of(twin))
        # Targets that differ from the online networks, so that a mix-up cannot pass.
        for flat in (self.target_actor, self.target_critic):
            flat.values.add_(0.1 * torch.randn(flat.values.shape, dtype=dtype, generator=generator))
        self.actor_adam, self.critic_adam = Adam(self.actor, 1e-3), Adam(self.critic, 1e-3)

    def engine(self, batch_size):
        networks = (self.actor, self.critic, self.target_actor, self.target_critic)
        return FusedTD3(*networks, batch_size)

    def tensors(self):
        return [self.actor.values, self.critic.values, self.target_actor.values, self.target_critic.values]


class Batch:
    """Random transitions whose fields are columns of one block, as a replay hands them out."""

    def __init__(self, size, seed, dtype=torch.float64):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(size, 2 * OBS + 2 * ACTION + 3, dtype=dtype, generator=generator)
        widths = [OBS, ACTION, OBS, ACTION, 1, 1, 1]
        self.obs, self.action, self.next_obs, self.noise, reward, ended, weight = rows.split(widths, dim=1)
        self.reward, self.terminated, self.weights = (
            reward[:, 0],
            (ended[:, 0] > 1).to(dtype),
            weight[:, 0].abs(),
        )
        self.discount = torch.full((size,), 0.97, dtype=dtype)


@torch.no_grad()
def autograd_target(networks, batch):
    action = (networks.target_actor.module(batch.next_obs) + batch.noise).clamp(-1, 1)
    value = networks.target_critic.module(batch.next_obs, action).amin(dim=0)
    return batch.reward + batch.discount * (1 - batch.terminated) * value


def autograd_critic(networks, batch, target, huber=None, weights=None) -> Tensor:
    networks.critic.zero_grad()
    values = networks.critic.module(batch.obs, batch.action)
    pairs = (values, target.expand_as(values))
    errors = (
        functional.mse_loss(*pairs, reduction="none")
        if huber is None
        else functional.huber_loss(*pairs, reduction="none", delta=huber)
    )
    loss = (errors if weights is None else errors * weights).mean(dim=1).sum()
    loss.backward()
    return loss.detach()


def autograd_actor(networks, batch) -> Tensor:
    networks.actor.zero_grad()
    loss = -networks.critic.module.first(batch.obs, networks.actor.module(batch.obs)).mean()
    loss.backward()
    return loss.detach()


def finish(networks, improve_actor):
    """What follows the critic's gradients in one update of TD3."""
    networks.critic_adam.step()
    if improve_actor():
        networks.actor_adam.step()
        track(networks.target_critic, networks.critic, 0.005)
        track(networks.target_actor, networks.actor, 0.005)


def relative_difference(ours, theirs):
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "gelu", "silu"])
def test_a_hundred_updates_equal_those_of_autograd(activation, layer_norm):
    made = {"activation": activation, "layer_norm": layer_norm}
    ours, theirs = Networks(**made), Networks(**made)
    engine = ours.engine(32)
    for update in range(100):
        batch = Batch(32, seed=update)
        target = engine.target(batch.next_obs, batch.reward, batch.discount, batch.terminated, batch.noise)
        engine.critic_gradients(batch.obs, batch.action, target)
        autograd_critic(theirs, batch, autograd_target(theirs, batch))
        delayed = update % 2 == 1
        finish(ours, lambda: delayed and engine.actor_gradients(batch.obs) is not None)  # noqa: B023
        finish(theirs, lambda: delayed and autograd_actor(theirs, batch) is not None)  # noqa: B023
    for mine, reference in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert relative_difference(mine, reference) < 1e-5
    assert relative_difference(Networks(**made).actor.values, theirs.actor.values) > 1e-3


@pytest.mark.parametrize(
    ("hidden", "huber", "weighted", "layer_norm"),
    list(itertools.product([(8,), (), (7, 33, 16)], [None, 0.5], [False, True], [False, True])),
)
def test_gradients_and_losses_equal_those_of_autograd(hidden, huber, weighted, layer_norm):
    networks, batch = Networks(hidden, layer_norm=layer_norm), Batch(19, seed=1)
    weights = batch.weights if weighted else None
    engine = networks.engine(19)
    target = engine.target(batch.next_obs, batch.reward, batch.discount, batch.terminated, batch.noise)
    torch.testing.assert_close(target, autograd_target(networks, batch))

    loss = engine.critic_gradients(batch.obs, batch.action, target, huber=huber, weights=weights)
    grads = networks.critic.grads.clone()
    torch.testing.assert_close(loss, autograd_critic(networks, batch, target, huber, weights))
    torch.testing.assert_close(grads, networks.critic.grads)

    loss = engine.actor_gradients(batch.obs)
    grads = networks.actor.grads.clone()
    torch.testing.assert_close(loss, autograd_actor(networks, batch))
    torch.testing.assert_close(grads, networks.actor.grads)


def test_the_actor_step_leaves_critic_gradients_and_values_alone():
    networks, batch = Networks(), Batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch.obs, batch.action, batch.reward)
    grads, values = networks.critic.grads.clone(), engine.values.clone()
    engine.actor_gradients(batch.obs)
    assert torch.equal(networks.critic.grads, grads)
    assert torch.equal(engine.values, values)


def test_gradients_overwrite_those_of_the_batch_before():
    networks, batch = Networks(), Batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch.obs, batch.action, batch.reward)
    once = networks.critic.grads.clone()
    engine.critic_gradients(batch.obs, batch.action, batch.reward)
    assert torch.equal(networks.critic.grads, once)


def test_values_are_those_of_both_critics_at_the_batch():
    networks, batch = Networks(), Batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch.obs, batch.action, batch.reward)
    torch.testing.assert_close(engine.values, networks.critic.module(batch.obs, batch.action).detach())


def test_target_of_a_terminated_row_is_its_reward():
    batch = Batch(4, seed=1)
    ended = torch.ones(4, dtype=torch.float64)
    target = Networks().engine(4).target(batch.next_obs, batch.reward, batch.discount, ended, None)
    assert torch.equal(target, batch.reward)


def test_target_bootstraps_from_the_smaller_critic_at_the_clamped_action():
    networks = Networks(hidden=())
    networks.target_actor.values.fill_(0.0)
    networks.target_actor.values[-ACTION:] = 100.0  # tanh saturates: the action is 1 before and after noise
    networks.target_critic.values.fill_(0.0)
    first, second = networks.target_critic.values.view(2, OBS + ACTION + 1)
    first[0], first[-1] = 3.0, 4.0  # 3 x first action + 4 = 7
    second[-1] = 5.0
    obs, one = torch.zeros(1, OBS, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    noise = torch.full((1, ACTION), 0.5, dtype=torch.float64)
    engine = networks.engine(1)
    assert engine.target(obs, one, 0.9 * one, 0 * one, noise).item() == pytest.approx(1 + 0.9 * 5)
    second[-1] = 9.0
    assert engine.target(obs, one, 0.9 * one, 0 * one, noise).item() == pytest.approx(1 + 0.9 * 7)


def test_errors_are_values_minus_targets():
    networks, batch = Networks(), Batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch.obs, batch.action, batch.reward)
    assert torch.equal(engine.errors(), engine.values - batch.reward)


def test_another_batch_size_is_served_too():
    networks = Networks()
    engine = networks.engine(8)
    for size in (8, 3, 20):
        batch = Batch(size, seed=size)
        engine.critic_gradients(batch.obs, batch.action, batch.reward)
        grads = networks.critic.grads.clone()
        autograd_critic(networks, batch, batch.reward)
        torch.testing.assert_close(grads, networks.critic.grads)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_updates_repeat_bit_for_bit(threads):
    def train():
        networks = Networks(hidden=(64, 64), dtype=torch.float32)
        engine = networks.engine(64)
        for update in range(20):
            batch = Batch(64, seed=update, dtype=torch.float32)
            target = engine.target(
                batch.next_obs, batch.reward, batch.discount, batch.terminated, batch.noise
            )
            engine.critic_gradients(batch.obs, batch.action, target)
            finish(networks, lambda: engine.actor_gradients(batch.obs) is not None)  # noqa: B023
        return networks.tensors()

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    pairs = list(zip(train(), train(), strict=True))
    torch.set_num_threads(before)
    assert all(torch.equal(once, again) for once, again in pairs)


def test_only_plain_networks_are_supported():
    generator = torch.Generator()
    actor = MLP(OBS, [8], ACTION, output="tanh", generator=generator)
    critic = Twin(OBS, ACTION, [8], generator=generator)
    assert supports(actor, critic)
    assert not supports(MLP(OBS, [8], ACTION, generator=generator), critic)
    assert not supports(MLP(OBS, [8], ACTION, output="tanh", layer_norm=True, generator=generator), critic)
    assert supports(actor, Twin(OBS, ACTION, [8], layer_norm=True, generator=generator))
    assert not supports(actor, Twin(OBS, ACTION, [8], outputs=3, generator=generator))
    assert not supports(actor, Twin(OBS + 1, ACTION, [8], generator=generator))
    assert not supports(torch.nn.Linear(OBS, ACTION), critic)


def test_an_unsupported_pair_is_refused():
    with pytest.raises(ValueError, match="use autograd"):
        Networks(outputs=3).engine(8)
