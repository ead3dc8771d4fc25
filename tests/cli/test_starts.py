"""Starts that fail leave nothing; runs remember what they were made with; messages name what works from here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from twofold.base import installing
from twofold.base.errors import MissingPackage
from twofold.cli import main

ENVIRONMENT = """
import gymnasium as gym
import numpy as np

class Line(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}

gym.register("Line-v0", Line, max_episode_steps=5)
"""
QUICK = "trainer.steps=40 trainer.warmup=20 trainer.eval_every=40 trainer.eval_episodes=1 trainer.test_episodes=1 "
QUICK += "trainer.tensorboard=false replay.batch_size=4 networks.actor_hidden=4 networks.critic_hidden=4"


@pytest.mark.parametrize(
    "words",
    [
        ["--env-config=gym", "env_args.id=CartPole-v1"],
        ["--env-config=gym", "env_args.id=Nowhere-v3"],
        ["--env-config=skirmish", "--config=qmix", "env_args.map_name=nowhere"],
        ["--env-config=partnered", "--config=iql", "env_args.partners=nowhere"],
        ["--env-config=pendulum", "networks.name=team/rnn"],
    ],
    ids=["discrete", "unknown", "map", "partners", "networks"],
)
@pytest.mark.parametrize("where", [[], ["--run=deep/er/run"], ["--runs=mine"]], ids=["new", "named", "below"])
def test_a_start_that_fails_leaves_nothing(
    words: list[str], where: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words, *where, *QUICK.split()]) == 2
    assert os.listdir(tmp_path) == []


def test_a_folder_that_was_there_stays_and_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert main(["train", "--run=mine", "--env-config=gym", "env_args.id=CartPole-v1"]) == 2
    assert os.listdir(tmp_path / "mine") == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("imports")
    (place / "lines.py").write_text(ENVIRONMENT)
    before = Path.cwd()
    os.chdir(place)
    try:
        assert main(["train", "--import=lines.py", "--env=Line-v0", "--run=run", *QUICK.split()]) == 0
    finally:
        os.chdir(before)
    return place


@pytest.mark.parametrize(
    "words",
    [["eval", "run"], ["play", "run"], ["train", "--from=run", "seed=2"], ["eval", "run/best.safetensors"]],
)
def test_a_run_names_the_import_that_is_missing(
    words: list[str], made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import gymnasium as gym

    monkeypatch.chdir(made)
    monkeypatch.delitem(gym.registry, "Line-v0")
    assert main(words) == 2
    assert "This run was made with --import=lines.py: add it" in capsys.readouterr().err


def test_what_a_strangers_run_names_is_shown_only_if_it_can_be(made: Path, tmp_path: Path) -> None:
    from twofold.store.provenance import imports_of

    record = {"imports": ["good.py", "\033[31mred.py", 5, "x" * 300, ""]}
    (tmp_path / "provenance.json").write_text(json.dumps(record))
    assert imports_of(tmp_path) == ["good.py"] and imports_of(tmp_path / "nowhere") == ["good.py"]
    (tmp_path / "provenance.json").write_text("[]")
    assert imports_of(tmp_path) == [] and imports_of(made / "run") == ["lines.py"]


# ---- what works from here -------------------------------------------------------------------------------------------


def test_a_clone_installs_its_extras_from_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    (clone / "inside").mkdir(parents=True)
    monkeypatch.setattr(installing, "_clone", lambda: clone)
    monkeypatch.setattr(installing, "pip", lambda: "pip")
    monkeypatch.chdir(clone)
    assert installing.install("crystal") == "pip install -e '.[crystal]'"
    monkeypatch.chdir(clone / "inside")
    assert installing.install("crystal") == "pip install -e '..[crystal]'"


def test_an_installed_package_names_the_packages_of_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        'ase>=3.27; extra == "crystal"',
        'twofold[crystal]; extra == "chgnet"',
        'chgnet>=0.4; extra == "chgnet"',
    ]
    monkeypatch.setattr(installing, "_clone", lambda: None)
    monkeypatch.setattr(installing, "pip", lambda: "pip")
    monkeypatch.setattr(installing.metadata, "requires", lambda name: ["numpy>=2", *lines])
    assert installing.install("chgnet") == "pip install 'ase>=3.27' 'chgnet>=0.4'"
    assert installing.install("unknown", "thing") == "pip install thing"
    assert str(MissingPackage("chgnet", "chgnet", "CHGNet")).endswith("pip install 'ase>=3.27' 'chgnet>=0.4'")


def test_a_pip_of_another_python_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing.shutil, "which", lambda name: "/usr/bin/pip")
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    assert installing.pip() == "/opt/venv/bin/python -m pip"
    monkeypatch.setattr(installing.shutil, "which", lambda name: "/opt/venv/bin/pip")
    assert installing.pip() == "pip"


def test_a_missing_package_of_a_domains_command_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("twofold.crystal.commands")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ase", None)
    assert main(["relax", "Cu"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("twofold: twofold relax needs the package 'ase': ")
    assert "install" in message and ("[crystal]" in message or "'ase>=" in message)
