"""Commands of pages in this process: a new one would import torch again for each line."""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from twofold.cli import main
from twofold.settings import domains
from twofold.settings.registry import learners, networks, worlds


def run_line(line: str, *more: str) -> int:
    """`twofold ...` or `python FILE`, as somebody types it; the exit code."""
    program, *words = shlex.split(line, comments=True)
    if program == "python":
        runpy.run_path(words[0], run_name="__main__")
        return 0
    return main([*words, *more])


@contextmanager
def registries_kept() -> Iterator[None]:
    """Files of users in the working directory are forgotten again, and the parts and domains of theirs."""
    paths, here, added = list(sys.path), str(Path.cwd()), dict(domains._ADDED)
    try:
        yield
    finally:
        sys.path[:] = paths
        domains._ADDED.clear()
        domains._ADDED.update(added)
        own = [name for name, module in sys.modules.items() if _file(module).startswith(here)]
        for registry in (worlds, learners, networks):
            for name in [name for name, entry in registry._entries.items() if entry.make.__module__ in own]:
                del registry._entries[name]
        for name in own:
            del sys.modules[name]


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or ""
