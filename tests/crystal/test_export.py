import numpy as np
import pytest

from twofold import api
from twofold.cli import main
from twofold.crystal.export import _data, as_typed
from twofold.crystal.features import NAMES
from twofold.crystal.library import StructureSet
from twofold.crystal.policy import DEFAULT, load_weights
from twofold.store.policy_file import load_policy, unseal

SETTINGS = {
    "env": "crystal/spring", "trainer.steps": 8, "trainer.eval_every": 4, "trainer.eval_episodes": 2,
    "trainer.test_episodes": 0, "trainer.warmup": 4, "trainer.tensorboard": False, "replay.batch_size": 4,
    "replay.buffer_size": 100, "env_args.sets": {"cu": {"structures": ["Cu"], "rattle": [0.1, 0.1]}},
}  # fmt: skip


def trained(folder, settings):
    api.train(config="td3_crystal", run=folder, **(SETTINGS | settings))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("run") / "run", {})


def test_a_runs_best_policy_becomes_a_policy_file_with_its_provenance(run, tmp_path, capsys):
    path = tmp_path / "deep" / "mine.safetensors"
    assert main(["relax-export", str(run), "-o", str(path), "--starts=8"]) == 0
    assert "mine.safetensors" in capsys.readouterr().out
    assert load_weights(path).act(np.zeros(len(NAMES))).shape == (7,)
    score = unseal(path)[1]["score"]
    assert score["seed"] == 0 and score["complete"] and score["steps"] == 8
    assert [entry["step"] for entry in score["curve"]] == [0, 4, 8]
    assert score["depth"]["starts"] == 8 and score["depth"]["command"].startswith("twofold")
    known = load_weights(path).depth
    assert known is not None and known.seen.shape[1] == len(NAMES)
    assert known.distances(np.full(len(NAMES), 3.0)).min() > known.limit
    assert load_policy(path).config.env_args.sets["cu"].structures == ("Cu",)


@pytest.mark.parametrize(
    "networks",
    [
        {},
        {"networks.actor_activation": "tanh"},
        {"networks.actor_layer_norm": True, "networks.actor_activation": "silu"},
    ],
)
def test_the_exported_policy_acts_like_the_runs_whatever_its_network(tmp_path, networks):
    folder = trained(tmp_path / "run", networks | {"networks.name": "vector"})
    main(["relax-export", str(folder), "--starts=8"])
    seen = np.random.default_rng(0).uniform(-1, 1, (5, len(NAMES))).astype(np.float32)
    wanted = load_policy(folder)
    found = load_weights(folder / "relaxer.safetensors")
    for row in seen:
        np.testing.assert_allclose(found.act(row), wanted.act(row), atol=1e-6)
    assert np.abs(found.act(seen[0])).max() > 1e-3, "not the prior"


def test_the_policy_of_the_package_can_be_measured_anew(tmp_path, capsys):
    path = tmp_path / "anew.safetensors"
    assert main(["relax-export", str(DEFAULT), "-o", str(path), "--env-config=crystal", "--starts=8"]) == 0
    told = capsys.readouterr().out
    assert "step 20000, by" in told and "step 8000, by" in told  # of its two trainings
    anew, seen = load_weights(path), np.linspace(-1, 1, len(NAMES), dtype=np.float32)
    assert len(anew.depth.seen) <= 6
    assert anew.act(seen).tolist() == load_weights(DEFAULT).act(seen).tolist()


def test_out_and_default_exclude_each_other(run, capsys):
    assert main(["relax-export", str(run), "--default", "-o", "x.safetensors"]) == 2
    assert "not both" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert main(["relax-export", str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_commands_are_kept_without_this_machines_paths():
    typed = "twofold train --seed=1 'a.b=c d'"
    assert as_typed("/some/where/twofold train --run=/x/y --seed=1 'a.b=c d'") == typed


def test_data_files_are_kept_by_their_checksums(tmp_path, monkeypatch):
    (tmp_path / "cells.csv").write_text("x")
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    found = _data({"cells": StructureSet(structures=("$TWOFOLD_DATA/cells.csv", "Cu"), calculator="emt")})
    assert found == {"$TWOFOLD_DATA/cells.csv": "blake2b-128 442a44457137672b3218c1007dc8f76a"}
