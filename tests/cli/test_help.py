"""Every command explains itself: quickly, in lines that fit, with examples that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from twofold.base.command import Command
from twofold.cli import help, main, menu
from twofold.cli.finding import find
from twofold.cli.parser import parse
from twofold.settings.config import layers_for, resolve
from twofold.settings.presets import config_names

ALL = [one for group in menu.all_commands().values() for one in group]
NAMES = sorted({one.name for one in ALL})
EXAMPLES = [(one, example) for one in ALL for example in one.examples]
HEAVY = ("torch", "numpy", "pydantic", "gymnasium", "ase", "rich", "matplotlib")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(" "), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"usage: twofold {name}" in out and "examples:\n  twofold " in out


def test_no_help_imports_what_takes_long() -> None:
    """Half a second is the limit; torch alone takes more."""
    code = "import sys; from twofold.cli import main\n"
    code += "".join(f"main({[*name.split(' '), '--help']!r})\n" for name in NAMES)
    code += (
        f"main(['--help']); assert not set({HEAVY!r}) & set(sys.modules), set({HEAVY!r}) & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("columns", ["80", "60"])
def test_help_fits_the_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    texts = [help.of(one) for one in ALL] + [help.overview(menu.all_commands())]
    lines = [line for text in texts for line in text.splitlines()]
    assert [line for line in lines if len(line) > int(columns)] == []


def test_help_of_a_command_is_also_behind_the_word_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", "eval"])
    assert "usage: twofold eval" in capsys.readouterr().out


def test_every_command_that_takes_settings_names_those_that_matter() -> None:
    for one in ALL:
        takes = any(asked.role == "settings" for asked in one.asked())
        assert not takes or one.matters or one.when, one.name
    assert len(menu.TRAIN.matters) >= 10


@pytest.mark.parametrize(("command", "example"), EXAMPLES, ids=[e for _, e in EXAMPLES])
def test_an_example_is_what_its_command_takes(command: Command, example: str) -> None:
    """Presets exist, options are known, settings resolve; the ones that are quick are run by other tests."""
    program, *words = shlex.split(example)
    assert program == "twofold"
    found, rest = find(words, ALL)
    assert found is not None
    asked = parse(found, rest)
    named = getattr(asked, "env_config", None)
    assert named is None or named in config_names("envs")
    if isinstance(asked, menu.Train) and asked.from_ is None:
        resolve(layers_for(asked.config or "td3", asked.env_config or "pendulum", asked.settings))


def test_the_settings_that_matter_are_settings() -> None:
    from twofold.settings.presets import parse_value

    for key, _ in menu.TRAIN.matters:
        name, _, value = key.partition("=")
        assert name.startswith("env_args.") or resolve(
            layers_for("td3", "pendulum", {name: parse_value(value)})
        )


def test_runs_that_examples_name_are_made_by_examples() -> None:
    """Whoever follows the examples of a domain finds what they name."""
    words = [word for _, example in EXAMPLES for word in shlex.split(example)]
    made = {word.removeprefix("--run=") for word in words if word.startswith("--run=")}
    named = {word for word in words if word.startswith("runs/")} - {"runs/coat", "runs/iql", "runs/vdn"}
    assert {name for name in named if not name.endswith("*")} <= made | {"runs/shop"}


def pages() -> list[Path]:
    root = Path(__file__).resolve().parents[2]
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]


def test_every_command_line_of_the_pages_is_taken() -> None:
    """As a shell gives it: comments, pipes and what runs beside it are not the command's."""
    taken = 0
    for page in pages():
        blocks = re.findall(
            r"```(?:bash|sh|console)\n(.*?)```", page.read_text().replace("\\\n", " "), re.DOTALL
        )
        for line in [line for block in blocks for line in block.splitlines()]:
            found = re.match(r"(?:\$ )?(?:\S*/)?twofold (\w.*)", line.strip())
            words = shlex.split(found[1], comments=True) if found else []
            words = list(takewhile(lambda word: word not in ("|", "&", ">", ">>", "&&"), words))
            if not words or "--help" in words:
                continue
            command, rest = find(words, ALL)
            assert command is not None, f"{page}: {line}"
            parse(command, rest)
            taken += 1
    assert taken > 50
