import numpy as np
import pytest
import torch

from twofold.base.errors import ConfigError
from twofold.core.experience import Steps
from twofold.core.seeding import Generators
from twofold.learners.config import TD3Config
from twofold.learners.td3 import TD3
from twofold.recsys.engine import ItemAutograd, ItemEngine
from twofold.recsys.item_nets import ItemNetworks
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.worlds import make

NETS = {"embedding_dim": 8, "hidden_sizes": (16, 16), "rerank": 1, "window_size": 5}
PLAIN = {"memory": False, "learn_pairs": False, "guide": False}
REFERENCE = PLAIN | {"critic_on": "point", "positive_actions": True, "user_embedding": False}
VARIANTS = {
    "avg": {},
    "plain critic": PLAIN,
    "the reference's": REFERENCE,
    "points on the sphere": {"critic_on": "point"},
    "positive points and items": {"positive_actions": True},
    "re-ranked": {"rerank": 4},
    "re-ranked, plain": PLAIN | {"rerank": 4},
    "gru": {"tracker": "gru"},
    "gru, points": REFERENCE | {"tracker": "gru"},
    "sasrec": {"tracker": "sasrec", "num_heads": 2},
    "caser": {"tracker": "caser"},
    "nextitnet": {"tracker": "nextitnet"},
    "sasrec, re-ranked": {"tracker": "sasrec", "rerank": 4},
}


def td3(world, nets, **changes):
    made = ItemNetworks(
        ItemNetConfig(**(NETS | nets)), world.single_observation_space, world.single_action_space,
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    return TD3(TD3Config(gamma=0.9, **changes), networks=made, observation_space=world.single_observation_space,
               action_space=world.single_action_space, rngs=Generators(0))  # fmt: skip


def batches(world, learner, steps=9):
    """One batch for each turn of an episode: short windows and full ones, ends and none."""
    rows = world.num_envs
    policy = learner.policy(explore=True, rows=rows, rng=np.random.default_rng(1))
    writer = learner.writer(rows)
    obs = world.reset(seed=list(range(rows)), options={"reset_mask": np.ones(rows, bool)})[0]
    found = []
    for _ in range(steps):
        action = policy.act(obs)
        after, reward, terminated, truncated, _ = world.step(action)
        steps_now = Steps(obs, action, reward, after, terminated, truncated, np.ones(rows, bool))
        found.append(writer.step(steps_now))
        obs = after
    return [batch.items for batch in found if batch is not None]


def gradients(learner, items):
    """What one engine makes of a batch, before any step."""
    engine, nets = learner.engine, learner.nets
    batch = engine.tensors(items)
    target = engine.target(batch, batch.reward, learner._smoothing(batch.action))
    critic_loss = engine.critic_gradients(batch, target)
    found = {
        "target": target,
        "critic loss": critic_loss,
        "critic": nets.critic.grads,
        "values": engine.values,
    }
    found = {name: value.clone() for name, value in found.items()}
    actor_loss = engine.actor_gradients(batch)
    return found | {"actor loss": actor_loss, "actor": nets.actor.grads.clone()}


@pytest.fixture
def world(config):
    return make(config(leave_threshold=0.5), rows=16, purpose="train")


@pytest.mark.parametrize("name", list(VARIANTS))
def test_targets_losses_and_gradients_are_those_of_autograd(name, world):
    one, other = (td3(world, VARIANTS[name], engine=engine) for engine in ("auto", "autograd"))
    assert type(one.engine) is ItemEngine
    assert type(other.engine) is ItemAutograd
    for batch in batches(world, one):
        ours, theirs = gradients(one, batch), gradients(other, batch)
        for what, value in theirs.items():
            torch.testing.assert_close(
                ours[what], value, rtol=2e-4, atol=2e-6, msg=lambda m, w=what: f"{w}: {m}"
            )


@pytest.mark.parametrize("changes", [{"huber": 0.7}, {"twin": False}, {"policy_noise": 0.0}, {"n_step": 3}])
def test_settings_of_td3_are_those_of_autograd(changes, world):
    one, other = (td3(world, {}, engine=engine, **changes) for engine in ("auto", "autograd"))
    for batch in batches(world, one):
        ours, theirs = gradients(one, batch), gradients(other, batch)
        for what, value in theirs.items():
            torch.testing.assert_close(
                ours[what], value, rtol=2e-4, atol=2e-6, msg=lambda m, w=what: f"{w}: {m}"
            )


@pytest.mark.parametrize("name", ["avg", "re-ranked", "gru"])
def test_a_critic_that_starts_as_a_planner_has_the_gradients_of_autograd(name, config):
    world = make(config(leave_threshold=0.5, stream=True), rows=16, purpose="train")
    one, other = (td3(world, VARIANTS[name], engine=engine) for engine in ("auto", "autograd"))
    for learner in (one, other):  # it starts at zero, where hidden layers have no gradient
        learner.nets.critic.values.add_(0.05 * torch.randn(
            learner.nets.critic.values.shape, generator=torch.Generator().manual_seed(1)
        ))  # fmt: skip
    for batch in batches(world, one):
        ours, theirs = gradients(one, batch), gradients(other, batch)
        for what, value in theirs.items():
            torch.testing.assert_close(ours[what], value, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["avg", "the reference's", "gru", "re-ranked"])
def test_twenty_updates_end_at_the_weights_of_autograd(name, world):
    one, other = (td3(world, VARIANTS[name], engine=engine) for engine in ("auto", "autograd"))
    played = batches(world, one)
    for number in range(20):
        for learner in (one, other):
            learner.update(played[number % len(played)])
    for part in ("actor", "critic", "target_actor", "target_critic"):
        ours, theirs = getattr(one.nets, part).values, getattr(other.nets, part).values
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4, msg=lambda m, p=part: f"{p}: {m}")


def test_the_critic_learns_on_the_item_shown(world):
    learner = td3(world, {})
    for batch in batches(world, learner):
        obs = learner.engine.tensors(batch).obs
        nearest = learner.networks.tables.top(obs, torch.from_numpy(batch.action), 1)
        assert torch.equal(learner.engine._shown.long(), nearest)


def test_batches_may_change_their_size(world):
    learner, other = (td3(world, {}, engine=engine) for engine in ("auto", "autograd"))
    for batch in batches(world, learner):
        part = type(batch)(*({k: v[:5] for k, v in leaf.items()} if isinstance(leaf, dict) else leaf[:5]
                             for leaf in vars(batch).values()))  # fmt: skip
        for given in (batch, part):
            ours, theirs = gradients(learner, given), gradients(other, given)
            torch.testing.assert_close(ours["critic"], theirs["critic"], rtol=2e-4, atol=2e-6)


def test_dropout_is_drawn_for_what_learns_and_for_nothing_else(world):
    plain, dropping, same = (
        td3(world, {"tracker": "sasrec", "dropout_rate": rate}) for rate in (0.0, 0.5, 0.5)
    )
    batch = batches(world, plain)[-1]
    one, two, three = (gradients(learner, batch) for learner in (plain, dropping, same))
    assert torch.equal(one["target"], two["target"])
    assert not torch.allclose(one["critic"], two["critic"])
    assert not torch.allclose(one["actor"], two["actor"])
    assert torch.equal(two["critic"], three["critic"])
    drawn = dropping.rng.bit_generator.state
    acting = dropping.policy(explore=False, rows=16, rng=np.random.default_rng(0))
    assert (acting.act(batch.obs) == acting.act(batch.obs)).all()
    assert dropping.rng.bit_generator.state == drawn


def test_dropout_needs_the_engine_that_draws_it(world):
    with pytest.raises(ConfigError, match=r"engine=autograd draws no dropout"):
        td3(world, {"tracker": "sasrec", "dropout_rate": 0.5}, engine="autograd")
