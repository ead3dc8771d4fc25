"""The page on extending is run as it is written, and a domain that is installed is found without an edit of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typed import registries_kept, run_line

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.S)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extending")
    for kind, text in BLOCKS:
        if kind == "python":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
    presets = folder / "presets" / "envs"
    presets.mkdir(parents=True)
    (presets / "points.yaml").write_text("# Points in the plane.\nenv: mine/point\n")
    return folder


def shell(words: list[str], place: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *paths))), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(
    place: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    short = ("trainer.eval_episodes=1", "trainer.test_episodes=1", "trainer.tensorboard=false")
    with registries_kept():
        assert run_line(command, *(short if " train " in command else ())) == 0
    shown = capsys.readouterr().out
    if " check " in command:
        assert "wrong" not in shown
    if " list " in command:
        assert "mine: points in the plane" in shown and "mine/point" in shown


@pytest.mark.xdist_group("extending")
def test_an_installed_domain_brings_presets_and_commands(place: Path) -> None:
    """What an installer writes for a package that names the entry point of the page."""
    site = place / "site"
    info = site / "my_domain-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_domain\nVersion: 1.0\n")
    toml = next(text for kind, text in BLOCKS if kind == "toml")
    (info / "entry_points.txt").write_text(
        "[twofold.domains]\n" + toml.splitlines()[1].replace('"', "") + "\n"
    )
    assert "say what this domain does" in shell(["twofold", "--help"], place, place, site).stdout
    assert shell(["twofold", "greet"], place, place, site).stdout == "points go home\n"
    assert shell(["twofold", "greet", "--name=all"], place, place, site).stdout == "all go home\n"
    assert (
        "who is greeted (default points)" in shell(["twofold", "greet", "--help"], place, place, site).stdout
    )
    done = shell(["twofold", "check", "--env-config=points"], place, place, site)
    assert done.returncode == 0, done.stdout + done.stderr
