"""Users one after another: what all of them showed about pairs of items, and policies that see it."""

import numpy as np
import pytest
import torch

from twofold.base import tree
from twofold.base.errors import ConfigError, UserError
from twofold.check import check_learner, check_networks
from twofold.core.seeding import Generators
from twofold.recsys.baselines import Greedy, expected_before, expected_now, remembering
from twofold.recsys.item_nets import ItemNetworks
from twofold.recsys.metrics import play_stream
from twofold.recsys.networks import ItemNetConfig
from twofold.recsys.prepare import prepare
from twofold.recsys.quit import CloseTable, redrawn
from twofold.recsys.seen import Seen
from twofold.recsys.stream import PairMemory, Stream
from twofold.recsys.streamed import PLANNER, stream_world, streamed
from twofold.recsys.worlds import evaluations, make
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.store.policy_file import make_learner

from .conftest import SMALL

STAYS, QUITS = np.array([False]), np.array([True])


def window(*items):
    return np.array([items])


def test_a_pair_that_nobody_quit_at_is_safe_for_everybody():
    memory = PairMemory(4, 0.1)
    memory.see(np.array([0]), window(1, -1), STAYS)
    np.testing.assert_allclose(memory.risk(window(1, -1))[0], [0, 0.999, 0.1, 0.1], rtol=1e-5)
    np.testing.assert_allclose(memory.risk(window(0, 2))[0, [1, 3]], [0.1, 0.19], rtol=1e-5)


def test_a_quit_puts_bayes_suspicion_on_the_untried_pairs_of_its_window():
    memory = PairMemory(4, 0.1)
    memory.see(np.array([0]), window(1, -1), STAYS)
    memory.see(np.array([0]), np.array([[1, 2, 3]]), QUITS)
    assert memory.close[0, 1] == 0
    assert memory.close[0, 2] == memory.close[3, 0] == pytest.approx(0.1 / (1 - 0.9**2))


def test_the_last_suspect_of_a_quit_is_found_when_the_others_turn_out_safe():
    memory = PairMemory(4, 0.1)
    memory.see(np.array([0]), np.array([[2, 3]]), QUITS)
    memory.see(np.array([2]), window(0, -1), STAYS)
    assert memory.close[0, 3] == pytest.approx(0.999) and memory.close[0, 2] == 0


def test_a_memory_goes_on_from_its_state():
    one, other = PairMemory(4, 0.1), PairMemory(4, 0.1)
    one.see(np.array([0]), np.array([[2, 3]]), QUITS)
    other.load_state_dict(one.state_dict())
    for memory in (one, other):
        memory.see(np.array([2]), window(0, -1), STAYS)
    np.testing.assert_array_equal(one.close, other.close)


def test_a_memory_of_too_many_pairs_is_refused():
    with pytest.raises(ConfigError, match="at most"):
        PairMemory(100_000, 0.1)


def test_a_new_graph_begins_with_an_empty_memory_and_the_old_one_tells_nothing_about_it():
    stream = Stream(PairMemory(4, 0.1), 2, block=3)
    stream.begin(np.array([0, 1]), np.array([5, 6]))
    stream.begin(np.array([0]), np.array([7]))
    assert stream.number.tolist() == [0, 0]
    stream.begin(np.array([0]), np.array([8]))
    assert stream.number.tolist() == [1, 0]
    nobody = np.zeros(2, bool)
    stream.see(np.array([0, 2]), np.array([[1], [3]]), nobody, nobody)
    assert stream.memory.safe[0, 1] and not stream.memory.safe[2, 3]


def test_who_is_still_there_when_a_new_graph_begins_keeps_the_memory_of_the_old_one():
    stream = Stream(PairMemory(4, 0.1), 2, block=2)
    nobody = np.zeros(2, bool)
    stream.begin(np.array([0, 1]), np.array([5, 6]))
    stream.see(np.array([0, 0]), np.array([[1], [1]]), nobody, nobody)
    stream.begin(np.array([0]), np.array([7]))
    risk = stream.risk(np.array([[1], [1]]))
    np.testing.assert_allclose(risk[:, 0], [0.1, 0.0], rtol=1e-5)
    np.testing.assert_allclose(stream.chance(np.array([0, 0]), np.array([[1], [1]])), [0.1, 0.0], rtol=1e-5)
    stream.begin(np.array([1]), np.array([8]))
    assert list(stream.memories) == [1]


def test_who_opened_a_stream_opens_it_again_with_an_empty_memory():
    stream = Stream(PairMemory(4, 0.1), 1, block=0)
    for seed, known in ((5, False), (6, True), (5, False)):
        stream.begin(np.array([0]), np.array([seed]))
        assert stream.memory.safe[0, 1] == known
        stream.see(np.array([0]), window(1), STAYS, STAYS)


def test_users_who_are_done_teach_nothing():
    stream = Stream(PairMemory(4, 0.1), 1, block=0)
    stream.begin(np.array([0]), np.array([5]))
    stream.see(np.array([0]), window(-1), STAYS, np.array([True]))
    stream.see(np.array([0]), window(1), STAYS, STAYS)
    assert not stream.memory.safe[0, 1]


def test_the_observation_holds_the_risk_of_every_item(config):
    world = make(config(stream=True), rows=2, purpose="FB_stream")
    obs, _ = world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    assert not obs["risk"].any()
    obs = world.step(np.array([1, 2]))[0]
    np.testing.assert_array_equal(obs["risk"], world.stream.memory.risk(world.window()))
    assert obs["risk"][0, 5] == pytest.approx(0.02)


def test_a_stream_is_judged_as_such_and_as_nothing_else(config):
    assert evaluations(config(stream=True)) == ("held_out", "FB_stream")
    assert "FB_stream" not in evaluations(config())
    with pytest.raises(UserError, match="FB_stream"):
        make(config(stream=True), rows=2, purpose="FB")


def test_every_user_comes_once_and_rows_left_over_teach_nothing(config):
    world = stream_world(config(), rows=3)
    seen = []
    see = world.stream.memory.see
    world.stream.memory.see = lambda items, *rest: (seen.append(len(items)), see(items, *rest))
    found = play_stream(world, Greedy(world, remembering), np.arange(20))
    assert len(found["return"]) == 20 and (found["return"] > 0).all()
    assert sum(seen) == found["length"].sum()


def test_a_planner_with_the_memory_of_all_loses_fewer_of_the_later_users(config):
    cfg = config(max_turn=20, leave_threshold=2.5)
    world = stream_world(cfg, rows=1)
    found = streamed(world, prepare(cfg).data, [], orders=2)
    assert (
        found[PLANNER]["second half"]["mean"] > found["greedy user model with belief"]["second half"]["mean"]
    )


def test_training_pays_the_chance_of_a_quit_and_not_its_fall(config):
    cfg = config(stream=True, quit_penalty=50.0, rating_noise=0.0, posterior=False)
    world, free = (
        make(c, rows=2, purpose="train")
        for c in (cfg, config(stream=True, rating_noise=0.0, posterior=False))
    )
    for one in (world, free):
        one.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
        one.step(np.array([1, 2]))
    risk = world._obs()["risk"][[0, 1], [5, 6]]
    paid, without = (one.step(np.array([5, 6]))[1] for one in (world, free))
    assert risk == pytest.approx(0.02)
    np.testing.assert_allclose(without - paid, 50.0 * risk, rtol=1e-5)


def test_in_a_stream_ratings_count_from_the_best_that_was_expected(config):
    world = make(config(stream=True, rating_noise=0.0, posterior=False), rows=2, purpose="train")
    world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    best = expected_before(world).max(axis=1)
    _, reward, _, _, info = world.step(np.array([1, 2]))
    np.testing.assert_allclose(reward, info["rating"] - best, atol=1e-5)


def test_simulated_users_of_a_stream_have_close_pairs_anywhere(config):
    world = make(config(stream=True, close_share=0.3), rows=1, purpose="train")
    rule, worlds = world.feelings.quit_rule, np.zeros(1000, np.int64)
    items, window = np.full(1000, 2), np.full((1000, 1), 5)
    assert rule.hits(worlds, np.arange(1000), items, window).mean() == pytest.approx(0.3, abs=0.05)


def test_a_snapshot_of_a_stream_goes_on_as_it_was(config):
    one, other = (make(config(stream=True, stream_block=2), rows=2, purpose="train") for _ in range(2))
    one.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    one.step(np.array([1, 2]))
    other.restore(one.snapshot())
    for world in (one, other):
        world.step(np.array([3, 4]))
    assert tree.equal(one._obs(), other._obs())


@pytest.mark.parametrize("changes", [{}, {"learn_pairs": False}, {"memory": False}])
def test_a_critic_that_has_learned_nothing_ranks_as_a_planner(config, changes):
    world = make(config(stream=True), rows=2, purpose="FB_stream")
    world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    world.step(np.array([1, 2]))
    obs = world.step(np.array([5, 6]))[0]
    cfg = ItemNetConfig(hidden_sizes=(8,), quit_price=0.9, **changes)
    spaces = world.single_observation_space, world.single_action_space
    critic = ItemNetworks(cfg, *spaces, torch.Generator().manual_seed(0)).critic()
    items = np.tile(np.arange(24), (2, 1))
    values = critic.of_items(Seen(obs), torch.from_numpy(items)).detach().numpy()
    known = expected_now(world) if cfg.memory else without_ratings(world)
    lost = (12 - 3) * expected_now(world).max(axis=1, keepdims=True)
    planned = known - world.catalogue.user_factors[world.user, :1] - 0.9 * obs["risk"] * lost
    np.testing.assert_allclose(values[0], planned, atol=1e-4)


def test_after_the_last_turn_there_is_nothing_that_a_quit_could_cost(config):
    world = make(config(stream=True, max_turn=2, force_length=2), rows=2, purpose="FB_stream")
    world.reset(seed=[3, 4], options={"reset_mask": np.ones(2, bool)})
    world.step(np.array([1, 2]))
    obs = world.step(np.array([5, 6]))[0]
    networks = ItemNetworks(
        ItemNetConfig(hidden_sizes=(8,)), world.single_observation_space, world.single_action_space,
        torch.Generator().manual_seed(0),
    )  # fmt: skip
    items = torch.from_numpy(np.tile(np.arange(24), (2, 1)))
    values = networks.critic().of_items(Seen(obs), items).detach().numpy()
    assert obs["risk"].any()
    np.testing.assert_allclose(
        values[0], expected_now(world) - world.catalogue.user_factors[world.user, :1], atol=1e-4
    )


def test_a_policy_that_has_learned_nothing_serves_as_the_planner(config):
    cfg = config(stream=True)
    world = make(cfg, rows=2, purpose="FB_stream")
    resolved = load("td3_rec", "synthetic_users", **SMALL, **{"env_args.stream": True}).config
    spaces = world.single_observation_space, world.single_action_space
    learner = make_learner(resolved, *spaces, Generators(0))
    start = learner.policy(explore=False, rows=2, rng=np.random.default_rng(0))
    order = np.arange(world.users)
    one, other = (play_stream(world, policy, order) for policy in (start, Greedy(world, remembering)))
    assert (
        np.mean(one["return"] == other["return"]) >= 0.9
    )  # items of equal ratings are taken in another order


def without_ratings(world):
    known = world.catalogue
    return expected_before(world) + world.belief.mean @ known.belief_factors.T


@pytest.mark.parametrize("engine", ["auto", "autograd"])
def test_learners_that_see_the_risk_keep_the_contract(engine):
    changes = {"env_args.stream": True, "learner.engine": engine}
    config = load("td3_rec", "synthetic_users", **SMALL, **changes).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == [] and check_networks(config, world) == []


def test_a_redrawn_graph_has_as_many_close_pairs():
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((20, 20)) < 0.2, 1)
    close = np.pad(upper | upper.T | np.eye(20, dtype=bool), ((0, 1), (0, 1)))
    rule = CloseTable(close[None])
    for levels in (None, rng.random(20)):
        other = redrawn(rule, rng, levels).close[0]
        assert other.sum() == close.sum() and (other == other.T).all() and (other != close).any()
        assert not other[-1].any()
