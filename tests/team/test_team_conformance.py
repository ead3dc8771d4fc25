"""Every preset of the team keeps the learners' contract, in the small world that fits it."""

import pytest

from twofold.check import check_learner, check_networks
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.settings.presets import presets

SMALL = {"networks": {"hidden": 8}}
# Presets whose world is not the two-step game: the world, and settings that make both small.
ELSEWHERE = {
    "matd3": ("mpe_spread", {"networks": {"actor_hidden": [8], "critic_hidden": [8]}}),
    "iql_omg": ("two_step", SMALL | {"learner": {"subgoal_dim": 4, "model_hidden": 8, "history": 8}}),
    "iql_omg_am": ("two_step", SMALL | {"learner": {"subgoal_dim": 4, "model_hidden": 8, "history": 8}}),
    "omg_prior": ("two_step", SMALL | {"learner": {"subgoal_dim": 4, "model_hidden": 8}}),
}
NAMES = [preset.name for preset in presets("algs") if preset.domain == "team"]


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_keeps_the_contract_of_learners_and_networks(name):
    env, settings = ELSEWHERE.get(name, ("two_step", SMALL))
    pytest.importorskip({"mpe_spread": "mpe2"}.get(env, "numpy"))
    config = load(name, env, **settings).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == []
    assert check_networks(config, world) == []
    world.close()
