"""The presets keep the contracts of learners and networks."""

import pytest

from twofold.check import check_learner, check_networks
from twofold.rows.check import check_world
from twofold.rows.world import make_world
from twofold.settings.config import load

from .conftest import SMALL

TRACKERS = {"networks.tracker": "sasrec", "networks.dropout_rate": 0.2}


@pytest.mark.parametrize("alg", ["td3_rec", "td3_rec_reference"])
@pytest.mark.parametrize(
    "settings", [{}, {"networks.tracker": "gru"}, TRACKERS], ids=["avg", "gru", "sasrec"]
)
def test_learner_and_networks_keep_their_contracts(alg, settings):
    quick = {"env_args.model.deepfm.epoch": 1, "env_args.model.deepfm.n_models": 2}
    config = load(alg, "synthetic_users", **SMALL, **quick, **settings).config
    world = make_world(config, purpose="train", rows=2)
    assert check_learner(config, world) == []
    assert check_networks(config, world) == []


def test_the_world_keeps_its_contract():
    config = load("td3_rec", "synthetic_users", **SMALL).config
    assert check_world(make_world(config, purpose="train", rows=3)) == []
