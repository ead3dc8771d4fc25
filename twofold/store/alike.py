"""What must be the same on every machine for the same bytes: Python, packages, and twofold's own files."""

from __future__ import annotations

import hashlib
import platform
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from twofold.base.regular import files_below, read_regular
from twofold.store.provenance import versions

_OF_THE_CODE = (
    ".py",
    ".c",
    ".yaml",
    ".safetensors",
)  # built and cached files differ between machines that agree


@dataclass(frozen=True)
class Software:
    """What a machine would compute with."""

    host: str
    python: str
    packages: dict[str, str]
    code: str  # digest of twofold's own files: checkouts of one version differ, too


def software() -> Software:
    """That of this machine."""
    return Software(socket.gethostname(), platform.python_version(), versions(), _code())


@lru_cache(maxsize=1)
def _code() -> str:
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.blake2b(digest_size=6)
    for path in files_below(root):
        if path.suffix in _OF_THE_CODE:
            content = read_regular(path)
            digest.update(f"{path.relative_to(root)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def unlike(here: Software, there: Software) -> str:
    """Why results of two machines would differ, or nothing."""
    if there.python != here.python:
        return f"{there.host} has Python {there.python}, {here.host} {here.python}: results would differ"
    for name in sorted(here.packages.keys() | there.packages.keys()):
        ours, theirs = here.packages.get(name, "none"), there.packages.get(name, "none")
        if ours != theirs:
            return (
                f"{there.host} has {name} {theirs}, {here.host} {ours}: install the same versions everywhere"
            )
    if there.code != here.code:
        return (
            f"{there.host} has another twofold (files {there.code}, {here.host} {here.code}): install the same "
            "version or commit everywhere"
        )
    return ""
