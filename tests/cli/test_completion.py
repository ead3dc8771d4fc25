"""What the shell offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twofold.cli.completion import BASH, complete

ROOT = Path(__file__).resolve().parents[2]


def test_commands_and_their_verbs() -> None:
    assert complete("twofold re") == [
        "recommend",
        "relax",
        "relax-compare",
        "relax-export",
        "report",
        "resume",
    ]
    assert complete("twofold partners ") == ["gather", "make", "show", "split"]
    assert complete("twofold") == [] and complete("") == []


def test_options_and_settings_that_matter() -> None:
    assert complete("twofold plot --m") == ["--metric="]
    assert complete("twofold show --sc") == ["--schema"]
    assert "trainer.steps=" in complete("twofold train trainer.")
    assert "--import=" in complete("twofold train --")


def test_values_of_options() -> None:
    assert complete("twofold train --config=td3_p") == [
        f"--config=td3_{name}" for name in ("paper", "parl", "plus")
    ]
    assert complete("twofold train --env_config=hop") == ["--env_config=hopper"]
    assert complete("twofold eval --zoo=hop") == ["--zoo=hopper"]
    assert complete("twofold compare --score=l") == ["--score=last"]


def test_runs_end_where_they_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "config.json").touch()
    assert complete("twofold resume r") == ["runs/"]
    assert complete("twofold resume runs/") == ["runs/first"]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds `twofold`."""
    (tmp_path / "twofold").write_text(f'#!/bin/sh\nexec {sys.executable} -m twofold "$@"\n')
    (tmp_path / "twofold").chmod(0o755)
    return os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_a_value_behind_the_equals_sign(shell: dict[str, str]) -> None:
    script = f'{BASH}\nCOMP_LINE="twofold train --config=td3_pa"; COMP_POINT=${{#COMP_LINE}}\n'
    script += "_twofold; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=shell)
    assert done.stdout.split() == ["td3_paper", "td3_parl"], done.stderr


# A shell in a terminal of its own: Tab behind half a name, then a key that writes the line into a file. The file is
# read, never the screen: how a terminal paints a line that is being edited depends on the moment.
TYPED = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'autoload -Uz compinit; compinit -u -D; eval "$(twofold completion zsh)"'
zpty -w z 'keep() { print -r -- "$BUFFER" >$LINE.part && mv $LINE.part $LINE }; zle -N keep; bindkey "^T" keep'
zpty -w z 'print REA""DY'
zpty -r -m z seen '*READY*'
zpty -w -n z $'twofold train --config=td3_pap\t\x14'
for tick in {1..600}; do [[ -e $LINE ]] && break; sleep 0.1; done
zpty -d z
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_completes_a_line_as_it_is_typed(shell: dict[str, str], tmp_path: Path) -> None:
    line = tmp_path / "line"
    subprocess.run(
        ["zsh", "-f", "-c", TYPED], capture_output=True, check=True, env=shell | {"LINE": str(line)}
    )
    assert line.read_text().strip() == "twofold train --config=td3_paper"
