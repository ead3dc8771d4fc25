"""Games of other packages as team worlds."""

import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import ConfigError, MissingPackage
from twofold.rows.check import check_world
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.team.worlds import packages
from twofold.team.worlds.packages import LBFConfig, ParallelConfig, ParticleConfig, lbf, mpe, pettingzoo


@pytest.mark.parametrize("name", ["lbf", "rware", "mpe_spread", "mpe_tag", "mpe_speaker_listener"])
def test_preset_makes_a_world_that_keeps_the_contract(name):
    pytest.importorskip({"lbf": "lbforaging", "rware": "rware"}.get(name, "mpe2"))
    world = make_world(load("iql", name).config, purpose="train", rows=2)
    assert check_world(world, steps=60) == []
    world.close()


@pytest.mark.parametrize("id", ["Foraging-8x8-2p-2f-coop-v3", "Foraging-10x10-3p-3f-v3"])
def test_batched_foraging_equals_the_package_to_the_bit(id):
    pytest.importorskip("lbforaging")
    ours = lbf(LBFConfig(id=id), rows=3, purpose="train")
    theirs = lbf(LBFConfig(id=id, batched=False), rows=3, purpose="train")
    rng, seeds, eaten = np.random.default_rng(1), [5, 6, 7], 0
    everyone = {"reset_mask": np.ones(3, bool)}
    one, other = (world.reset(seed=seeds, options=everyone)[0] for world in (ours, theirs))
    for _ in range(400):
        assert tree.equal(one, other)
        actions = rng.integers(0, 6, (3, one["obs"].shape[1]))
        actions[rng.random(actions.shape) < 0.5] = 5
        mine, yours = ours.step(actions), theirs.step(actions)
        one, other, over = mine[0], yours[0], mine[2] | mine[3]
        assert all(np.allclose(mine[i], yours[i], atol=1e-6) for i in (1, 2, 3))
        eaten += int((mine[1] > 0).sum())
        if over.any():
            seeds = [seed + 10 for seed in seeds]
            one, other = (w.reset(seed=seeds, options={"reset_mask": over})[0] for w in (ours, theirs))
    assert eaten > 0


@pytest.mark.parametrize("kwargs", [{}, {"N": 4, "local_ratio": 0.2}])
def test_batched_spread_equals_the_package(kwargs):
    pytest.importorskip("mpe2")
    ours, theirs = (
        mpe(ParticleConfig(batched=b, kwargs=kwargs), rows=3, purpose="train") for b in (True, False)
    )
    rng, seeds, collisions = np.random.default_rng(1), [5, 6, 7], 0
    for _ in range(8):
        one, other = (
            w.reset(seed=seeds, options={"reset_mask": np.ones(3, bool)})[0] for w in (ours, theirs)
        )
        over = np.zeros(3, bool)
        while not over.any():
            for key in other:
                np.testing.assert_allclose(one[key], other[key], atol=1e-6)
            nearer = one["obs"][..., 4:6]  # everybody goes to the first landmark, so that they touch
            greedy = np.where(
                np.abs(nearer[..., 0]) > np.abs(nearer[..., 1]),
                1 + (nearer[..., 0] > 0),
                3 + (nearer[..., 1] > 0),
            )
            actions = np.where(rng.random(greedy.shape) < 0.3, rng.integers(0, 5, greedy.shape), greedy)
            mine, yours = ours.step(actions), theirs.step(actions)
            one, other, over = mine[0], yours[0], mine[2] | mine[3]
            assert all(np.allclose(mine[i], yours[i], atol=1e-6) for i in (1, 2, 3))
            collisions += int((ours._apart()[1] < 0.3).any())
        seeds = [seed + 10 for seed in seeds]
    assert collisions > 0


def test_foraging_begins_the_same_whatever_was_played_before():
    pytest.importorskip("lbforaging")
    world = lbf(LBFConfig(batched=False), rows=1, purpose="train")
    first = tree.copy(world.reset(seed=[3])[0])
    world.reset(seed=[4])
    assert tree.equal(first, world.reset(seed=[3])[0])


def test_foraging_at_its_time_limit_is_truncated_not_terminated():
    pytest.importorskip("lbforaging")
    for batched in (True, False):
        world = lbf(LBFConfig(time_limit=2, batched=batched), rows=1, purpose="train")
        world.reset(seed=[3])
        world.step(np.zeros((1, 2), int))
        _, _, terminated, truncated, _ = world.step(np.zeros((1, 2), int))
        assert not terminated[0] and truncated[0]


def test_agents_with_fewer_actions_have_the_rest_unavailable():
    pytest.importorskip("mpe2")
    world = mpe(ParticleConfig(id="simple_speaker_listener_v4"), rows=1, purpose="train")
    obs, _ = world.reset(seed=[0])
    assert obs["avail"].sum(-1).tolist() == [[3, 5]]


def test_continuous_particles_take_actions_between_minus_one_and_one():
    pytest.importorskip("mpe2")
    world = mpe(ParticleConfig(continuous=True), rows=1, purpose="train")
    assert world.single_action_space.shape == (15,)
    assert (world.single_action_space.low.min(), world.single_action_space.high.max()) == (-1, 1)


def test_the_prey_flees_from_the_nearest_hunter():
    import gymnasium as gym

    obs = np.zeros(14, np.float32)
    obs[8:14] = (0.5, 0.0, -3, 0, 0, 3)  # the nearest hunter stands to the right
    choices = [packages.flee(obs, gym.spaces.Discrete(5), np.random.default_rng(i)) for i in range(50)]
    assert max(set(choices), key=choices.count) == 1  # left


def test_a_hidden_agent_needs_somebody_to_play_it():
    pytest.importorskip("mpe2")
    with pytest.raises(ConfigError, match="no agent begins"):
        mpe(ParticleConfig(id="simple_tag_v3", team="nobody"), rows=1, purpose="train")


def test_pettingzoo_needs_a_name_and_tells_where_particles_went():
    pytest.importorskip("pettingzoo")
    with pytest.raises(ConfigError, match="name the environment"):
        pettingzoo(ParallelConfig(), rows=1, purpose="train")
    with pytest.raises(ConfigError, match="mpe2"):
        pettingzoo(ParallelConfig(id="mpe.simple_spread_v3"), rows=1, purpose="train")
    with pytest.raises(ConfigError, match="there is no"):
        pettingzoo(ParallelConfig(id="butterfly.nothing_v0"), rows=1, purpose="train")


def test_an_absent_package_is_named_with_its_extra():
    with pytest.raises(
        MissingPackage,
        match=r"this world needs the package 'no_such_package_at_all': .*(\[team\]|lbforaging)",
    ):
        packages._package("no_such_package_at_all", "this world")
