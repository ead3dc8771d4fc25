"""Sacred's own file observer records a training; without Sacred the message says what to install."""

import json
import sys

import pytest

from twofold import api
from twofold.base.errors import UserError
from twofold.team.observers import _nested, observed


def small_run(folder):
    settings = {
        "trainer.steps": 60,
        "trainer.eval_every": 50,
        "networks.hidden": 8,
        "trainer.tensorboard": False,
    }
    return api.train("vdn", "two_step", run=folder, **settings)


def test_a_run_is_recorded_in_sacreds_layout(tmp_path):
    pytest.importorskip("pkg_resources", reason="Sacred needs setuptools below 81 (extra 'sacred')")
    pytest.importorskip("sacred")
    trained = observed(
        f"sacred:{tmp_path / 'sacred'}", {"learner.gamma": 0.9}, lambda: small_run(tmp_path / "run")
    )
    record = tmp_path / "sacred" / "1"
    assert json.loads((record / "run.json").read_text())["status"] == "COMPLETED"
    assert json.loads((record / "config.json").read_text())["twofold"]["learner"]["gamma"] == 0.9
    metrics = json.loads((record / "metrics.json").read_text())
    assert metrics["eval/return"]["steps"][-1] == 60 and (record / "twofold_best.safetensors").exists()
    assert json.loads((record / "run.json").read_text())["result"] == trained.test["eval"]["return"]["mean"]


def test_an_absent_sacred_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacred", None)
    with pytest.raises(UserError, match=r"pip install sacred"):
        observed("sacred:somewhere", {}, lambda: None)


def test_an_observer_that_is_not_sacred_is_refused():
    with pytest.raises(UserError, match="sacred:DIR"):
        observed("mlflow:somewhere", {}, lambda: None)


def test_dotted_settings_become_nested():
    assert _nested({"a.b.c": 1, "a.d": (1, 2), "e": None}) == {"a": {"b": {"c": 1}, "d": [1, 2]}, "e": None}
