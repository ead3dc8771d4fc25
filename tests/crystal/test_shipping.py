import json

import numpy as np
import pytest

from twofold import api
from twofold.base.errors import UserError
from twofold.crystal.commands import relax_export
from twofold.crystal.features import NAMES
from twofold.crystal.policy import DEFAULT, WEIGHTS, load_weights
from twofold.crystal.shipping import _data, told

SETTINGS = {
    "env": "crystal/spring", "trainer.steps": 8, "trainer.eval_every": 4, "trainer.eval_episodes": 2,
    "trainer.test_episodes": 0, "trainer.warmup": 4, "trainer.tensorboard": False, "replay.batch_size": 4,
    "replay.buffer_size": 100, "env_args.sets": {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    api.train(config="td3_crystal", run=folder, **SETTINGS)
    return folder


def test_a_runs_best_policy_becomes_weights_with_their_account(run, tmp_path, capsys):
    path = tmp_path / "deep" / "mine.safetensors"
    assert relax_export([str(run), "-o", str(path)]) == 0
    assert "mine.json" in capsys.readouterr().out
    assert load_weights(path).act(np.zeros(len(NAMES))).shape == (6,)
    account = json.loads(path.with_suffix(".json").read_text())
    assert account["seed"] == 0 and account["complete"] and account["steps"] == 8
    assert [entry["step"] for entry in account["validation"]] == [0, 4, 8]
    assert account["sets"] == {"cu.structures": ["Cu"], "cu.rattle": [0.1, 0.1]}


def test_the_exported_policy_acts_like_the_runs(run, tmp_path):
    from twofold import load_policy

    relax_export([str(run)])
    seen = np.random.default_rng(0).uniform(-1, 1, len(NAMES)).astype(np.float32)
    wanted = load_policy(run).act(seen)
    np.testing.assert_allclose(load_weights(run / "relaxer.safetensors").act(seen), wanted, atol=1e-6)


def test_out_and_ship_exclude_each_other(run):
    with pytest.raises(UserError, match="not both"):
        relax_export([str(run), "--ship", "-o", "x.safetensors"])


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="not a run directory"):
        relax_export([str(tmp_path)])


def test_commands_are_told_without_this_machines_paths():
    assert (
        told("/some/where/twofold train --run=/x/y --seed=1 'a.b=c d'") == "twofold train --seed=1 'a.b=c d'"
    )


def test_data_files_are_told_by_their_checksums(tmp_path, monkeypatch):
    (tmp_path / "cells.csv").write_text("x")
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    found = _data({"cells.structures": ["$TWOFOLD_DATA/cells.csv", "Cu"], "cells.calculator": "emt"})
    assert found == {"$TWOFOLD_DATA/cells.csv": "blake2b-128 442a44457137672b3218c1007dc8f76a"}


def test_the_shipped_weights_say_how_they_were_made():
    account = json.loads((WEIGHTS / f"{DEFAULT}.json").read_text())
    assert account["complete"] and account["command"].startswith("twofold train --config=td3_crystal")
    assert {"seed", "data", "packages", "validation", "commit"} <= set(account)
    first, best = account["validation"][0], max(account["validation"], key=lambda e: e["-log2(calls)"])
    assert best["mean calls"] < first["mean calls"]
