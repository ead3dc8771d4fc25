"""The second head: what users take, as a reward, as a feature and as candidates."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.check import check_learner, check_networks
from twofold.core.seeding import Generators
from twofold.learners.config import TD3Config
from twofold.learners.td3 import TD3
from twofold.recsys import taking as taking_module
from twofold.recsys.data import Ratings
from twofold.recsys.item_nets import ItemNetworks
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.peers import ease, sasrec, taken
from twofold.recsys.seen import Seen
from twofold.recsys.taking import fit_taking, kept_taking
from twofold.recsys.worlds import make
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.store import spaces
from twofold.store.checkpoint import pack, unpack

from .conftest import SMALL


@pytest.fixture
def log():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((8, 12)) < 0.3)
    names = tuple(map(str, range(8))), tuple(map(str, range(12)))
    return Ratings(
        users.astype(np.int32), items.astype(np.int32), np.ones(len(users), np.float32), None, *names
    )


def test_the_likeliest_are_those_of_ease_without_what_was_rated(log):
    found, users = fit_taking(log, "ease", 4, 1.0), np.arange(8)
    scores = np.where(taken(log, users) > 0, -np.inf, ease(log, 1.0)(users))
    np.testing.assert_array_equal(found.items[:8], np.argsort(-scores, axis=1, kind="stable")[:, :4])
    best = np.take_along_axis(scores, found.items[:8, :1], axis=1)[:, 0]
    np.testing.assert_allclose(found.of(users, found.items[:8, :1])[:, 0], best.clip(0, 1), rtol=1e-6)


def test_a_user_never_seen_takes_what_most_users_took(log):
    found = fit_taking(log, "ease", 3, 1.0)
    counts = np.bincount(log.items, minlength=12)
    assert counts[found.items[-1]].tolist() == sorted(counts, reverse=True)[:3]
    assert found.of(np.array([-1]), found.items[-1:, :1])[0, 0] == pytest.approx(counts.max() / 8)


def test_who_knows_the_order_gives_chances_beside_the_likeliest(log, monkeypatch):
    monkeypatch.setattr(taking_module, "sasrec", partial(sasrec, steps=20))
    found = fit_taking(log, "sasrec", 4, 1.0)
    assert (found.scores[:-1, 0] == 1).all() and (np.diff(found.scores[:-1], axis=1) <= 0).all()
    assert not (np.take_along_axis(taken(log, np.arange(8)), found.items[:-1], axis=1)).any()


def test_both_heads_together_are_the_geometric_mean_of_their_chances(log, monkeypatch):
    monkeypatch.setattr(taking_module, "sasrec", partial(sasrec, steps=20))
    timed, users = replace(log, times=np.arange(len(log), dtype=float)), np.arange(8)
    beside, after = (fit_taking(timed, by, 12, 1.0) for by in ("ease", "sasrec"))
    found = fit_taking(timed, "auto", 4, 1.0)  # a log with times: both
    chances = np.sqrt(np.maximum(beside.of(users, found.items[:8]), 1e-6) * after.of(users, found.items[:8]))
    np.testing.assert_allclose(found.scores[:8], chances / chances[:, :1], rtol=1e-4)
    assert (np.diff(found.scores[:8], axis=1) <= 0).all()
    np.testing.assert_array_equal(found.items, fit_taking(timed, "both", 4, 1.0).items)


def test_who_says_what_users_take_is_fitted_once(log, tmp_path, monkeypatch):
    first = kept_taking(log, "auto", 4, 1.0, tmp_path)
    np.testing.assert_array_equal(first.items, fit_taking(log, "ease", 4, 1.0).items)  # a log without times
    monkeypatch.setattr(taking_module, "fit_taking", None)
    again = kept_taking(log, "auto", 4, 1.0, tmp_path)
    np.testing.assert_array_equal(first.scores, again.scores)
    with pytest.raises(TypeError):
        kept_taking(log, "auto", 4, 2.0, tmp_path)


def step(world, item):
    world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    first = world.step(np.array(item))[1]
    return first, world.step(np.array(item))[1]


def test_taking_is_paid_once_in_an_episode(config):
    settings = {"quit": "none", "rating_noise": 0.0, "posterior": False, "take_weight": 7.0, "cool_down": 0}
    rating, taking, both = (
        make(config(reward=kind, **settings), rows=2, purpose="train") for kind in ("rating", "taken", "both")
    )
    known = taking.catalogue.taking
    items = known.items[[3, 4], 0]
    first, again = step(taking, items)
    np.testing.assert_allclose(first, 7.0 * known.scores[[3, 4], 0], rtol=1e-6)
    assert again.tolist() == [0.0, 0.0] and first.max() > 0
    np.testing.assert_allclose(step(both, items)[0], step(rating, items)[0] + first, rtol=1e-6)


@pytest.mark.parametrize(("kind", "weights"), [("rating", (1, 0)), ("taken", (0, 1)), ("both", (1, 1))])
def test_the_choice_of_a_policy_sees_what_training_pays_for(config, kind, weights):
    settings = {"quit": "none", "rating_noise": 0.0, "take_weight": 7.0, "cool_down": 0}
    world = make(config(reward=kind, **settings), rows=2, purpose="held_out")
    known = make(config(reward="both", **settings), rows=2, purpose="held_out").catalogue.taking
    world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    _, paid, _, _, info = world.step(known.items[[3, 4], 0])
    _, again, _, _, after = world.step(known.items[[3, 4], 0])
    taken = 7.0 * known.scores[[3, 4], 0]
    np.testing.assert_allclose(paid, weights[0] * info["rating"] + weights[1] * taken, rtol=1e-6)
    np.testing.assert_allclose(after["episode"]["return"], paid + again, rtol=1e-6)


def test_evaluation_pays_ratings_alone(config):
    one, other = (make(config(reward=kind), rows=2, purpose="FB") for kind in ("rating", "both"))
    np.testing.assert_array_equal(step(one, [1, 2])[0], step(other, [1, 2])[0])


def made(world, seed=0, **changes):
    cfg = ItemNetConfig(
        **({"hidden_sizes": (16,), "rerank": 4, "shortlist": 2, "take_shortlist": 3} | changes)
    )
    spaces_of = world.single_observation_space, world.single_action_space
    nets = ItemNetworks(cfg, *spaces_of, torch.Generator().manual_seed(seed))
    return TD3(
        TD3Config(),
        networks=nets,
        observation_space=spaces_of[0],
        action_space=spaces_of[1],
        rngs=Generators(0),
    )


def test_the_likeliest_are_candidates_and_the_critic_sees_how_likely(config):
    world = make(config(reward="both", quit="none"), rows=2, purpose="train")
    obs = world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})[0]
    tables, known = made(world).networks.tables, world.catalogue.taking
    obs = world.step(known.items[[3, 4], 0])[0]
    seen = Seen(tree.map(torch.from_numpy, obs))
    likeliest = tables.likeliest(seen, 3).numpy()
    np.testing.assert_array_equal(likeliest[:, 1:], known.items[[3, 4], 1:3])  # the first rests now
    critic = made(world).nets.critic.module
    features = critic.candidates(seen, torch.from_numpy(known.items[[3, 4], :3])).detach()
    np.testing.assert_allclose(features[:, 1:, -1], known.scores[[3, 4], 1:3], rtol=1e-6)
    assert features[:, 0, -1].tolist() == [0.0, 0.0]  # shown in this episode already


def test_a_critic_that_has_learned_nothing_adds_up_both_heads(config):
    world = make(config(reward="both", quit="none"), rows=2, purpose="train")
    obs = world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})[0]
    learner, known = made(world, take_worth=7.0), world.catalogue
    items = known.taking.items[[3, 4], :3]
    values = learner.nets.critic.module.of_items(Seen(obs), torch.from_numpy(items)).detach().numpy()
    felt = known.expected(world.user[:, None], items) - known.user_factors[world.user, :1]
    np.testing.assert_allclose(values[1], felt + 7.0 * known.taking.scores[[3, 4], :3], atol=1e-4)


def test_a_policy_keeps_what_users_take(config):
    world = make(config(reward="taken", quit="none"), rows=2, purpose="train")
    one = made(world)
    world_spaces = (world.single_observation_space, world.single_action_space)
    seen, acts = (spaces.from_json(spaces.to_json(space)) for space in world_spaces)
    nets = ItemNetworks(one.networks.cfg, seen, acts, torch.Generator().manual_seed(9))
    other = TD3(TD3Config(), networks=nets, observation_space=seen, action_space=acts, rngs=Generators(1))
    arrays, rest = pack(one.policy_state())
    other.load_policy_state(unpack(rest, arrays))
    obs = world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})[0]
    acted = [p.policy(explore=False, rows=2, rng=np.random.default_rng(0)).act(obs) for p in (one, other)]
    np.testing.assert_array_equal(*acted)


@pytest.mark.parametrize("engine", ["auto", "autograd"])
def test_learners_that_are_paid_for_taking_keep_the_contract(engine):
    changes = {"env_args.reward": "both", "learner.engine": engine}
    config = load("td3_rec", "synthetic_users", **SMALL, **changes).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == [] and check_networks(config, world) == []


def test_a_worthless_taking_is_refused():
    with pytest.raises(ConfigError, match="take_weight"):
        load("td3_rec", "synthetic_users", **{"env_args.take_weight": 0})
