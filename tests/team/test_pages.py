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


@pytest.mark.parametrize("page", [pytest.param("from-pymarl", marks=pytest.mark.docs), "teams"])
def test_the_commands_of_a_page_run_as_written_in_their_order(page, tmp_path, monkeypatch):
    pytest.importorskip("lbforaging")
    monkeypatch.chdir(tmp_path)
    for command in PAGES[page]:
        words = shlex.split(command)[1:]
        if words[0] == "train" or words[:2] == ["partners", "make"]:
            words += SHORT
        if words[0] == "eval":
            words = [word for word in words if not word.startswith("--episodes")] + ["--episodes=2"]
        assert main(words) == 0, command


def test_the_pages_have_their_commands():
    assert len(PAGES["from-pymarl"]) >= 14 and len(PAGES["teams"]) >= 13
