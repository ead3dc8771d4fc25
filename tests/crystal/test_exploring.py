import numpy as np
import pytest

from twofold.core.seeding import Generators
from twofold.crystal.exploring import disturbed
from twofold.settings.config import layers_for, resolve
from twofold.settings.registry import worlds
from twofold.store.policy_file import make_learner

FORCE = np.random.default_rng(0).standard_normal((3, 5, 3)).astype(np.float32)


def test_without_noise_nothing_is_disturbed():
    np.testing.assert_allclose(disturbed(FORCE, 0.0, 0.1, np.random.default_rng(1)), FORCE, atol=1e-7)


def test_each_crystal_is_turned_as_a_whole_and_each_atom_scaled_within_the_clip():
    seen = disturbed(FORCE, 0.2, 0.1, np.random.default_rng(1))
    sizes = np.linalg.norm(seen, axis=2) / np.linalg.norm(FORCE, axis=2)
    assert np.abs(sizes - 1).max() <= 0.1 + 1e-6
    assert sizes.std() > 0.01
    for one, other in zip(FORCE, seen, strict=True):
        units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (one, other)]
        np.testing.assert_allclose(units[0] @ units[0].T, units[1] @ units[1].T, atol=1e-5)
        assert (units[0] * units[1]).sum(axis=1).min() >= np.cos(0.1) - 1e-6


def test_angles_are_clipped():
    seen = disturbed(FORCE, 100.0, 0.02, np.random.default_rng(1))
    cosines = (seen * FORCE).sum(axis=2) / np.linalg.norm(seen, axis=2) / np.linalg.norm(FORCE, axis=2)
    assert cosines.min() >= np.cos(0.02) - 1e-6


def learner_and_observation(mode):
    typed = {
        "env": "crystal/displacements",
        "env_args.sets": {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}},
        "env_args.max_atoms": 4,
        "env_args.nfake": 0,
        "networks.expl_mode": mode,
        "networks.width": 8,
    }
    config = resolve(layers_for("td3_crystal_reference", None, typed)).config
    world = worlds.get("crystal/displacements").make(config.env_args, rows=2, purpose="train")
    obs = world.reset(seed=[1, 2], options={"reset_mask": np.ones(2, bool)})[0]
    return make_learner(config, world.single_observation_space, world.single_action_space, Generators(0)), obs


@pytest.mark.parametrize("mode", ["state", "action"])
def test_exploring_differs_from_the_greedy_policy_and_counts_its_steps(mode):
    learner, obs = learner_and_observation(mode)
    greedy = learner.policy(explore=False, rows=2, rng=np.random.default_rng(0)).act(obs)
    explorer = learner.policy(explore=True, rows=2, rng=np.random.default_rng(0))
    actions = [explorer.act(obs) for _ in range(2)]
    assert explorer.steps == 4
    assert not np.allclose(actions[0], greedy, atol=1e-6) and not np.allclose(
        actions[0], actions[1], atol=1e-6
    )


def test_exploring_by_the_state_leaves_the_observation_and_stays_near_the_policy():
    learner, obs = learner_and_observation("state")
    before = obs["force"].copy()
    greedy = learner.policy(explore=False, rows=2, rng=np.random.default_rng(0)).act(obs)
    action = learner.policy(explore=True, rows=2, rng=np.random.default_rng(0)).act(obs)
    np.testing.assert_array_equal(obs["force"], before)
    assert np.abs(action - greedy).max() < 0.3
