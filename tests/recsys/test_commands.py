import json
import signal

import pytest

from twofold import api
from twofold.base.errors import UserError
from twofold.base.signals import Stopped
from twofold.recsys import commands
from twofold.recsys.recommend import load_recommender
from twofold.settings.config import load
from twofold.store.checkpoint import pack
from twofold.store.run import Run

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


def test_recommend_says_which_share_of_the_catalogue_can_be_chosen(run, capsys):
    assert commands.recommend(["--run", str(run), "--reachability"]) == 0
    assert capsys.readouterr().out.startswith(
        "the actor can choose 24 of 24 items (100.0 %): one of the 10 nearest"
    )


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


def test_a_rating_outside_the_scale_is_refused(run):
    with pytest.raises(UserError, match=r"item '3': the rating 9 is not in 1\.\.5"):
        load_recommender(run).recommend(history=[("3", 9)])


def test_an_item_is_recommended_once(run):
    items = [entry.item for entry in load_recommender(run).recommend(k=12)]
    assert len(set(items)) == len(items) == 12


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
    assert "td3_rec: 100.0 % of the catalogue" in text
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


def test_a_stopped_run_goes_on_exactly(tmp_path):
    """Stopped in the middle of episodes and gone on with, a run ends with the same bytes."""
    settings = SMALL | {
        "trainer.steps": 800,
        "trainer.rows": 20,
        "trainer.warmup": 100,
        "trainer.eval_every": 400,
    }
    settings |= {"trainer.eval_episodes": 5, "trainer.eval_rows": 5, "replay.batch_size": 16}
    settings |= {"trainer.tensorboard": False, "trainer.test_episodes": 0}
    resolved = load("td3_rec", "synthetic_users", **settings)
    whole = api.build(Run.create(tmp_path / "whole", resolved, "test"))
    whole.train()
    first = api.build(Run.create(tmp_path / "parts", resolved, "test"))
    step = first.collector.step

    def stop_later():
        if first.steps >= 340:
            first.stop.received = signal.SIGTERM
        return step()

    first.collector.step = stop_later
    with pytest.raises(Stopped):
        first.train()
    second = api.build(Run.open(tmp_path / "parts"))
    second.train()
    states = [pack(trainer.learner.state_dict()) for trainer in (whole, second)]
    assert states[0][1] == states[1][1]
    assert {k: v.tobytes() for k, v in states[0][0].items()} == {
        k: v.tobytes() for k, v in states[1][0].items()
    }
    logs = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "parts")]
    assert logs[0] == logs[1]
