"""Where a result comes from: command, code, packages, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import TypedDict

from twofold.base.errors import CheckpointError
from twofold.settings.domains import domains
from twofold.store import files

_PACKAGES = ("torch", "numpy", "pydantic")  # besides those that the domains name


class Machine(TypedDict):
    """What a run was computed on."""

    system: str
    cpu: str
    cores: int | None


class Provenance(TypedDict):
    """What a result says of its making."""

    command: str
    imports: list[str]  # files and modules of the user's
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


def imports_of(place: Path) -> list[str]:
    """The --import names that a run was made with, of a run directory or of a policy file inside of one.

    They are only ever shown: what is imported is the user's word alone.
    """
    folder = place if place.is_dir() else place.parent
    try:
        record = files.read_json(folder / "provenance.json")
    except CheckpointError:
        return []
    names = record.get("imports") if isinstance(record, dict) else None
    texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return [name for name in texts if 0 < len(name) < 200 and name.isprintable()]


def provenance(command: str, imports: tuple[str, ...] = ()) -> Provenance:
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
        "imports": list(imports),
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
