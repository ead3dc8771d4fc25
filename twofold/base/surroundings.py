"""What the machine has against a command, in one line: files, folders, memory, packages that are not there."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re

from twofold.base.errors import MissingPackage

SURROUNDINGS = (OSError, ImportError, MemoryError, RecursionError)


def told(error: BaseException) -> str:
    """One line about an error that is nobody's mistake in the code."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        return str(MissingPackage(package, extra_of(package), "this command"))
    if isinstance(error, OSError):
        return _of_files(error)
    if isinstance(error, MemoryError):
        return "this machine's memory does not suffice: ask for less (rows, replay.buffer_size, widths, a smaller file)"
    if isinstance(error, RecursionError):
        return "something that was given is nested too deeply"
    return f"a package cannot be imported: {error}"


def _of_files(error: OSError) -> str:
    if error.errno == errno.ENOENT and not _has_folder():
        return "the working directory is gone: change into one that exists"
    name = f"{error.filename}: " if error.filename is not None else ""
    return f"{name}{error.strerror or error}"


def _has_folder() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def extra_of(package: str) -> str:
    """The extra of the installation that brings a package, as far as its metadata tells."""
    try:
        wanted = importlib.metadata.requires("twofold") or []
    except importlib.metadata.PackageNotFoundError:
        wanted = []
    for line in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", line)
        extra = re.search(r"extra *== *['\"]([^'\"]+)", line)
        if name and extra and name[0].lower().replace("-", "_") == package.lower().replace("-", "_"):
            return extra[1]
    return "all"
