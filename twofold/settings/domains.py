"""Domains: found by entry points, so that a new one edits no file of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from twofold.base.command import Command
from twofold.base.errors import ConfigError, MissingPackage

GROUP = "twofold.domains"


@dataclass(frozen=True)
class Domain:
    """What a domain brings; named by an entry point, so it must import nothing heavy itself."""

    name: str  # the part before the slash in 'recsys/users'
    about: str  # one line
    parts: tuple[str, ...] = ()  # modules that register worlds, learners and networks
    presets: Path | None = None  # a folder with algs/*.yaml and envs/*.yaml
    zoo: Path | None = None  # a folder with policy files
    commands: tuple[Command, ...] = ()  # of the command line
    packages: tuple[str, ...] = ()  # whose versions a result depends on
    extra: str = ""  # of the installation, where a package is missing
    translate: str = ""  # 'module:function': command lines that its users know -> ours
    train_options: type | None = None  # a dataclass of options of `train` that only `translate` understands
    observers: Mapping[str, str] = field(default_factory=dict)  # --observer=KIND:... -> 'module:function'
    absent: Mapping[str, str] = field(
        default_factory=dict
    )  # a --config that people ask for -> why it is not here

    def load(self) -> None:
        """Import the parts, so that they register themselves."""
        for module in self.parts:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                missing = error.name or ""
                if missing == module or missing.startswith("twofold."):
                    raise
                raise MissingPackage(missing, self.extra or self.name, f"the domain '{self.name}'") from None


# Any: what it takes and gives is said beside the field of `Domain` that names it.
def function_at(place: str) -> Callable[..., Any]:
    """The function that a domain names as 'module:function'."""
    module, _, name = place.partition(":")
    # Any: a module that is imported by name has no types.
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


_ADDED: dict[str, Domain] = {}  # by files that the user named with --import


def add_domain(domain: Domain) -> Domain:
    """Make a domain known for this process, from a file that is imported by the user's wish."""
    known = domains().get(domain.name)
    if known is not None and known != domain:
        raise ConfigError(f"there is a domain '{domain.name}' already: choose another name")
    _ADDED[domain.name] = domain
    return domain


def domains() -> dict[str, Domain]:
    """Every installed domain by name, and those that were added."""
    return _installed() | _ADDED


@lru_cache(maxsize=1)
def _installed() -> dict[str, Domain]:
    found = [point.load() for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)]
    return {domain.name: domain for domain in found}
