"""The commands of docs/from-pymarl.md are run as written, in their order, with shorter trainings."""

import re
import shlex
from pathlib import Path

import pytest

from twofold.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-pymarl.md").read_text()
COMMANDS = re.findall(r"`(twofold [^`]+)`", PAGE[PAGE.index("## Commands") :])
SHORT = [
    *(f"trainer.{word}" for word in ("steps=120", "eval_every=120", "eval_episodes=2", "eval_rows=2")),
    *("trainer.test_episodes=1", "trainer.tensorboard=false", "networks.hidden=8"),
    *("replay.batch_size=2", "replay.buffer_size=8"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("from_pymarl")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs_as_written(command, place, monkeypatch):
    if "lbforaging" in command:
        pytest.importorskip("lbforaging")
    monkeypatch.chdir(place)
    words = shlex.split(command)[1:]
    if words[0] == "train" or words[:2] == ["partners", "make"]:
        words += SHORT
    if words[0] == "eval":
        words = [word.replace("=200", "=2") for word in words]
        words += ["--episodes=2"] if "--partners=sets/8m" in words else []
    assert main(words) == 0


def test_the_page_has_its_commands():
    assert len(COMMANDS) >= 14
