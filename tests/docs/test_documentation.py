"""Every command and snippet of the pages is run as written, in its order, with shorter trainings: `make docs`.

Other pages have tests of their own: guide (tests/test_guide.py), extending (tests/test_extending.py), lab
(tests/lab/test_guide.py), teams and from-pymarl (tests/team/test_pages.py).
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from twofold import api, assemble
from twofold.cli import main
from twofold.settings.presets import read_yaml

ROOT = Path(__file__).resolve().parents[2]
_ALL = ("eval_episodes=1", "test_episodes=1", "tensorboard=false")
CONTROL = (*_ALL, "steps=150", "warmup=100", "eval_every=150", "log_every=50")
RECSYS = (*_ALL, "steps=200", "rows=10", "warmup=100", "eval_every=200", "updates_per_item=0.1")
WALKER = (*CONTROL, "finalists=1", "rows=1")
CRYSTAL = (*_ALL, "steps=40", "rows=2", "warmup=20", "eval_every=40")
SMALL = ("replay.batch_size=16", "replay.buffer_size=2_000")
PAGES = {
    "README.md": CONTROL,
    "docs/start.md": CONTROL,
    "docs/algorithms/td3_plus.md": CONTROL,
    "docs/hardcore.md": WALKER,
    "docs/recsys.md": RECSYS,
    "docs/concepts/resume.md": CONTROL,
    "docs/howto/deploy.md": CONTROL,
    "docs/howto/logging.md": CONTROL,
    "docs/howto/rows.md": CONTROL,
    "docs/moving/ase.md": CRYSTAL,
    "docs/moving/cleanrl.md": CONTROL,
    "docs/moving/rl-zoo.md": CONTROL,
    "docs/moving/sb3.md": CONTROL,
    "docs/tutorials/control.md": CONTROL,
    "docs/tutorials/crystals.md": CRYSTAL,
    "docs/tutorials/recommendation.md": RECSYS,
}
NEEDS = {"deploy": "onnxruntime", "crystals": "ase", "ase": "ase"}
LIBRARIES = ("pymatgen", "chgnet", "matcalc")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of every block of code."""
    return _BLOCK.findall((ROOT / page).read_text())


def shortened(words: list[str], settings: tuple[str, ...]) -> list[str]:
    if words[0] == "train":
        return [*words, *(f"trainer.{setting}" for setting in settings), *SMALL]
    if words[0] == "eval":
        return [*(w for w in words if not w.startswith("--episodes")), "--episodes=1"]
    return words


def run_command(line: str, settings: tuple[str, ...]) -> None:
    if re.search(r"# .*\bdays\b", line):  # the reader is warned, and the line is parsed with all others
        return
    words = shlex.split(line, comments=True)
    if words[:2] == [
        "twofold",
        "page",
    ]:  # it serves until somebody stops it; tests/lab/page has it in a browser
        return
    if words[:2] == ["twofold", "lab"]:
        write_experiment(Path(words[2]), settings)
    if words[:1] == ["python"]:
        runpy.run_path(words[1])
    elif words[:2] == ["twofold", "serve"]:
        serve_and_ask(words[2:])
    elif words[:1] == ["twofold"]:
        assert main(shortened(words[1:], settings)) == 0, line


def write_experiment(path: Path, settings: tuple[str, ...]) -> None:
    """An experiment that is shipped, with shorter trainings of fewer seeds."""
    shorter = {
        f"trainer.{key}": float(value) for key, value in (s.split("=") for s in settings if s[-1:].isdigit())
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({**read_yaml(ROOT / path), "seeds": "1..2", "set": shorter}))


def serve_and_ask(words: list[str]) -> None:
    """Start a server as a page says, on a free port, ask it for items, and end it."""
    pytest.importorskip("uvicorn", reason="serving needs uvicorn")
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    command = [sys.executable, "-m", "twofold", "serve", *words, f"--port={port}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        answer = asked(f"http://127.0.0.1:{port}/recommend?user=17&k=5", server)
        assert len(json.loads(answer)["items"]) == 5
    finally:
        server.terminate()
        server.wait()


def asked(address: str, server: subprocess.Popen[bytes]) -> bytes:
    """The answer, as soon as the server listens."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError(f"the server ended with {server.returncode}")


def short_python(monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...]) -> None:
    """Trainings that snippets start are as short as those of commands."""
    given = {f"trainer.{key}": value for key, value in (setting.split("=") for setting in settings)}
    numbers = {
        key: value == "true" if value in ("true", "false") else float(value) for key, value in given.items()
    }
    prepare: Callable[..., object] = api._prepare
    resume = assemble.Trained.resume

    def prepared(config: str, env_config: str, overrides: Mapping[str, object], *rest: object) -> object:
        return prepare(config, env_config, {**overrides, **numbers, "replay.batch_size": 16}, *rest)

    monkeypatch.setattr(api, "_prepare", prepared)
    monkeypatch.setattr(assemble.Trained, "resume", lambda run, steps=None: resume(run, steps and 200))


def write_ratings(folder: Path) -> None:
    """The files of ratings that pages speak of."""
    rng = np.random.default_rng(0)
    pairs = [(user, item) for user in range(1, 31) for item in range(1, 81) if rng.random() < 0.3]
    pairs += [(17, item) for item in (12, 40, 77) if (17, item) not in pairs]
    rows = [f"{user},{item},{rng.integers(1, 6)},{time}" for time, (user, item) in enumerate(pairs)]
    for name in ("my.csv", "today.csv"):
        (folder / name).write_text("\n".join(["userId,movieId,rating,timestamp", *rows]) + "\n")


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for word, package in NEEDS.items():
        if word in Path(page).stem:
            pytest.importorskip(package, reason=f"{page} needs {package}")
    monkeypatch.chdir(tmp_path)
    write_ratings(tmp_path)
    short_python(monkeypatch, PAGES[page])
    names: dict[str, object] = {"__name__": "page"}
    for kind, text in blocks(page):
        file = re.match(r"# (\w+\.(?:py|yaml))\n", text)
        if file:
            Path(file[1]).write_text(text)
        elif kind == "bash":
            for line in text.strip().splitlines():
                run_command(line, PAGES[page])
        elif kind == "python":
            exec(compile(text, page, "exec"), names)


def test_every_page_with_commands_is_run_somewhere() -> None:
    elsewhere = {"guide", "extending", "lab", "teams", "from-pymarl", "index"}
    # Machines that are not here: their commands are parsed with all others (tests/cli/test_help.py).
    looked_at = {"crystals", "scale"}
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT).as_posix()
        runs = any(kind in ("bash", "python") for kind, _ in blocks(name))
        assert not runs or name in PAGES or path.stem in elsewhere | looked_at, name


@pytest.mark.docs
def test_the_snippets_on_crystals_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ase", reason="the domain crystal needs ase")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for kind, text in blocks("docs/crystals.md"):
        if kind == "python" and not any(library in text for library in LIBRARIES):
            exec(compile(text, "docs/crystals.md", "exec"), names)


@pytest.mark.docs
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_snippets_of_other_libraries_run(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("pymatgen", library):  # each begins with the structure of the first
        pytest.importorskip(needed, reason=f"this recipe needs {needed}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for kind, text in blocks("docs/crystals.md"):
        if kind == "python" and any(f"from {one}" in text for one in ("pymatgen", library)):
            exec(compile(text, "docs/crystals.md", "exec"), names)
    assert "relaxed" in names
