import csv
import json
import signal

import numpy as np
import pytest

from twofold import api
from twofold.assemble import assemble
from twofold.base.progress import Quiet
from twofold.base.signals import Stopped
from twofold.cli import main
from twofold.settings.config import load
from twofold.store.checkpoint import pack
from twofold.store.run import Run

from .conftest import SHORT, SMALL

WORDS = [f"{key}={value}" for key, value in SMALL.items()]


def test_training_evaluates_in_all_worlds(run):
    worlds = {json.loads(line)["world"] for line in (run / "evaluations.jsonl").read_text().splitlines()}
    assert worlds == {"held_out", "FB", "NX_0", "NX_10"}


def test_recommend_prints_items_with_scores_and_reasons(run, capsys):
    assert main(["recommend", "--run", str(run), "--user", "17", "-k", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert "expected of 5" in lines[0]
    assert any("group:" in line for line in lines[1:6])


def test_recommend_says_which_share_of_the_catalogue_can_be_chosen(run, capsys):
    assert main(["recommend", "--run", str(run), "--reachability"]) == 0
    assert capsys.readouterr().out.startswith(
        "the actor can choose 24 of 24 items (100.0 %): one of the 10 nearest"
    )


def test_recommend_says_that_rated_items_are_left_out(run, capsys):
    main(["recommend", str(run), "--user", "17", "-k", "2"])
    assert "items that the user has rated are left out (--rated keeps them)" in capsys.readouterr().out


def test_recommend_writes_the_lists_of_everyone(run, tmp_path):
    out = tmp_path / "lists.csv"
    assert main(["recommend", str(run), f"--everyone={out}", "-k", "3"]) == 0
    rows = list(csv.DictReader(out.open()))
    assert len(rows) == 20 * 3
    assert {row["user"] for row in rows} == {str(user) for user in range(20)}


def test_one_run_is_needed(capsys):
    assert main(["recommend", "--user", "17"]) == 2
    assert "one run directory or policy file is needed" in capsys.readouterr().err


def test_standings_put_runs_beside_baselines(run, tmp_path, capsys):
    out = tmp_path / "table"
    main(["standings", str(run), "--env-config=synthetic_users", f"--out={out}", "--seeds=1", *WORDS])
    text = capsys.readouterr().out
    assert text.startswith("in simulated episodes (FB): td3_rec ")
    assert "| > td3_rec " in text
    assert "td3_rec: 100.0 % of the catalogue" in text
    assert "oracle *" in text
    assert json.loads(out.with_suffix(".json").read_text())["table"]["FB"]["td3_rec"]["length"]["mean"] > 0
    assert out.with_suffix(".png").stat().st_size > 1000


def test_users_one_after_another_have_a_table_of_their_own(tmp_path, capsys):
    folder, out = tmp_path / "shared_seed0", tmp_path / "table"
    few = {"trainer.eval_rows": 5, "trainer.eval_episodes": 10, "trainer.test_episodes": 10}
    api.train("td3_rec_stream", "synthetic_users", run=str(folder), **(SMALL | SHORT | few))
    capsys.readouterr()
    main(["standings", str(folder), "--env-config=synthetic_users", f"--out={out}", "--seeds=1", *WORDS])
    text = capsys.readouterr().out
    assert text.startswith("users one after another (FB_stream, orders: 1): shared ")
    record = json.loads(out.with_suffix(".json").read_text())
    assert "shared" in record["stream"] and "shared" not in record["table"]["FB"]
    main(["recommend", str(folder), "--user=17", "-k", "3"])
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_fit_reports_errors_and_keeps_the_model(tmp_path, capsys):
    folder = tmp_path / "users"
    assert main(["fit", "--env-config=synthetic_users", "--run", str(folder), *WORDS]) == 0
    assert "rmse" in capsys.readouterr().out
    assert (folder / "user_model.safetensors").exists()


def test_fit_says_when_features_miss_the_tastes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    rows = [(u, i, round(3 + taste[u] @ kind[i], 1)) for u in range(40) for i in rng.permutation(30)[:15]]
    (tmp_path / "log.csv").write_text("user,item,rating\n" + "".join(f"{u},{i},{r}\n" for u, i, r in rows))
    (tmp_path / "log.items.csv").write_text(
        "item,shop\n" + "".join(f"{i},{'AB'[i % 2]}\n" for i in range(30))
    )
    words = [f"env_args.path={tmp_path / 'log.csv'}", f"--run={tmp_path / 'users'}"]
    assert main(["fit", "--env-config=ratings", *words]) == 0
    assert "better with env_args.model.kind=factorised" in capsys.readouterr().err


def test_a_word_that_is_no_setting_is_refused(capsys):
    assert main(["fit", "--env-config=synthetic_users", "oops"]) == 2
    assert "'oops' is not a setting: write key=value" in capsys.readouterr().err


def test_off_policy_evaluation_says_what_it_lacks(run, capsys):
    assert main(["ope", str(run)]) == 2
    assert "propensities" in capsys.readouterr().err


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
    whole = assemble(Run.create(tmp_path / "whole", resolved, "test")).trainer
    whole.train(Quiet())
    first = assemble(Run.create(tmp_path / "parts", resolved, "test")).trainer
    step = first.collector.step

    def stop_later():
        if first.steps >= 340:
            first.stop.received = signal.SIGTERM
        return step()

    first.collector.step = stop_later
    with pytest.raises(Stopped):
        first.train(Quiet())
    second = assemble(Run.open(tmp_path / "parts")).trainer
    second.train(Quiet())
    states = [pack(trainer.learner.state_dict()) for trainer in (whole, second)]
    assert states[0][1] == states[1][1]
    assert {k: v.tobytes() for k, v in states[0][0].items()} == {
        k: v.tobytes() for k, v in states[1][0].items()
    }
    logs = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "parts")]
    assert logs[0] == logs[1]
