"""The hand-derived gradients against autograd's."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from twofold.base.errors import ConfigError
from twofold.learners.config import TD3Config
from twofold.learners.engine import Batch
from twofold.learners.fused import FusedTD3, supports
from twofold.learners.nets import Nets
from twofold.nets import MLP, Adam, Twin, track

OBS, ACTION = 5, 2


class Networks:
    """Online and target actor and critic, flattened, with their optimisers."""

    def __init__(self, hidden=(16, 12), activation="relu", dtype=torch.float64, seed=0, layer_norm=False):
        made = {"activation": activation, "layer_norm": layer_norm}
        made["generator"] = generator = torch.Generator().manual_seed(seed)
        actor = MLP(OBS, hidden, ACTION, output="tanh", **made).to(dtype)
        twin = Twin(OBS, ACTION, hidden, **made).to(dtype)
        self.nets = Nets.of(actor, twin, averaged=False)
        self.actor, self.critic = self.nets.actor, self.nets.critic
        self.target_actor, self.target_critic = self.nets.target_actor, self.nets.target_critic
        # Targets that differ from the online networks, so that a mix-up cannot pass.
        for flat in (self.target_actor, self.target_critic):
            flat.values.add_(0.1 * torch.randn(flat.values.shape, dtype=dtype, generator=generator))
        self.actor_adam, self.critic_adam = Adam(self.actor, 1e-3), Adam(self.critic, 1e-3)

    def engine(self, batch_size, **settings):
        return FusedTD3(self.nets, TD3Config(**settings), batch_size)

    def tensors(self):
        return [self.actor.values, self.critic.values, self.target_actor.values, self.target_critic.values]


def random_batch(size, seed, dtype=torch.float64):
    """Random transitions whose fields are columns of one block, as a replay hands them out, and smoothing noise."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(size, 2 * OBS + 2 * ACTION + 2, dtype=dtype, generator=generator)
    obs, action, next_obs, noise, reward, ended = rows.split([OBS, ACTION, OBS, ACTION, 1, 1], dim=1)
    discount = torch.full((size,), 0.97, dtype=dtype)
    return Batch(obs, action, reward[:, 0], next_obs, (ended[:, 0] > 1).to(dtype), discount), noise


@torch.no_grad()
def autograd_target(networks, batch, noise):
    action = (networks.target_actor.module(batch.next_obs) + noise).clamp(-1, 1)
    value = networks.target_critic.module(batch.next_obs, action).amin(dim=0)
    return batch.reward + batch.discount * (1 - batch.terminated) * value


def autograd_critic(networks, batch, target, huber=None) -> Tensor:
    networks.critic.zero_grad()
    values = networks.critic.module(batch.obs, batch.action)
    pairs = (values, target.expand_as(values))
    errors = (
        functional.mse_loss(*pairs, reduction="none")
        if huber is None
        else functional.huber_loss(*pairs, reduction="none", delta=huber)
    )
    loss = errors.mean(dim=1).sum()
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
        batch, noise = random_batch(32, seed=update)
        engine.critic_gradients(batch, engine.target(batch, batch.reward, noise))
        autograd_critic(theirs, batch, autograd_target(theirs, batch, noise))
        delayed = update % 2 == 1
        finish(ours, lambda: delayed and engine.actor_gradients(batch) is not None)  # noqa: B023
        finish(theirs, lambda: delayed and autograd_actor(theirs, batch) is not None)  # noqa: B023
    for mine, reference in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert relative_difference(mine, reference) < 1e-5
    assert relative_difference(Networks(**made).actor.values, theirs.actor.values) > 1e-3


@pytest.mark.parametrize(
    ("hidden", "huber", "layer_norm"),
    list(itertools.product([(8,), (), (7, 33, 16)], [None, 0.5], [False, True])),
)
def test_gradients_and_losses_equal_those_of_autograd(hidden, huber, layer_norm):
    networks, (batch, noise) = Networks(hidden, layer_norm=layer_norm), random_batch(19, seed=1)
    engine = networks.engine(19, huber=huber)
    target = engine.target(batch, batch.reward, noise)
    torch.testing.assert_close(target, autograd_target(networks, batch, noise))

    loss = engine.critic_gradients(batch, target)
    grads = networks.critic.grads.clone()
    torch.testing.assert_close(loss, autograd_critic(networks, batch, target, huber))
    torch.testing.assert_close(grads, networks.critic.grads)

    loss = engine.actor_gradients(batch)
    grads = networks.actor.grads.clone()
    torch.testing.assert_close(loss, autograd_actor(networks, batch))
    torch.testing.assert_close(grads, networks.actor.grads)


def test_the_actor_step_leaves_critic_gradients_and_values_alone():
    networks, (batch, _) = Networks(), random_batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch, batch.reward)
    grads, values = networks.critic.grads.clone(), engine.values.clone()
    engine.actor_gradients(batch)
    assert torch.equal(networks.critic.grads, grads)
    assert torch.equal(engine.values, values)


def test_gradients_overwrite_those_of_the_batch_before():
    networks, (batch, _) = Networks(), random_batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch, batch.reward)
    once = networks.critic.grads.clone()
    engine.critic_gradients(batch, batch.reward)
    assert torch.equal(networks.critic.grads, once)


def test_values_are_those_of_both_critics_at_the_batch():
    networks, (batch, _) = Networks(), random_batch(8, seed=1)
    engine = networks.engine(8)
    engine.critic_gradients(batch, batch.reward)
    torch.testing.assert_close(engine.values, networks.critic.module(batch.obs, batch.action).detach())


def test_target_of_a_terminated_row_is_its_reward():
    batch = replace(random_batch(4, seed=1)[0], terminated=torch.ones(4, dtype=torch.float64))
    target = Networks().engine(4).target(batch, batch.reward, None)
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
    engine, batch = networks.engine(1), Batch(obs, noise, one, obs, 0 * one, 0.9 * one)
    assert engine.target(batch, one, noise).item() == pytest.approx(1 + 0.9 * 5)
    second[-1] = 9.0
    assert engine.target(batch, one, noise).item() == pytest.approx(1 + 0.9 * 7)


def test_another_batch_size_is_served_too():
    networks = Networks()
    engine = networks.engine(8)
    for size in (8, 3, 20):
        batch, _ = random_batch(size, seed=size)
        engine.critic_gradients(batch, batch.reward)
        grads = networks.critic.grads.clone()
        autograd_critic(networks, batch, batch.reward)
        torch.testing.assert_close(grads, networks.critic.grads)


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu", "gelu", "silu"])
def test_float32_gradients_equal_those_of_autograd(activation):
    """Rows of a batch do not touch in memory: torch's own kernels with `out` were wrong there."""
    networks = Networks(activation=activation, dtype=torch.float32)
    batch, noise = random_batch(64, seed=3, dtype=torch.float32)
    engine = networks.engine(64)
    target = engine.target(batch, batch.reward, noise)
    torch.testing.assert_close(target, autograd_target(networks, batch, noise), rtol=1e-4, atol=1e-5)
    engine.critic_gradients(batch, target)
    grads = networks.critic.grads.clone()
    autograd_critic(networks, batch, target)
    torch.testing.assert_close(grads, networks.critic.grads, rtol=1e-3, atol=1e-5)
    engine.actor_gradients(batch)
    grads = networks.actor.grads.clone()
    autograd_actor(networks, batch)
    torch.testing.assert_close(grads, networks.actor.grads, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_updates_repeat_bit_for_bit(threads):
    def train():
        networks = Networks(hidden=(64, 64), dtype=torch.float32)
        engine = networks.engine(64)
        for update in range(20):
            batch, noise = random_batch(64, seed=update, dtype=torch.float32)
            engine.critic_gradients(batch, engine.target(batch, batch.reward, noise))
            finish(networks, lambda: engine.actor_gradients(batch) is not None)  # noqa: B023
        return networks.tensors()

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    pairs = list(zip(train(), train(), strict=True))
    torch.set_num_threads(before)
    assert all(torch.equal(once, again) for once, again in pairs)


def test_only_plain_networks_are_supported():
    generator = torch.Generator()

    def can(actor, critic, **settings):
        return supports(Nets.of(actor, critic, averaged=False), TD3Config(**settings))

    actor = MLP(OBS, [8], ACTION, output="tanh", generator=generator)
    critic = Twin(OBS, ACTION, [8], generator=generator)
    assert can(actor, critic)
    assert not can(actor, critic, twin=False)
    assert not can(MLP(OBS, [8], ACTION, generator=generator), critic)
    assert can(MLP(OBS, [8], ACTION, output="tanh", layer_norm=True, generator=generator), critic)
    assert can(actor, Twin(OBS, ACTION, [8], layer_norm=True, generator=generator))
    assert not can(actor, Twin(OBS + 1, ACTION, [8], generator=generator))
    assert not can(torch.nn.Linear(OBS, ACTION), critic)


def test_unsupported_networks_are_refused():
    nets = Nets.of(torch.nn.Linear(OBS, ACTION), Networks().critic.module, averaged=False)
    with pytest.raises(ConfigError, match="use engine=auto"):
        FusedTD3(nets, TD3Config())
