import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.crystal.displacements import GraphConfig
from twofold.rows.world import Where
from twofold.settings.registry import worlds

SETS = {
    "cu": {"structures": ["Cu", "Al"], "rattle": [0.1, 0.1]},
    "ni": {"structures": ["Ni"], "rattle": [0.1, 0.1], "weight": 2.0},
}


def weighted(rows=2, **settings):
    cfg = GraphConfig(sets=SETS, max_atoms=4, num_neighbors=12, max_steps=3, with_weights=True, **settings)
    return worlds.get("crystal/displacements").make(cfg, rows=rows, purpose="train")


def started(world, seed=0):
    seeds = [seed + row for row in range(world.num_envs)]
    return world.reset(seed=seeds, options={"reset_mask": np.ones(world.num_envs, bool)})[0]


def test_before_any_episode_only_the_sets_weights_count():
    np.testing.assert_allclose(weighted().chances(), [0.25, 0.25, 0.5])


def test_chances_are_in_proportion_to_the_last_final_forces():
    world = weighted()
    world.forces[:] = [0.3, 0.1, 0.1]
    np.testing.assert_allclose(world.chances(), [0.5, 1 / 6, 1 / 3])


def test_a_structure_that_was_not_seen_counts_like_the_worst():
    world = weighted()
    world.forces[:] = [0.2, 0.1, 0.0]
    np.testing.assert_allclose(world.chances(), np.array([0.2, 0.1, 0.4]) / 0.7)


def test_the_end_of_an_episode_tells_the_force_of_its_structure():
    world = weighted(rows=1)
    started(world)
    for _ in range(3):
        info = world.step(np.zeros((1, 12), np.float32))[4]
    assert world.forces[world.chosen[0]] == info["episode"]["final_force"][0]
    assert (world.forces > 0).sum() == 1


def test_a_structure_with_all_the_weight_is_always_drawn():
    world = weighted()
    world.forces[:] = [1e-9, 1.0, 1e-9]
    for seed in range(5):
        started(world, seed)
        assert {str(s) for env in world.envs for s in env.now.atoms.symbols} == {"Al"}


def test_a_snapshot_brings_structures_and_weights_back():
    world, actions = weighted(), np.full((2, 12), 0.05, np.float32)
    started(world)
    for _ in range(3):
        world.step(actions)
    started(world, 10)
    world.step(actions)
    saved = world.snapshot()
    wanted = tree.copy(world.step(actions)[0])
    world.forces[:] = 5.0
    started(world, 77)
    other = weighted()
    other.restore(saved)
    assert tree.equal(other.step(actions)[0], wanted)
    world.restore(saved)
    assert tree.equal(world.step(actions)[0], wanted)
    np.testing.assert_array_equal(world.forces, saved["forces"])


def test_evaluation_draws_without_weights():
    cfg = GraphConfig(sets=SETS, max_atoms=4, with_weights=True)
    world = worlds.get("crystal/displacements").make(cfg, rows=1, purpose="eval")
    assert not hasattr(world, "chances")


def test_worker_processes_are_refused():
    cfg = GraphConfig(sets=SETS, max_atoms=4, with_weights=True)
    with pytest.raises(ConfigError, match="workers"):
        worlds.get("crystal/displacements").make(cfg, rows=2, purpose="train", where=Where(workers=2))
