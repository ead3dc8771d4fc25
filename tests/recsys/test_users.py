import gymnasium as gym
import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.data import from_matrix
from twofold.recsys.penalties import Penalties, entropy_of_next
from twofold.recsys.quit import Never, close_by_distance
from twofold.recsys.truth import Matrix
from twofold.recsys.users import Feelings, Rules, Users
from twofold.recsys.worlds import make

RATINGS = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 4.0, 3.0, 2.0]], np.float32)


def catalogue(items=4, users=2, belief=0):
    rng = np.random.default_rng(0)
    vectors = np.eye(items, dtype=np.float32)
    user = np.zeros((users + 1, 2), np.float32)
    user[:, 0] = 3.0
    factors = np.zeros((items, 2), np.float32)
    factors[:, 0] = 1.0
    return Catalogue(vectors, user, factors, rng.normal(size=(items, belief)).astype(np.float32), 0.5)


def users(rows=2, quit_rule=None, known=None, penalties=None, **rules):
    settings = {
        "max_turn": 5,
        "limit": 5,
        "window": 2,
        "quit_window": "intended",
        "block": 0,
        "low": 1,
        "high": 5,
    }
    feelings = Feelings((Matrix(RATINGS),), quit_rule or Never(), 1)
    return Users(rows, known or catalogue(), feelings, Rules(**(settings | rules)), penalties)


def start(world, seeds=None):
    mask = np.ones(world.num_envs, bool)
    return world.reset(seed=seeds or list(range(world.num_envs)), options={"reset_mask": mask})[0]


def test_the_reward_is_the_rating_of_the_item_shown():
    world = users()
    start(world)
    _, reward, *_ = world.step(np.array([3, 1]))
    assert reward.tolist() == [4.0, 4.0]


def test_consecutive_seeds_visit_every_user_once():
    world = users(rows=4)
    obs = start(world, [1000, 1001, 1002, 1003])
    assert obs["user"].ravel().tolist() == [0, 1, 0, 1]


def test_a_point_shows_the_item_it_points_to():
    world = users()
    start(world)
    _, _, _, _, info = world.step(np.array([[0.1, 0.9, 0, 0], [0, 0, 0.2, 0.1]], np.float32))
    assert info["item"].tolist() == [1, 2]


def test_blocked_items_give_way_even_where_every_score_is_negative():
    world = users(block=1)
    start(world)
    world.step(np.array([0, 0]))
    point = np.array([[-0.1, -0.9, -0.5, -0.7]] * 2, np.float32)
    assert world.step(point)[4]["item"].tolist() == [2, 2]


def test_a_user_quits_at_a_close_item_and_the_reward_is_still_paid():
    world = users(quit_rule=close_by_distance(Matrix(RATINGS), 1e-3))
    start(world)
    world.step(np.array([0, 1]))
    _, reward, terminated, truncated, info = world.step(np.array([0, 2]))
    assert terminated.tolist() == [True, False]
    assert not truncated.any()
    assert reward[0] == 1.0
    assert info["episode"]["return"].tolist() == [2.0, 7.0]


def test_the_turn_limit_cuts_but_does_not_terminate():
    world = users(limit=2)
    start(world)
    world.step(np.array([0, 0]))
    _, _, terminated, truncated, info = world.step(np.array([1, 1]))
    assert not terminated.any()
    assert truncated.all()
    assert info["episode"]["length"].tolist() == [2.0, 2.0]


def test_an_item_repeated_after_the_window_is_welcome_again():
    world = users(rows=1, quit_rule=close_by_distance(Matrix(RATINGS), 1e-3))
    start(world)
    ends = [bool(world.step(np.array([item]))[2][0]) for item in (0, 1, 2, 0)]
    assert ends == [False] * 4


def test_only_masked_rows_are_reset():
    world = users()
    start(world)
    world.step(np.array([0, 1]))
    obs, _ = world.reset(seed=[5, 6], options={"reset_mask": np.array([True, False])})
    assert obs["turn"].ravel().tolist() == [0, 1]
    assert obs["items"][1, 0] == 1
    assert obs["user"].ravel().tolist() == [1, 1]


def test_centred_rewards_are_relative_to_the_users_level_but_returns_are_raw():
    world = users(centred=True)
    start(world)
    _, reward, _, _, info = world.step(np.array([3, 0]))
    assert reward.tolist() == [1.0, 2.0]
    assert info["episode"]["return"].tolist() == [4.0, 5.0]


def test_quitting_costs_the_penalty_in_training_only():
    world = users(quit_rule=close_by_distance(Matrix(RATINGS), 1e-3), quit_penalty=10.0)
    start(world)
    world.step(np.array([0, 0]))
    _, reward, _, _, info = world.step(np.array([0, 1]))
    assert reward.tolist() == [-9.0, 4.0]
    assert info["episode"]["return"].tolist() == [2.0, 9.0]


def test_a_quit_may_cost_the_rest_of_the_episode():
    world = users(quit_rule=close_by_distance(Matrix(RATINGS), 1e-3), quit_penalty=10.0, quit_by_rest=True)
    start(world)
    world.step(np.array([0, 0]))
    _, reward, _, _, _ = world.step(np.array([0, 1]))
    assert reward.tolist() == pytest.approx([1.0 - 10.0 * (1 - 2 / world.rules.max_turn), 4.0])


def test_item_numbers_out_of_range_are_refused():
    world = users()
    start(world)
    with pytest.raises(WorldError, match=r"0\.\.3"):
        world.step(np.array([0, 4]))


def test_uncertain_items_pay_less_with_the_penalty():
    spread = Matrix(np.full((2, 4), 0.5, np.float32))
    world = users(penalties=Penalties(uncertainty=2.0, spread=spread))
    start(world)
    assert world.step(np.array([3, 0]))[1].tolist() == [3.0, 4.0]


def test_exposure_halves_the_reward_of_an_item_just_repeated():
    world = users(penalties=Penalties(exposure=1.0, vectors=catalogue().item_vectors))
    start(world)
    first = world.step(np.array([3, 3]))[1]
    second = world.step(np.array([3, 0]))[1]
    assert first.tolist() == [4.0, 2.0]
    assert second[0] == pytest.approx(2.0)  # distance 0: full exposure, 4 / (1 + 1)
    assert second[1] == pytest.approx(5.0 / (1.0 + np.exp(-1 / 10)))


def test_entropy_of_the_log_is_zero_where_one_item_always_follows():
    log = from_matrix(np.array([[1, 1, 1, 0], [1, 1, 0, 1]]))
    entropy = entropy_of_next(log, 4)
    assert entropy[0] == 0.0
    assert entropy[1] == pytest.approx(np.log(2) / np.log(4))


@pytest.mark.parametrize("purpose", ["train", "held_out", "FB", "NX_0", "NX_10"])
def test_episodes_are_a_function_of_seed_and_actions(config, purpose):
    seen = []
    for _ in range(2):
        world = make(config(), rows=6, purpose=purpose)
        start(world, [11, 12, 13, 14, 15, 16])
        rng = np.random.default_rng(1)
        seen.append([world.step(rng.integers(24, size=6))[:4] for _ in range(5)])
    for one, other in zip(*seen, strict=True):
        assert tree.equal(one[0], other[0])
        assert all((a == b).all() for a, b in zip(one[1:], other[1:], strict=True))


def test_a_restored_world_goes_on_exactly(config):
    world, copy = (make(config(), rows=5, purpose="train") for _ in range(2))
    start(world)
    start(copy, [90, 91, 92, 93, 94])
    rng = np.random.default_rng(0)
    for _ in range(3):
        world.step(rng.integers(24, size=5))
    copy.restore(world.snapshot())
    for _ in range(3):
        items = rng.integers(24, size=5)
        one, other = world.step(items), copy.step(items)
        assert tree.equal(one[0], other[0])
        assert (one[1] == other[1]).all()
        assert (one[2] == other[2]).all()


def test_observations_lie_in_the_declared_space(config):
    world = make(config(), rows=3, purpose="train")
    obs = start(world)
    for item in range(4):
        for row in range(3):
            assert world.single_observation_space.contains(tree.index(obs, row))
        obs = world.step(np.full(3, item))[0]
    assert isinstance(world.single_action_space, gym.spaces.Box)


def test_all_modes_show_observations_of_one_shape(config):
    spaces = [
        make(config(), rows=1, purpose=p).single_observation_space for p in ("train", "FB", "NX_0", "NX_10")
    ]
    assert all(space == spaces[0] for space in spaces)


def test_nx_modes_never_repeat_an_item(config):
    world = make(config(), rows=4, purpose="NX_10")
    start(world)
    point = np.ones((4, 8), np.float32)
    shown = [world.step(point)[4]["item"] for _ in range(5)]
    assert all(len(set(row)) == 5 for row in np.array(shown).T)


def test_nx_10_lasts_exactly_the_forced_length(config):
    world = make(config(leave_threshold=1e9), rows=2, purpose="NX_10")
    start(world)
    ends = [world.step(np.full(2, item))[2:4] for item in range(5)]
    assert [bool(truncated.all()) for _, truncated in ends] == [False] * 4 + [True]
    assert not any(terminated.any() for terminated, _ in ends)


def test_an_item_keeps_its_rating_all_through_a_simulated_episode(config):
    world = make(config(quit="none", rating_noise=2.0), rows=30, purpose="train")
    start(world)
    first = world.step(np.full(30, 3))[4]["rating"]
    world.step(np.full(30, 5))
    assert (world.step(np.full(30, 3))[4]["rating"] == first).all()
    assert len(np.unique(first)) > 1
