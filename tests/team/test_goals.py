"""Partners with private goals: each goes for the food that its goal names, and nobody met in tests is met before."""

import numpy as np
import pytest

pytest.importorskip("lbforaging")
from twofold.base.errors import ConfigError
from twofold.rows.check import check_world
from twofold.team.worlds.goals import Forager, GoalsConfig, goals
from twofold.team.worlds.space import shape_of

# Two foods and two players of an 8 x 8 field, as the first player sees them: y, x, level.
FOOD = [[1, 6, 2], [6, 2, 2]]
SIZE = np.array([8, 8])
OWN, MATE = [2, 2, 1], [6, 5, 1]


def seen(own=OWN, mate=MATE, food=FOOD):
    one = [*food[0], *food[1], *own, *mate]
    other = [*food[0], *food[1], *mate, *own]
    return {"obs": np.array([[one, other]], np.float32)}


@pytest.mark.parametrize(
    ("goal", "target"),
    [
        ("nearest", [6, 2]), ("farthest", [1, 6]), ("top", [1, 6]), ("bottom", [6, 2]), ("left", [6, 2]),
        ("right", [1, 6]), ("nearest_to_mate", [6, 2]), ("farthest_from_mate", [1, 6]),
    ],
)  # fmt: skip
def test_a_partner_goes_for_the_food_that_its_goal_names(goal, target):
    policy = Forager((goal,), 2, rows=1, players=2, size=SIZE)
    action = policy.act(seen())
    assert policy.target[0, 0].tolist() == target
    assert action[0, 0] in ((2,) if target == [6, 2] else (1, 4))  # south, or one of two shortest ways


def test_a_partner_stays_with_its_food_until_it_is_eaten():
    policy = Forager(("farthest",), 2, rows=1, players=2, size=SIZE)
    policy.act(seen())
    policy.act(seen(own=[1, 5, 1]))  # now the other food is farther
    assert policy.target[0, 0].tolist() == [1, 6]
    policy.act(seen(own=[1, 5, 1], food=[[6, 2, 2], [-1, -1, 0]]))
    assert policy.target[0, 0].tolist() == [6, 2]
    policy.reset(np.ones(1, bool))
    assert (policy.target == -1).all()


def test_a_partner_loads_beside_its_food_and_walks_around_others():
    policy = Forager(("top",), 2, rows=1, players=2, size=SIZE)
    assert policy.act(seen(own=[1, 5, 1]))[0, 0] == 5
    policy.reset(np.ones(1, bool))
    assert policy.act(seen(own=[1, 3, 1], mate=[1, 4, 1]))[0, 0] != 4  # somebody stands there


def test_the_world_keeps_the_contract_and_has_one_seat():
    world = goals(GoalsConfig(time_limit=20), rows=3, purpose="train")
    shape = shape_of(world.single_observation_space)
    assert (shape.agents, shape.others) == (1, 1)
    assert check_world(world, steps=60) == []


def test_two_partners_of_one_goal_eat_together():
    world = goals(GoalsConfig(met=("top",), unmet=("left",)), rows=16, purpose="train")
    obs, _ = world.reset(seed=list(range(16)), options={"reset_mask": np.ones(16, bool)})
    mate = Forager(("top",), 2, rows=16, players=1, size=SIZE)
    foraged = np.zeros(16)
    for _ in range(49):
        obs, _, _, _, info = world.step(mate.act({"obs": obs["obs"][..., :-2]}))
        foraged = np.maximum(foraged, info["episode"]["foraged"])
    assert foraged.mean() > 0.9


def test_goals_of_tests_are_never_met_before():
    trained, tested = (goals(GoalsConfig(), rows=1, purpose=p) for p in ("train", "test_partners"))
    first, second = (set(world.forager.goals) for world in (trained, tested))
    assert len(first) == len(second) == 4 and not first & second
    with pytest.raises(ConfigError, match="none in common"):
        GoalsConfig(met=("top",), unmet=("top",))
    with pytest.raises(ConfigError, match="in sight"):
        goals(GoalsConfig(id="Foraging-2s-8x8-2p-2f-coop-v3"), rows=1, purpose="train")


def test_a_nearsighted_learner_sees_what_is_near_and_its_partner_everything():
    near, all_seeing = (
        goals(GoalsConfig(sight=sight, time_limit=20), rows=64, purpose="train") for sight in (2, 0)
    )
    obs, whole = (world.reset(seed=list(range(64)))[0]["obs"][:, 0] for world in (near, all_seeing))
    things, there = (seen[:, :12].reshape(64, 4, 3) for seen in (obs, whole))
    away = np.abs(there[:, :, :2] - there[:, 2:3, :2]).max(-1)
    hidden = away > 2
    assert hidden.any() and not hidden.all(1).any()
    assert (things[hidden] == [-1, -1, 0]).all()
    np.testing.assert_array_equal(things[~hidden], there[~hidden])
    np.testing.assert_array_equal(obs[:, 12:], whole[:, 12:])
    for _ in range(10):  # the partner walks as it does beside one who sees everything
        stand = np.zeros((64, 1), np.int64)
        played = [world.step(stand)[0]["others"] for world in (near, all_seeing)]
        np.testing.assert_array_equal(*played)


def test_prey_walk_to_free_cells_the_same_way_after_a_resume():
    world, other = (goals(GoalsConfig(walks=0.5, time_limit=20), rows=64, purpose="train") for _ in range(2))
    world.reset(seed=list(range(64)))
    stand, moved = np.zeros((64, 1), np.int64), 0
    for _ in range(5):
        before = world.inner._food.copy()
        world.step(stand)
        living = before[..., 2] > 0
        apart = np.abs(world.inner._food[..., :2] - before[..., :2]).sum(-1)
        assert apart.max() <= 1 and (apart[~living] == 0).all()
        moved += apart[living].mean() / 5
        there = np.concatenate([world.inner._place, world.inner._food[..., :2]], 1)
        assert ((there >= 0) & (there < 8)).all()
        alone = np.abs(there[:, :, None] - there[:, None]).sum(-1) + 99 * np.eye(4, dtype=int)
        assert (alone[:, :, :2] > 0).all()  # nobody stands where a player does
    assert 0.3 < moved < 0.5  # half of the time, less where somebody is in the way
    other.reset(seed=[0] * 64)
    other.restore(world.snapshot())
    for _ in range(5):
        np.testing.assert_array_equal(world.step(stand)[0]["obs"], other.step(stand)[0]["obs"])


def test_a_partner_follows_its_prey():
    policy = Forager(("top",), 2, rows=1, players=2, size=SIZE, walks=True)
    policy.act(seen())
    policy.act(seen(food=[[2, 6, 2], [6, 2, 2]]))
    assert policy.target[0, 0].tolist() == [2, 6]
    policy.act(seen(food=[[7, 2, 2], [-1, -1, 0]]))  # it was caught: the other one
    assert policy.target[0, 0].tolist() == [7, 2]


def test_a_learner_that_is_told_knows_the_food_that_its_partner_goes_for():
    world = goals(GoalsConfig(tells=True, sight=2, time_limit=20), rows=64, purpose="train")
    obs, _ = world.reset(seed=list(range(64)))
    for _ in range(5):
        told = obs["obs"][:, 0, -2:].copy()
        obs, *_ = world.step(np.zeros((64, 1), np.int64))
        partner = world.seating.order[:, 1]
        np.testing.assert_array_equal(told, world.forager.target[np.arange(64), partner])
    assert {tuple(row) for row in told} > {tuple(row) for row in told[:2]}


def test_the_state_hides_nothing_and_ends_with_the_food_that_the_partner_loads():
    near, all_seeing = (goals(GoalsConfig(sight=s, tells=True), rows=64, purpose="train") for s in (2, 0))
    hidden, whole = (world.reset(seed=list(range(64)))[0] for world in (near, all_seeing))
    np.testing.assert_array_equal(hidden["state"][:, :12], whole["obs"][:, 0, :12])
    assert (hidden["state"][:, 12:] == -1).all()
    loaded = np.zeros(64, bool)
    for _ in range(20):
        wish = hidden["obs"][:, 0, -2:]
        hidden, *_ = near.step(np.zeros((64, 1), np.int64))
        food, loads = hidden["state"][:, 12:14], hidden["others"][:, 0] == 5
        marked = hidden["state"][:, 14:].reshape(64, 2, 8)  # a column for every y, then for every x
        assert (marked[~loads] == -1).all() and (marked[loads].sum(-1) == 1).all()
        np.testing.assert_array_equal(marked[loads].argmax(-1), food[loads])
        np.testing.assert_array_equal((food >= 0).all(1), loads)
        same = (food == wish).all(1)
        assert same[loads].mean() > 0.8 if loads.any() else True  # it may stand between two
        loaded |= loads
    assert loaded.mean() > 0.9
    near.reset(seed=[0] * 64)
    near.restore(all_seeing.snapshot())
    np.testing.assert_array_equal(near._view()["state"][:, 12:], all_seeing._view()["state"][:, 12:])
