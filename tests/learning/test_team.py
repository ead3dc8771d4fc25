"""What the papers say about matrix games, learned from scratch; minutes each."""

import json

import pytest

from twofold import api

UNIFORM = {
    "learner.epsilon_finish": 1.0, "learner.lr": 1e-3, "learner.target_update_interval": 50, "trainer.rows": 8,
    "trainer.updates_per_item": 0.25, "trainer.eval_every": 2_000, "trainer.tensorboard": False,
}  # fmt: skip


def last_return(folder):
    return json.loads((folder / "evaluations.jsonl").read_text().splitlines()[-1])["return"]["mean"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "game", "steps", "paid"),
    [
        ("qtran", "matrix_game", 8_000, 8.0),
        ("qmix", "two_step", 16_000, 8.0),
        ("vdn", "two_step", 16_000, 7.0),
    ],
)
def test_the_joint_action_learned_is_the_one_the_paper_reports(config, game, steps, paid, tmp_path):
    trained = api.train(config, game, run=tmp_path / "run", **(UNIFORM | {"trainer.steps": steps}))
    assert last_return(trained.folder) == paid


@pytest.mark.slow
@pytest.mark.parametrize("config", ["qmix_plus", "vdn_plus"])
def test_battles_are_won(config, tmp_path):
    settings = {"env_args.map_name": "3m", "trainer.tensorboard": False}
    trained = api.train(config, "skirmish", run=tmp_path / "run", **settings)
    assert trained.test["eval"]["battle_won"]["mean"] >= 0.95
