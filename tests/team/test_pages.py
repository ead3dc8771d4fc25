"""The commands of docs/from-pymarl.md and docs/teams.md are run as written, in their order, with shorter trainings."""

import re
import shlex
from pathlib import Path

import pytest

from twofold.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLE = re.findall(r"`(twofold [^`]+)`", (DOCS / "from-pymarl.md").read_text().partition("## Commands")[2])
BLOCKS = re.findall(r"```bash\n(.*?)```", (DOCS / "teams.md").read_text(), re.DOTALL)
PAGES = {
    "from-pymarl": TABLE,
    "teams": [line for block in BLOCKS for line in block.strip().splitlines()],
}
SHORT = [
    *(f"trainer.{word}" for word in ("steps=120", "eval_every=120", "eval_episodes=2", "eval_rows=2")),
    *("trainer.test_episodes=1", "trainer.tensorboard=false", "networks.hidden=8"),
    *("replay.batch_size=2", "replay.buffer_size=8"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return {page: tmp_path_factory.mktemp(page) for page in PAGES}


@pytest.mark.parametrize(
    ("page", "command"), [(page, command) for page, commands in PAGES.items() for command in commands]
)
def test_a_command_of_the_page_runs_as_written(page, command, places, monkeypatch):
    if "lbf" in command or "runs/goals" in command:
        pytest.importorskip("lbforaging")
    monkeypatch.chdir(places[page])
    words = shlex.split(command)[1:]
    if words[0] == "train" or words[:2] == ["partners", "make"]:
        words += SHORT
    if words[0] == "eval":
        words = [word for word in words if not word.startswith("--episodes")] + ["--episodes=2"]
    assert main(words) == 0


def test_the_pages_have_their_commands():
    assert len(PAGES["from-pymarl"]) >= 14 and len(PAGES["teams"]) >= 13
