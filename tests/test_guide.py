"""docs/guide.md is run as written, in its own order, with shorter trainings."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "docs" / "guide.md").read_text()
BLOCKS = re.findall(r"```(bash|python)\n(.*?)```", GUIDE, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.strip().splitlines()]
# The guide's trainings take minutes; the same commands with these settings take seconds.
SHORT = "trainer.steps=150 trainer.warmup=100 trainer.eval_episodes=1 trainer.test_episodes=1 trainer.tensorboard=false"
SHORT += " replay.batch_size=16"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guide")
    for kind, text in BLOCKS:
        name = re.match(r"# (\w+\.py)\n", text)
        if kind == "python" and name:
            (folder / name.group(1)).write_text(text.replace('"steps": 1_500', '"steps": 60, "warmup": 50'))
    return folder


def shell(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    if words[1] == "train":
        words += SHORT.split()
    program = [sys.executable, "-m", "twofold"] if words[0] == "twofold" else [sys.executable]
    return subprocess.run(
        [*program, *words[1:]], cwd=place, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(place)},
    )  # fmt: skip


def test_the_guide_has_commands_and_files() -> None:
    assert len(COMMANDS) >= 10 and sum(kind == "python" for kind, _ in BLOCKS) == 3


@pytest.mark.xdist_group("guide")
def test_every_command_of_the_guide_works_in_order(place: Path) -> None:
    exports = importlib.util.find_spec("onnxruntime") is not None
    for command in COMMANDS if exports else [c for c in COMMANDS if "export" not in c]:
        done = shell(command, place)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert (place / "runs" / "first" / "videos" / "best_seed3000000.mp4").exists()
