"""Worlds, learners and networks by name: a decorator at the definition, imported when first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twofold.core.errors import ConfigError, MissingPackage

DOMAINS = ("control", "recsys", "crystal", "team")


@dataclass(frozen=True)
class Entry:
    """A registered thing: how to make it, the dataclass of its settings, and anything said about it."""

    name: str
    make: Callable[..., Any]
    config: type
    doc: str
    about: dict[str, Any] = field(default_factory=dict)


class Registry:
    """Names such as 'control/gym'; the part before the slash is imported from twofold when needed."""

    def __init__(self, kind: str, home: str) -> None:
        self.kind, self.home = kind, home
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, *, config: type, **about: Any) -> Callable[[Any], Any]:
        """Put the decorated function or class under `name`; `config` is the frozen dataclass of its settings."""

        def keep(make: Any) -> Any:
            text = (make.__doc__ or "").strip()
            self._entries[name] = Entry(name, make, config, text.splitlines()[0] if text else "", about)
            return make

        return keep

    def get(self, name: str) -> Entry:
        """The entry, or an error that names the nearest one."""
        if name not in self._entries:
            self._import(name)
        if name not in self._entries:
            from twofold.settings.schema import nearest

            # Only the domain that was probably meant: importing all of them to guess would take a second.
            self._import(f"{nearest(name.split('/')[0], DOMAINS) or self.home}/")
            hint = nearest(name, self._entries)
            raise ConfigError(
                f"no {self.kind} named '{name}'" + (f"; did you mean '{hint}'?" if hint else "")
            )
        return self._entries[name]

    def names(self) -> list[str]:
        """Every name that can be had here; domains whose packages are absent are left out."""
        for domain in (*DOMAINS, self.home):
            try:
                importlib.import_module(f"twofold.{domain}")
            except ModuleNotFoundError:
                continue
        return sorted(self._entries)

    def _import(self, name: str) -> None:
        namespace = name.split("/")[0] if "/" in name else self.home
        if namespace not in (*DOMAINS, self.home):
            return  # a name may come from a file of a stranger: it never chooses what is imported
        try:
            importlib.import_module(f"twofold.{namespace}")
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if not missing.startswith("twofold"):
                raise MissingPackage(missing, namespace, f"the {self.kind} '{name}'") from None


worlds = Registry("world", home="control")
learners = Registry("learner", home="learners")
networks = Registry("network", home="nets")
