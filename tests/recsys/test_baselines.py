import numpy as np
import pytest

from twofold.recsys.baselines import (
    Cycle,
    EpsilonGreedy,
    Greedy,
    Random,
    baselines,
    expected_now,
    popularity,
    true_ratings,
    untried,
    would_quit,
)
from twofold.recsys.data import Dataset, from_matrix
from twofold.recsys.metrics import play
from twofold.recsys.worlds import make, prepare


def start(world):
    mask = np.ones(world.num_envs, bool)
    return world.reset(seed=list(range(world.num_envs)), options={"reset_mask": mask})[0]


def test_popularity_is_the_mean_pulled_towards_the_overall_mean():
    data = Dataset("tiny", from_matrix(np.array([[5, 1, 0], [5, 0, 0]])), 1, 5)
    overall = 11 / 3
    assert popularity(data, 2.0).tolist() == pytest.approx(
        [(10 + 2 * overall) / 4, (1 + 2 * overall) / 3, overall]
    )


def test_a_cycle_shows_its_items_in_turn(config):
    world = make(config(quit="none", leave_threshold=1e-9, cool_down=0), rows=3, purpose="FB")
    found = play(world, Cycle(world, np.array([4, 2, 9, 7]), 4), [0, 1, 2])
    assert found["items"][0, :6].tolist() == [4, 2, 9, 7, 4, 2]


def test_the_oracle_shows_the_best_item_that_does_not_end_the_episode(config):
    world = make(config(), rows=20, purpose="FB")
    start(world)
    policy = Greedy(world, true_ratings, avoid=True)
    for _ in range(3):
        items = policy.act(None)
        scores = np.where(would_quit(world), -1.0, world.feelings.tables[0].values[world.user])
        blocked = world.blocked()
        for row in range(20):
            free = np.setdiff1d(np.arange(24), blocked[row][blocked[row] >= 0])
            assert scores[row, items[row]] == scores[row, free].max()
        world.step(items)


def test_would_quit_foretells_what_the_world_does(config):
    world = make(config(), rows=20, purpose="FB")
    start(world)
    rng = np.random.default_rng(0)
    for _ in range(4):
        items = rng.integers(24, size=20)
        foretold = would_quit(world)[np.arange(20), items]
        assert (world.step(items)[2] == foretold).all()


def test_known_ratings_replace_expectations(config):
    world = make(config(), rows=4, purpose="FB")
    start(world)
    rating = world.step(np.array([3, 3, 3, 3]))[4]["rating"]
    np.testing.assert_array_equal(expected_now(world)[:, 3], rating)


def test_untried_counts_the_window_items_never_near_before(config):
    world = make(config(), rows=1, purpose="FB")
    start(world)
    world.history[0, :4] = [1, 2, 3, 1]
    world.turn[:] = 4
    found = untried(world)[0]
    assert found[2] == 0
    assert found[9] == 3


def test_epsilon_greedy_is_greedy_without_epsilon(config):
    world = make(config(), rows=6, purpose="FB")
    start(world)
    greedy = Greedy(world, true_ratings)
    mixed = EpsilonGreedy(greedy, Random(world, np.random.default_rng(0)), 0.0)
    assert (mixed.act(None) == greedy.act(None)).all()


def test_every_baseline_plays_every_mode(config):
    cfg = config()
    data, *_ = prepare(cfg)
    for mode in ("FB", "NX_0", "NX_10"):
        world = make(cfg, rows=20, purpose=mode)
        returns = {}
        for found in baselines(world, data, np.random.default_rng(0)):
            for policy in found.policies:
                played = play(world, policy, list(range(20)))
                returns[found.kind.label] = played["ratings"].sum(axis=1).mean()
        assert returns["oracle *"] >= max(returns.values()) - 1e-6


def test_coat_baselines_have_the_known_scores(coat_folder):
    """Random 28.2, popularity cycles of 8, 9 and 12 items 81.7, 82.6 and 29.7, oracle 93.6."""
    from twofold.recsys.loaders import load
    from twofold.recsys.quit import close_by_distance
    from twofold.recsys.users import Feelings, Rules, Users

    from .test_users import catalogue

    data = load("coat", coat_folder)
    rules = Rules(30, 30, 7, "intended", 0, 1, 5)
    feelings = Feelings((data.truth,), close_by_distance(data.truth, 6.0), 1)
    world = Users(290, catalogue(300, 290), feelings, rules)
    order = np.argsort(-popularity(data), kind="stable")

    def score(policy):
        return float(play(world, policy, list(range(290)))["ratings"].sum(axis=1).mean())

    cycles = [score(Cycle(world, order, n)) for n in (8, 9, 12)]
    assert cycles == pytest.approx([81.7, 82.6, 29.7], abs=0.05)
    assert score(Greedy(world, true_ratings, avoid=True)) == pytest.approx(93.6, abs=0.1)


def test_random_on_coat_with_the_reference_window_is_28(coat_folder):
    from dataclasses import replace

    from twofold.recsys.loaders import load
    from twofold.recsys.quit import close_by_distance
    from twofold.recsys.users import Feelings, Rules, Users

    from .test_users import catalogue

    data = load("coat", coat_folder)
    feelings = Feelings((data.truth,), close_by_distance(data.truth, 6.0), 1)
    rules = Rules(30, 30, 7, "compat", 0, 1, 5)
    for window, wanted in (("compat", 28.2), ("intended", 26.25)):
        world = Users(2900, catalogue(300, 290), feelings, replace(rules, quit_window=window))
        found = play(world, Random(world, np.random.default_rng(0)), list(range(2900)))
        assert found["ratings"].sum(axis=1).mean() == pytest.approx(wanted, abs=0.8)
