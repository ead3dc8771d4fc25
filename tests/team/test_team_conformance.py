"""Every preset of the team keeps the learners' contract, in the small world that fits it."""

import pytest
from small_runs import of_algorithm

from twofold.check import check_learner, check_networks
from twofold.rows.world import make_world
from twofold.settings.presets import presets

NAMES = [preset.name for preset in presets("algs") if preset.domain == "team"]


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_keeps_the_contract_of_learners_and_networks(name):
    config = of_algorithm(name).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == []
    assert check_networks(config, world) == []
    world.close()
