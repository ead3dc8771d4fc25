"""Commands that work from where the user is: how this program is called, how a missing package is installed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

_REQUIREMENT = re.compile(r"""([^;]+?)\s*;.*\bextra\s*==\s*['"]([\w.-]+)['"]""")


def program() -> str:
    """How to call this program again from here."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{_near(Path(sys.executable))} -m twofold"
    found = shutil.which("twofold")
    if found is None or not called.exists() or os.path.samefile(found, called):
        return "twofold"
    return _near(called)


def pip() -> str:
    """The pip of this Python."""
    beside, found = Path(sys.executable).parent, shutil.which("pip")
    if found is not None and Path(found).parent == beside:
        return "pip"
    return f"{_near(Path(sys.executable))} -m pip"


def install(extra: str, package: str = "") -> str:
    """The command that brings an extra: from the clone that twofold runs from, else its packages by name."""
    if clone := _clone():
        where = shlex.quote(f"{_near(clone)}[{extra}]")
        return f"{pip()} install -e {where}"
    wanted = packages_of(extra) or [package or extra]
    return " ".join([pip(), "install", *(shlex.quote(one) for one in wanted)])


def packages_of(extra: str) -> list[str]:
    """What an extra asks for, extras inside of it opened."""
    found = []
    for requirement, named in extras():
        if named != extra:
            continue
        inner = re.fullmatch(r"twofold\[([\w,.-]+)\]", requirement.replace(" ", ""))
        parts = inner.group(1).split(",") if inner else []
        found += [one for part in parts for one in packages_of(part)] if inner else [requirement]
    return list(dict.fromkeys(found))


def extras() -> list[tuple[str, str]]:
    """(requirement, extra) of everything optional."""
    try:
        lines = metadata.requires("twofold") or []
    except metadata.PackageNotFoundError:
        return []
    matches = (_REQUIREMENT.match(line) for line in lines)
    return [(found.group(1), found.group(2)) for found in matches if found]


def _clone() -> Path | None:
    """The folder that twofold is installed from in place, if it is."""
    try:
        text = metadata.distribution("twofold").read_text("direct_url.json")
        about = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    url = str(about.get("url", ""))
    if not about.get("dir_info", {}).get("editable") or not url.startswith("file://"):
        return None
    folder = Path(url.removeprefix("file://"))
    return folder if (folder / "pyproject.toml").is_file() else None


def _near(path: Path) -> str:
    """The shorter of the absolute path and the one from here."""
    try:
        here = os.path.relpath(path)
    except (ValueError, OSError):  # no working directory
        return str(path)
    return min(str(path), here, key=len)
