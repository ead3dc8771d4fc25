"""Small made-up users, and a place of their own for fitted user models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from twofold import api
from twofold.recsys.config import UsersConfig
from twofold.recsys.gaussian import GaussianConfig
from twofold.recsys.synthetic import SyntheticConfig
from twofold.recsys.user_model import UserModelConfig

DATA = Path(os.environ.get("TWOFOLD_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))


@pytest.fixture(scope="session", autouse=True)
def runs(tmp_path_factory):
    """User models are kept where no other test looks."""
    before = os.environ.get("TWOFOLD_RUNS")
    os.environ["TWOFOLD_RUNS"] = str(tmp_path_factory.mktemp("runs"))
    yield
    if before is None:
        del os.environ["TWOFOLD_RUNS"]
    else:
        os.environ["TWOFOLD_RUNS"] = before


@pytest.fixture
def coat_folder():
    folder = DATA / "coat"
    if not folder.exists():
        pytest.skip(f"no Coat data at {folder}: set TWOFOLD_DATA")
    return folder


def small_config(**changes) -> UsersConfig:
    """Twenty users and twenty-four items, fitted in a second."""
    model = UserModelConfig(gaussian=GaussianConfig(samples=4, tune_ratings=60, tune_steps=3))
    made_up = SyntheticConfig(users=20, items=24, tastes=3, groups=4, ratings_per_user=10)
    settings = {
        "leave_threshold": 1.5,
        "num_leave_compute": 3,
        "cool_down": 3,
        "max_turn": 12,
        "force_length": 5,
    }
    settings |= {"taste_dims": 4, "random_dims": 4, "rank": 8, "belief": 3}
    return UsersConfig(model=model, synthetic=made_up, **(settings | changes))


@pytest.fixture
def config():
    return small_config


SMALL = {
    "env_args.synthetic.users": 20,
    "env_args.synthetic.items": 24,
    "env_args.synthetic.ratings_per_user": 10,
    "env_args.model.gaussian.samples": 4,
    "env_args.model.gaussian.tune_steps": 2,
    "env_args.max_turn": 12,
}
SHORT = {
    "trainer.steps": 600,
    "trainer.rows": 20,
    "trainer.warmup": 200,
    "trainer.eval_every": 300,
    "trainer.eval_episodes": 20,
    "trainer.eval_rows": 20,
    "trainer.test_episodes": 20,
    "replay.batch_size": 16,
    "trainer.tensorboard": False,
}


@pytest.fixture(scope="session")
def run(tmp_path_factory, runs):
    """A very short training of the whole pipeline."""
    folder = tmp_path_factory.mktemp("train") / "td3_rec_seed0"
    api.train("td3_rec", "synthetic_users", run=str(folder), **SMALL, **SHORT)
    return folder
