import json

import pytest

from twofold import api
from twofold.core.errors import UserError
from twofold.recsys import commands
from twofold.recsys.recommend import load_recommender

SMALL = {
    "env_args.synthetic.users": 20,
    "env_args.synthetic.items": 24,
    "env_args.synthetic.ratings_per_user": 10,
    "env_args.model.gaussian.samples": 4,
    "env_args.model.gaussian.tune_steps": 2,
    "env_args.max_turn": 12,
}
WORDS = [f"{key}={value}" for key, value in SMALL.items()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A very short training of the whole pipeline."""
    folder = tmp_path_factory.mktemp("train") / "td3_rec_seed0"
    settings = {"trainer.steps": 600, "trainer.rows": 20, "trainer.warmup": 200, "trainer.eval_every": 300}
    settings |= {"trainer.eval_episodes": 20, "trainer.eval_rows": 20, "trainer.test_episodes": 20}
    settings |= {"replay.batch_size": 16, "trainer.tensorboard": False}
    api.train("td3_rec", "synthetic_users", run=str(folder), **SMALL, **settings)
    return folder


def test_training_evaluates_in_all_worlds(run):
    worlds = {json.loads(line)["world"] for line in (run / "evaluations.jsonl").read_text().splitlines()}
    assert worlds == {"held_out", "FB", "NX_0", "NX_10"}


def test_recommend_prints_items_with_scores_and_reasons(run, capsys):
    assert commands.recommend(["--run", str(run), "--user", "17", "-k", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert "expected rating" in lines[0]
    assert "group:" in lines[1]


def test_a_history_changes_the_recommendations_and_is_left_out(run):
    policy = load_recommender(run)
    liked = policy.recommend(history=[("3", 5), ("4", 1)], k=10)
    assert len(liked) == 10
    assert not {entry.item for entry in liked} & {3, 4}
    values = [entry.value for entry in liked]
    assert values == sorted(values, reverse=True)


def test_a_user_never_seen_is_served(run):
    policy = load_recommender(run)
    assert len(policy.recommend(user="nobody", history=["1"], k=3)) == 3


def test_a_history_longer_than_an_episode_is_cut_to_its_newest_part(run):
    policy = load_recommender(run)
    assert len(policy.recommend(history=[str(n) for n in range(16)], k=2)) == 2


def test_an_unknown_item_is_named(run):
    with pytest.raises(UserError, match="no item 'hat'"):
        load_recommender(run).recommend(history=["hat"])


def test_standings_put_runs_beside_baselines(run, tmp_path, capsys):
    out = tmp_path / "table"
    commands.standings(
        ["--env-config=synthetic_users", "--runs", str(run), f"--out={out}", "--seeds=1", *WORDS]
    )
    text = capsys.readouterr().out
    assert "| td3_rec |" in text
    assert "oracle *" in text
    assert json.loads(out.with_suffix(".json").read_text())["table"]["FB"]["td3_rec"]["length"]["mean"] > 0
    assert out.with_suffix(".png").stat().st_size > 1000


def test_fit_reports_errors_and_keeps_the_model(tmp_path, capsys):
    folder = tmp_path / "users"
    assert commands.fit(["--env-config=synthetic_users", "--run", str(folder), *WORDS]) == 0
    assert "rmse" in capsys.readouterr().out
    assert (folder / "user_model.safetensors").exists()


def test_a_word_that_is_no_setting_is_refused():
    with pytest.raises(UserError, match="key=value"):
        commands.fit(["--env-config=synthetic_users", "oops"])


def test_off_policy_evaluation_says_what_it_lacks(run):
    with pytest.raises(UserError, match="propensities"):
        commands.ope(["--run", str(run)])
