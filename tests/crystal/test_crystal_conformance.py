"""Every crystal preset keeps the contracts of learners, networks and worlds, with and without workers."""

import pytest

from twofold.check import check_learner, check_networks
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.settings.presets import presets

COPPER = {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}}
PRESETS = [preset.name for preset in presets("algs") if preset.domain == "crystal"]
SMALL = {
    "steps": 12,
    "warmup": 4,
    "eval_every": 12,
    "eval_episodes": 1,
    "test_episodes": 0,
    "tensorboard": False,
}


def small(name, **trainer):
    spring = name in ("td3_crystal", "td3_crystal_careful")
    args = {"sets": COPPER} | ({} if spring else {"max_atoms": 4, "num_neighbors": 8, "max_steps": 20})
    return {
        "env": "crystal/spring" if spring else "crystal/displacements",
        "env_args": args,
        "trainer": SMALL | trainer,
        "replay": {"batch_size": 4, "buffer_size": 100},
    }


@pytest.mark.parametrize("name", PRESETS)
def test_the_learner_and_networks_of_a_preset_keep_their_contracts(name):
    config = load(name, None, **small(name)).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == []
    assert check_networks(config, world) == []


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_for_which_worlds_it_is(name):
    (preset,) = (preset for preset in presets("algs") if preset.name == name)
    assert set(preset.worlds) <= {world.name for world in presets("envs") if world.domain == "crystal"}
    assert preset.worlds
