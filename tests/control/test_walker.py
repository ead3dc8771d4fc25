"""FastWalker against Gymnasium's environment, and its training-only options."""

import copy
import math
from collections.abc import Callable
from typing import Any

import Box2D
import gymnasium
import numpy as np
import pytest
from gymnasium.envs.box2d.bipedal_walker import LIDAR_RANGE, BipedalWalker, BipedalWalkerHeuristics
from gymnasium.utils.env_checker import check_env

from twofold.control.walker import FastWalker

NAMES = {False: "BipedalWalker-v3", True: "BipedalWalkerHardcore-v3"}
Policy = Callable[[np.ndarray], np.ndarray]


def random_policy(seed: int, dtype: type = np.float32) -> Policy:
    """Actions of which some are beyond the bounds and some zero."""
    rng = np.random.default_rng(seed)
    return lambda obs: (rng.uniform(-1.3, 1.3, 4) * (rng.random(4) < 0.9)).astype(dtype)


def walking_policy(seed: int, dtype: type = np.float32) -> Policy:
    """Gymnasium's hand-written gait with a little noise."""
    rng, gait = np.random.default_rng(seed), BipedalWalkerHeuristics()
    return lambda obs: (gait.step_heuristic(obs) + rng.normal(0, 0.02, 4)).astype(dtype)


def held(env: gymnasium.Env, action: np.ndarray, repeat: int) -> tuple[np.ndarray, float, bool, bool]:
    """Step up to `repeat` times with one action, stopping when the episode ends."""
    total = 0.0
    for _ in range(repeat):
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            break
    return obs, total, terminated, truncated


def play(env: gymnasium.Env, seed: int, policy: Policy, repeat: int = 1) -> list[tuple[Any, ...]]:
    """Every step of an episode: observation, reward, terminated, truncated."""
    obs, _ = env.reset(seed=seed)
    steps: list[tuple[Any, ...]] = [(obs, 0.0, False, False)]
    while not (steps[-1][2] or steps[-1][3]):
        steps.append(held(env, policy(steps[-1][0]), repeat))
    return steps


def assert_same_episode(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    """Equal to the last bit."""
    assert len(one) == len(other)
    for (obs, *rest), (other_obs, *other_rest) in zip(one, other, strict=True):
        np.testing.assert_array_equal(obs, other_obs)
        assert rest == other_rest


@pytest.mark.parametrize("hardcore", [False, True])
@pytest.mark.parametrize("policy", [random_policy, walking_policy])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_episodes_equal_gymnasiums_to_the_last_bit(hardcore, policy, dtype):
    fast = FastWalker(hardcore)  # one instance for all: Gymnasium needs a new one for each episode
    for seed in range(3):
        expected = play(gymnasium.make(NAMES[hardcore]), seed, policy(seed, dtype))
        assert_same_episode(play(fast, seed, policy(seed, dtype)), expected)


@pytest.mark.parametrize("repeat", [2, 3])
@pytest.mark.parametrize("policy", [random_policy, walking_policy])
def test_repeat_equals_stepping_gymnasium_so_many_times(repeat, policy):
    fast = FastWalker(True, repeat)
    for seed in range(10, 13):
        expected = play(gymnasium.make(NAMES[True]), seed, policy(seed), repeat)
        assert_same_episode(play(fast, seed, policy(seed)), expected)


def carry(walker: BipedalWalker, right: float, up: float) -> None:
    """Move the whole walker."""
    for body in (walker.hull, *walker.legs):
        body.position = (body.position.x + right, body.position.y + up)
    walker.prev_shaping += 130 * right / 30


@pytest.mark.parametrize("seed", range(6))
def test_frames_among_the_obstacles_equal_gymnasiums(seed):
    rng, policy = np.random.default_rng(seed), random_policy(seed)
    fast = FastWalker(True)
    for right in rng.uniform(5, 80, 4):
        theirs = gymnasium.make(NAMES[True])
        for env in (fast, theirs):
            env.reset(seed=seed)
            walker = env.unwrapped
            carry(walker, right, up=max(walker.terrain_y) - walker.terrain_y[0])
        for _ in range(150):
            action = policy(np.zeros(24))
            step, their_step = held(fast, action, repeat=1), held(theirs, action, repeat=1)
            assert_same_episode([step], [their_step])
            if step[2]:
                break


def test_reset_without_seed_continues_gymnasiums_stream():
    fast, theirs = FastWalker(True), gymnasium.make(NAMES[True]).unwrapped
    for seed in (5, None, None):
        fast.reset(seed=seed)
        theirs.reset(seed=seed)
        assert fast.terrain_y == theirs.terrain_y
        assert fast.np_random.bit_generator.state == theirs.np_random.bit_generator.state


class Nearest(Box2D.b2RayCastCallback):
    """The nearest terrain by Box2D's own search of the world."""

    fraction = 1.0

    def ReportFixture(self, fixture, point, normal, fraction):
        if fixture.filterData.categoryBits & 1 == 0:
            return -1
        self.fraction = fraction
        return fraction


def lidar_of_box2d(world: Any, x: float, y: float) -> list[float]:
    """Ten fractions as Gymnasium casts them."""
    fractions = []
    for angle in (1.5 * i / 10.0 for i in range(10)):
        nearest = Nearest()
        world.RayCast(nearest, (x, y), (x + math.sin(angle) * LIDAR_RANGE, y - math.cos(angle) * LIDAR_RANGE))
        fractions.append(nearest.fraction)
    return fractions


def test_lidar_equals_box2ds_from_anywhere_even_in_the_ground():
    fast, rng = FastWalker(True), np.random.default_rng(0)
    for seed in range(8):
        fast.reset(seed=seed)
        for x in np.concatenate([rng.uniform(-2, 90, 150), rng.integers(0, 190, 50) * 14 / 30]):
            ground = np.interp(x, fast.terrain_x, fast.terrain_y)
            x, y = Box2D.b2Vec2(x, ground + rng.uniform(-1, 3))  # rounded as positions of bodies are
            assert fast._lidar.scan(x, y) == lidar_of_box2d(fast.world, x, y), (seed, x, y)


def test_an_episode_is_a_function_of_seed_and_actions_whatever_was_played_before():
    used = FastWalker(True, 2, (4, 8))
    first = play(used, 3, random_policy(3))
    play(used, 4, walking_policy(4))
    assert_same_episode(play(used, 3, random_policy(3)), first)
    assert_same_episode(play(FastWalker(True, 2, (4, 8)), 3, random_policy(3)), first)


@pytest.mark.parametrize(("hardcore", "limit"), [(False, 1600), (True, 2000)])
def test_time_limit_counts_frames_and_truncates(hardcore, limit):
    fast = FastWalker(hardcore, 3)
    fast.reset(seed=0)
    fast.frames = limit - 4
    assert fast.step(np.zeros(4, np.float32))[2:4] == (False, False)
    assert fast.step(np.zeros(4, np.float32))[2:4] == (False, True)
    assert fast.frames == limit


def test_arriving_terminates_with_an_ordinary_reward():
    fast = FastWalker(False)
    fast.reset(seed=0)
    carry(fast, right=84.5, up=3.0)
    _, reward, terminated, truncated, _ = fast.step(np.zeros(4, np.float32))
    assert (terminated, truncated) == (True, False)
    assert abs(reward) < 5


def test_leaving_the_course_to_the_left_is_a_fall():
    fast = FastWalker(False)
    fast.reset(seed=0)
    carry(fast, right=-5.0, up=3.0)
    assert fast.step(np.zeros(4, np.float32))[1:4] == (-100.0, True, False)


def falling_episode(**options: Any) -> tuple[list[float], list[float]]:
    """Rewards and raw rewards of an episode of terrain 1 that ends in a fall."""
    fast, policy = FastWalker(True, 2, **options), walking_policy(1)
    obs, _ = fast.reset(seed=1)
    rewards, raw, terminated = [], [], False
    while not terminated:
        obs, reward, terminated, _, info = fast.step(policy(obs))
        rewards.append(reward)
        raw.append(info["raw_reward"])
    return rewards, raw


def test_without_options_the_reward_is_the_raw_one():
    rewards, raw = falling_episode()
    assert rewards == raw
    assert raw[-1] < -95


def test_shaping_changes_the_reward_but_not_the_raw_one():
    _, expected = falling_episode()
    rewards, raw = falling_episode(reward_scale=3.0)
    assert raw == expected
    assert rewards == [3.0 * reward for reward in raw]


def test_a_stuck_walker_is_truncated_after_so_many_decisions():
    steps = play(FastWalker(True, 2, stuck_after=20), 0, lambda obs: np.zeros(4, np.float32))
    assert len(steps) - 1 == 20
    assert steps[-1][2:] == (False, True)


def test_progress_sets_back_the_count_of_stuck_decisions():
    fast = FastWalker(False, stuck_after=20)
    fast.reset(seed=0)
    truncated = []
    for decision in range(1, 36):
        if decision == 15:
            carry(fast, right=0.5, up=0.0)
        truncated.append(fast.step(np.zeros(4, np.float32))[3])
    assert truncated.index(True) == 15 + 20 - 1


def test_lidar_history_holds_the_scans_of_earlier_decisions_and_at_first_the_first():
    plain = [obs for obs, *_ in play(FastWalker(True, 2), 6, random_policy(6))]
    with_history = [obs for obs, *_ in play(FastWalker(True, 2, (4, 8, 12)), 6, random_policy(6))]
    assert len(plain) > 20
    for now, obs in enumerate(with_history):
        scans = [plain[max(0, now - ago)][14:] for ago in (4, 8, 12)]
        np.testing.assert_array_equal(obs, np.concatenate([plain[now], *scans]))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("lidar_history", [(), (4, 8, 12)])
def test_keeps_gymnasiums_contract(lidar_history):
    fast = FastWalker(True, 2, lidar_history, render_mode="rgb_array")
    assert fast.observation_space.shape == (24 + 10 * len(lidar_history),)
    assert fast.observation_space.dtype == fast.action_space.dtype == np.float32
    check_env(fast, skip_render_check=True)


def test_pictures_equal_gymnasiums():
    fast = FastWalker(True, render_mode="rgb_array")
    theirs = gymnasium.make(NAMES[True], render_mode="rgb_array")
    fast.reset(seed=2)
    theirs.reset(seed=2)
    policy = random_policy(2)
    for _ in range(30):
        action = policy(np.zeros(24))
        fast.step(action)
        theirs.step(action)
        np.testing.assert_array_equal(fast.render(), theirs.render())


def test_a_copy_has_the_same_options():
    options = {"reward_scale": 3.0, "stuck_after": 50}
    fast = FastWalker(True, 2, (4,), **options)
    assert_same_episode(play(copy.deepcopy(fast), 1, random_policy(1)), play(fast, 1, random_policy(1)))


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"lidar_history": (0, 4)}, {"stuck_after": -1}])
def test_impossible_arguments_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FastWalker(True, **wrong)
