"""State-action embeddings: the hand-derived engine against autograd, and what is frozen and renewed when."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from native_parts import needs_native
from parts import ACTIONS, OBS, batch
from plus_parts import sale_learner

from twofold.base.errors import ConfigError
from twofold.core.seeding import Generators
from twofold.learners.config import TD3Config
from twofold.learners.plus.learner import TD3Plus
from twofold.learners.plus.sale import SaleConfig, SaleNetworks
from twofold.learners.td3 import TD3
from twofold.nets.sale import avg_l1


def all_values(one: TD3Plus) -> list[torch.Tensor]:
    nets, sale = one.nets, one.sale
    assert sale is not None
    flats = (nets.actor, nets.critic, nets.target_actor, nets.target_critic, sale.encoder)
    return [flat.values for flat in flats]


def flat(module: Any) -> torch.Tensor:
    return torch.cat([p.reshape(-1) for p in module.parameters()])


def test_avg_l1_has_a_mean_absolute_value_of_one() -> None:
    assert avg_l1(torch.tensor([[1.0, -3.0]])).tolist() == [[0.5, -1.5]]
    assert avg_l1(torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]


VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"critic_layer_norm": True, "critic_activation": "relu"}, {"huber": 0.1, "value_clip": True}),
    ({"encoder_activation": "tanh", "actor_activation": "elu"}, {"grad_clip": 0.5, "weight_decay": 0.1}),
    ({}, {"normalise_obs": True, "n_step": 3, "tau": 0.5}),
]


ENGINES = ["fused", pytest.param("native", marks=needs_native)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("networks", "settings"), VARIANTS)
def test_forty_updates_equal_those_of_autograd(
    networks: dict[str, Any], settings: dict[str, Any], engine: str
) -> None:
    by_hand, by_autograd = (sale_learner(networks, engine=kind, **settings) for kind in (engine, "autograd"))
    start = [values.clone() for values in all_values(by_hand)]
    for update in range(40):
        for one in (by_hand, by_autograd):
            one.update(batch(16, seed=update, terminated=float(update % 5 == 0)))
        torch.testing.assert_close(
            by_hand.critic_loss, by_autograd.critic_loss, rtol=2e-3, atol=1e-4, check_dtype=False
        )
    for ours, theirs, before in zip(all_values(by_hand), all_values(by_autograd), start, strict=True):
        moved = (theirs - before).abs().max()
        assert (ours - theirs).abs().max() < 0.02 * moved


@pytest.mark.parametrize("engine", ENGINES)
def test_gradients_of_one_batch_equal_those_of_autograd(engine: str) -> None:
    by_hand, by_autograd = (sale_learner(engine=kind) for kind in (engine, "autograd"))
    losses: list[Any] = []
    for one in (by_hand, by_autograd):
        seen, following = one._seen(batch(7, seed=1))
        assert one.sale is not None
        found = [one.sale.encoder_gradients(seen, following), one.engine.critic_gradients(seen, seen.reward)]
        losses.append([float(loss) for loss in (*found, one.engine.actor_gradients(seen))])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-6)
    assert by_hand.sale is not None and by_autograd.sale is not None
    pairs = ((by_hand.sale.encoder, by_autograd.sale.encoder), (by_hand.nets.critic, by_autograd.nets.critic))
    for ours, theirs in (*pairs, (by_hand.nets.actor, by_autograd.nets.actor)):
        torch.testing.assert_close(ours.grads, theirs.grads, rtol=1e-3, atol=1e-6)
        assert theirs.grads.abs().max() > 1e-4
    torch.testing.assert_close(by_hand.engine.values, by_autograd.engine.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_actor_s_step_does_not_depend_on_what_was_looked_at_before(engine: str) -> None:
    one = sale_learner(engine=engine)
    seen, other = one._seen(batch(7, seed=1))[0], one._seen(batch(7, seed=2))[0]
    one.engine.critic_gradients(seen, seen.reward)
    one.engine.actor_gradients(seen)
    after_critics = one.nets.actor.grads.clone()
    one.engine.actor_gradients(other)
    one.engine.actor_gradients(seen)
    assert torch.equal(one.nets.actor.grads, after_critics)


@pytest.mark.parametrize("engine", [*ENGINES, "autograd"])
def test_the_frozen_encoders_are_one_renewal_old_and_those_of_the_targets_two(engine: str) -> None:
    one = sale_learner(engine=engine)
    nets: Any = one.nets
    critic, target = nets.critic.module.encoder, nets.target_critic.module.encoder
    assert one.sale is not None
    seen = []
    for update in range(1, 10):
        one.update(batch(8, seed=update))
        seen.append(one.sale.encoder.values.clone())
    assert torch.equal(flat(critic), seen[8]) and torch.equal(flat(target), seen[5])
    assert torch.equal(flat(nets.actor.module.state), flat(critic.state))


def test_soft_targets_move_the_frozen_encoders_by_the_same_share() -> None:
    one = sale_learner(tau=0.25, target_every=1, policy_delay=1)
    nets: Any = one.nets
    before = flat(nets.critic.module.encoder).clone()
    one.update(batch(8))
    after = flat(nets.critic.module.encoder)
    assert one.sale is not None
    torch.testing.assert_close(after, 0.75 * before + 0.25 * one.sale.encoder.values)
    state = flat(nets.actor.module.state)
    torch.testing.assert_close(state, after[: len(state)])


def test_embeddings_predict_one_step_also_where_returns_sum_three() -> None:
    one, other = sale_learner(n_step=3), sale_learner(n_step=3)
    items, near = batch(8, seed=1), batch(8, seed=2).obs
    assert isinstance(one.writer(1).blank().obs, dict)
    assert not isinstance(sale_learner().writer(1).blank().obs, dict)
    one.update(dataclasses.replace(items, obs={"now": items.obs, "following": near}))
    other.update(dataclasses.replace(items, next_obs=near))
    assert one.sale is not None and other.sale is not None
    assert torch.equal(one.sale.encoder.values, other.sale.encoder.values)
    assert not torch.equal(one.nets.critic.values, other.nets.critic.values)


@pytest.mark.parametrize("norm", [False, True])
def test_the_numpy_critics_equal_the_module_also_after_updates(norm: bool) -> None:
    one = sale_learner({"critic_layer_norm": norm})
    judge = one.networks.values(one.nets)
    for update in range(4):
        one.update(batch(8, seed=update))
    items = batch(6, seed=9)
    with torch.no_grad():
        wanted = one.nets.critic.module(torch.from_numpy(items.obs), torch.from_numpy(items.action)).numpy()
    np.testing.assert_allclose(judge(items.obs, items.action), wanted, rtol=1e-5, atol=1e-6)
    assert wanted.shape == (2, 6) and np.ptp(wanted) > 1e-3


@pytest.mark.parametrize("normalise", [False, True])
def test_the_numpy_actor_equals_the_module(normalise: bool) -> None:
    one = sale_learner(normalise_obs=normalise, actor_average=0.5)
    for update in range(4):
        one.update(batch(8, seed=update))
    if one.normaliser is not None:
        one.normaliser.observe(3 * batch(50).obs)
    obs = batch(4).obs
    acted = one.policy(explore=False, rows=4, rng=np.random.default_rng(0)).act(obs)
    np.testing.assert_allclose(
        acted, one.acting(torch.from_numpy(obs)).detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("engine", ["auto", "fused", "autograd"])
def test_a_resumed_learner_goes_on_exactly_with_the_engine_it_began_with(engine: str) -> None:
    settings: dict[str, Any] = {
        "normalise_obs": True,
        "value_clip": True,
        "priority": 0.4,
        "huber": 1.0,
    }
    one, other = sale_learner(engine=engine, **settings), sale_learner(seed=1, **settings)
    for update in range(4):
        one.update(batch(8, seed=update))
    other.load_state_dict(one.state_dict())
    assert other.metrics() == one.metrics() and "encoder/loss" in one.metrics()
    assert type(other.engine) is type(one.engine) and other.sale is other.engine
    other.rng.bit_generator.state = one.rng.bit_generator.state
    for update in range(4, 8):
        one.update(batch(8, seed=update))
        other.update(batch(8, seed=update))
    for ours, theirs in zip(all_values(one), all_values(other), strict=True):
        assert torch.equal(ours, theirs)
    assert np.array_equal(one.priorities(), other.priorities())


def test_a_broken_encoder_is_named() -> None:
    one = sale_learner()
    one.update(batch(8))
    assert one.first_bad() is None and one.sale is not None
    one.sale.encoder.grads[3] = torch.nan
    assert one.first_bad() == "the loss or a gradient of the encoder"


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"twin": False}, r"networks\.name=sale need learner\.twin=true"),
    ],
)
def test_what_embeddings_do_not_go_with_is_refused(settings: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        sale_learner(**settings)


def test_weight_decay_leaves_frozen_encoders_alone() -> None:
    one = sale_learner(weight_decay=0.5, target_every=9)
    nets: Any = one.nets
    frozen = flat(nets.critic.module.encoder).clone()
    one.update(batch(8))
    one.update(batch(8))
    assert torch.equal(flat(nets.critic.module.encoder), frozen)
    assert one.critic_optimiser.first.numel() == len(nets.critic.values) - len(frozen)


def test_plain_td3_refuses_networks_whose_embeddings_it_would_not_teach() -> None:
    nets = SaleNetworks(SaleConfig(width=8, embedding=4), OBS, ACTIONS, torch.Generator())
    made: dict[str, Any] = {"observation_space": OBS, "action_space": ACTIONS, "rngs": Generators(0)}
    with pytest.raises(ConfigError, match=r"only learner\.name=td3_plus teaches"):
        TD3(TD3Config(), networks=nets, **made)
