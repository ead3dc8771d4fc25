"""Where a result comes from: command, code, packages, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import TypedDict

from twofold.settings.domains import domains

_PACKAGES = ("torch", "numpy", "pydantic")  # besides those that the domains name


class Machine(TypedDict):
    """What a run was computed on."""

    system: str
    cpu: str
    cores: int | None


class Provenance(TypedDict):
    """What a result says of its making."""

    command: str
    started: str
    twofold: str
    commit: str | None
    python: str
    packages: dict[str, str]
    machine: Machine


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def versions() -> dict[str, str]:
    """The installed versions of what a result depends on."""
    found = {}
    wanted = (*_PACKAGES, *(package for domain in domains().values() for package in domain.packages))
    for name in dict.fromkeys(wanted):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def provenance(command: str) -> Provenance:
    """Where a result comes from: command, code, packages, machine."""
    here = Path(__file__).resolve().parent
    command_line = ["git", "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(
            command_line, cwd=here, capture_output=True, text=True, check=False
        ).stdout.strip()
    except OSError:
        commit = ""  # no git here
    try:
        own = importlib.metadata.version("twofold")
    except importlib.metadata.PackageNotFoundError:
        own = "uninstalled"
    return {
        "command": command,
        "started": now(),
        "twofold": own,
        "commit": commit or None,
        "python": platform.python_version(),
        "packages": versions(),
        "machine": {"system": platform.platform(), "cpu": cpu_name(), "cores": os.cpu_count()},
    }


def cpu_name() -> str:
    """The processor as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
