"""docs/guide.md is run as written, in its own order, with shorter trainings."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from typed import registries_kept, run_line

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


def test_the_guide_has_commands_and_files() -> None:
    assert len(COMMANDS) >= 10 and sum(kind == "python" for kind, _ in BLOCKS) == 3


def test_every_command_of_the_guide_works_in_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    exports = importlib.util.find_spec("onnxruntime") is not None
    with registries_kept():
        for command in COMMANDS if exports else [c for c in COMMANDS if "export" not in c]:
            short = SHORT.split() if command.startswith("twofold train") else []
            assert run_line(command, *short) == 0, command
    assert (place / "runs" / "first" / "videos" / "best_seed3000000.mp4").exists()
