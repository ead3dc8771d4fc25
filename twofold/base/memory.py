"""What a machine can hold."""

from __future__ import annotations

import os

from twofold.base.errors import ConfigError


def check_memory(what: str, needed: int) -> None:
    """Memory is taken bit by bit as it is filled: say now what would fail after hours."""
    held = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > held:
        raise ConfigError(f"{what} needs {needed:,} bytes of memory, this machine has {held:,}")
