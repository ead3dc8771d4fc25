"""The built wheel in clean venvs outside of the repository: the core alone, and the core with each extra alone.

python release/clean.py dist/twofold-*.whl [core recsys serve ...] [--python=python3.12] [--keep=FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHORT = "trainer.steps=150 trainer.warmup=100 trainer.eval_episodes=1 trainer.test_episodes=1 replay.batch_size=16"
SWEPT = f"--env-config=pendulum learner.tau=0.005|0.01 {SHORT} --trials=1 --confirm=0 --final=0 --sweep=swept"
# What must work with the core alone; then, what each extra is there for, and what is said of it where it is absent.
CORE = (
    "--version",
    "doctor",
    "list",
    "eval --zoo=pendulum --episodes=1",
    f"train --env-config=pendulum --run=run {SHORT}",
    "resume run",
    "play run",
    "show run",
)
EXTRAS = {
    "recsys": ("fit --env-config=synthetic_users env_args.synthetic.users=20 --run=users", ""),
    "serve": ("serve --help", ""),
    "crystal": ("relax Cu*2x1x1 --rattle=0.1 --out=out.cif", "relax Cu"),
    "team": ("check --env-config=lbf", "check --env-config=lbf"),
    "lab": ("runs .", "page ."),
    "export": ("export --zoo=pendulum --out=out.onnx", "export --zoo=pendulum"),
    "sweep": (f"sweep {SWEPT}", f"sweep {SWEPT}"),
    "mlflow": (f"train --env-config=pendulum --run=run --log=mlflow {SHORT}", ""),
}


class Clean:
    """A venv with the wheel and one extra, and a folder to work in."""

    def __init__(self, folder: Path, python: str, wheel: Path, extra: str) -> None:
        self.work, venv, core = folder / "work", folder / "venv", folder.parent / "core" / "venv"
        self.work.mkdir(parents=True, exist_ok=True)
        self.python = venv / "bin" / "python"
        if not venv.exists() and core.exists():
            # torch alone takes minutes: files that do not change are shared
            shutil.copytree(core, venv, symlinks=True, copy_function=os.link)
        elif not venv.exists():
            subprocess.run([python, "-m", "venv", str(venv)], check=True)
        wanted = f"{wheel.resolve()}{f'[{extra}]' if extra else ''}"
        pip = [str(self.python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), wanted]
        subprocess.run(pip, check=True, cwd=folder)

    def run(self, words: str) -> subprocess.CompletedProcess[str]:
        outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [str(self.python), "-m", "twofold", *words.split()]
        return subprocess.run(
            command, cwd=self.work, env=outside, capture_output=True, text=True, check=False
        )

    def starts(self) -> str:
        """The program that the installation made is the package."""
        done = subprocess.run([str(self.python.parent / "twofold"), "--version"], cwd=self.work, check=False)
        return "" if done.returncode == 0 else "bin/twofold does not start"

    def works(self, words: str) -> str:
        done = self.run(words)
        return (
            "" if done.returncode == 0 else f"twofold {words}: {(done.stderr or done.stdout).strip()[-300:]}"
        )

    def refuses(self, words: str) -> str:
        """A command whose extra is absent is one line that names what to install."""
        done = self.run(words)
        told = done.returncode == 2 and "install" in done.stderr and len(done.stderr.splitlines()) == 1
        return "" if told else f"twofold {words} without its extra: {done.stderr.strip()[-300:]}"


def tried(wheel: Path, name: str, python: str, folder: Path) -> list[str]:
    """What went wrong with the core, or with one extra alone."""
    began = time.monotonic()
    clean = Clean(folder / name, python, wheel, "" if name == "core" else name)
    installed = time.monotonic() - began
    if name == "core":
        wrong = [clean.starts(), *(clean.works(words) for words in CORE)]
        wrong += [clean.refuses(absent) for _, absent in EXTRAS.values() if absent]
    else:
        wrong = [clean.works("doctor"), clean.works(EXTRAS[name][0])]
    found = [line for line in wrong if line]
    print(f"{name:<8} {'works' if not found else 'FAILS'}  (installed in {installed:.0f} s)", flush=True)
    return found


def main() -> int:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("wheel", type=Path)
    typed.add_argument("names", nargs="*", help=f"core and some of {', '.join(EXTRAS)}; default: all")
    typed.add_argument("--python", default=sys.executable)
    typed.add_argument("--keep", type=Path, help="make the venvs here, and leave them")
    asked = typed.parse_args()
    with tempfile.TemporaryDirectory(prefix="twofold-clean-") as made:
        folder = asked.keep or Path(made)
        wrong = [
            line
            for name in asked.names or ["core", *EXTRAS]
            for line in tried(asked.wheel, name, asked.python, folder)
        ]
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
