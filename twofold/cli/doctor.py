"""`twofold doctor`: what is installed, what it computes with, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args

from twofold.base import installing
from twofold.cli import menu

_TRIED = ((3, 11), (3, 13))  # Python versions that releases are tried with


def doctor(asked: menu.Doctor) -> int:
    """Print what was found; the exit code is 1 where something needed does not work."""
    wrong: list[str] = []
    _about_python(wrong)
    _about_packages(wrong)
    _about_engines(wrong)
    _about_machine(wrong)
    _about_extras()
    print()
    for line in wrong:
        print(f"wrong      {line}")
    print("everything that is needed works" if not wrong else f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


def _row(name: str, value: str) -> None:
    print(f"{name:<18} {value}")


def _about_python(wrong: list[str]) -> None:
    _row("twofold", f"{_version('twofold') or 'not installed'}  ({Path(__file__).resolve().parents[1]})")
    _row("called as", installing.program())
    _row("python", f"{platform.python_version()}  ({sys.executable})")
    if not _TRIED[0] <= sys.version_info[:2] <= _TRIED[1]:
        wrong.append(f"Python {platform.python_version()}: 3.11 to 3.13 are tried")
    _row("system", platform.platform())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _needed() -> list[str]:
    """Packages of the core, by name."""
    try:
        lines = metadata.requires("twofold") or []
    except metadata.PackageNotFoundError:
        return []
    return [line for line in lines if "extra ==" not in line]


def _about_packages(wrong: list[str]) -> None:
    for requirement in _needed():
        name = _name(requirement)
        version = _version(name)
        _row(name, version or "MISSING")
        if version is None:
            wrong.append(f"{name} is missing: {installing.pip()} install '{requirement}'")


def _name(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;(]", requirement, maxsplit=1)[0]


def _about_engines(wrong: list[str]) -> None:
    """How gradients are computed: by hand where the networks allow it, else by torch."""
    try:
        import torch

        from twofold.learners.config import EngineName
        from twofold.native.library import absent
    except ImportError as error:
        wrong.append(f"torch cannot be imported: {error}")
        return
    names = [name for name in get_args(EngineName) if name != "auto"]
    _row("engines", f"{', '.join(names)} (learner.engine; auto takes the fastest that can)")
    _row("native engine", absent() or "built, and of this version")
    _row("torch threads", f"{torch.get_num_threads()} by itself; a run takes `threads`, 1 by default")
    _row("cuda", f"{torch.version.cuda or 'not in this torch'}, {torch.cuda.device_count()} devices")


def _about_machine(wrong: list[str]) -> None:
    _row("cores", str(os.cpu_count()))
    try:
        free = shutil.disk_usage(".").free
    except OSError:
        wrong.append("the working directory is gone: cd into one that exists")
        return
    _row("disk here", f"{free / 1e9:,.1f} GB free")
    if not os.access(".", os.W_OK):
        wrong.append(
            "the working directory cannot be written to: runs would fail; cd elsewhere, or give --runs=DIR"
        )
    _row("pictures", _rendering())


def _rendering() -> str:
    """Whether an environment can be drawn here."""
    try:
        import gymnasium as gym

        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        world = gym.make("Pendulum-v1", render_mode="rgb_array")
        world.reset(seed=0)
        world.render()
        world.close()
    except Exception as error:  # drivers are missing in ways of their own
        return f"impossible ({type(error).__name__}: {error}); everything but `play` works"
    return "can be drawn (videos, `twofold play`)"


def _about_extras() -> None:
    print("\nextras")
    wanted: dict[str, list[str]] = {}
    for requirement, extra in installing.extras():
        wanted.setdefault(extra, []).append(requirement)
    for extra in sorted(wanted):
        missing = [name for name in _packages(extra) if not _installed(name)]
        if missing:
            _row(f"  {extra}", f"missing {', '.join(missing)}: {installing.install(extra)}")
        else:
            _row(f"  {extra}", "complete")


def _packages(extra: str) -> Iterator[str]:
    return (_name(requirement) for requirement in installing.packages_of(extra))


def _installed(name: str) -> bool:
    return _version(name) is not None or importlib.util.find_spec(name.replace("-", "_")) is not None
