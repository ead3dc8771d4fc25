"""Worlds, learners and networks by name: a decorator at the definition, imported when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from twofold.base.errors import ConfigError, MissingPackage, UnknownPart
from twofold.core.protocols import AnyLearner
from twofold.settings.domains import domains
from twofold.settings.schema import nearest

if TYPE_CHECKING:
    from twofold.core.protocols import World

MadeWorld = TypeVar("MadeWorld", bound="Callable[..., World]")
MadeLearner = TypeVar("MadeLearner", bound="Callable[..., AnyLearner]")
Made = TypeVar("Made", bound=Callable[..., object])
# Purposes of a world's evaluation worlds, or what says them for its settings; the first chooses the best policy.
Evaluations = tuple[str, ...] | Callable[..., tuple[str, ...]]


@dataclass(frozen=True)
class Entry:
    """A registered part: its name, the class of its settings, and its first line of documentation."""

    name: str
    # Its first argument is an instance of `config`; the rest is said by the registry.
    make: Callable[..., object]
    config: type
    doc: str


@dataclass(frozen=True)
class WorldEntry(Entry):
    """`make(settings, *, rows, purpose)` -> World; with `workers`, it also takes `where: Where | None`."""

    make: Callable[..., World]
    evaluations: Evaluations = ("eval",)
    workers: bool = False  # whether its rows can live in worker processes
    view: Callable[..., World] | None = None  # (settings, mode) -> one row that shows itself


@dataclass(frozen=True)
class LearnerEntry(Entry):
    """`make(settings, *, networks, observation_space, action_space, rngs)` -> Learner."""

    make: Callable[..., AnyLearner]


EntryT = TypeVar("EntryT", bound=Entry)


class Registry(Generic[EntryT]):
    """Names such as 'control/gym'; the domain before the slash is imported when needed."""

    def __init__(self, kind: str, home: str, own: tuple[str, ...] = ()) -> None:
        self.kind, self.home = kind, home
        self._own = own  # modules outside of domains that register parts
        self._entries: dict[str, EntryT] = {}

    def add(self, entry: EntryT) -> None:
        """Keep an entry; a name belongs to whoever registered it first."""
        known = self._entries.get(entry.name)
        if known is not None and _place(known.make) != _place(entry.make):
            raise ConfigError(
                f"the {self.kind} '{entry.name}' is registered already, by {'.'.join(_place(known.make))}: "
                "choose another name"
            )
        self._entries[entry.name] = entry

    def get(self, name: str) -> EntryT:
        """The entry, or an error that names the nearest one."""
        if name not in self._entries:
            self._import(name)
        if name not in self._entries:
            # Only the domain that was probably meant: importing all of them to guess would take a second.
            self._import(f"{nearest(name.split('/')[0], domains()) or self.home}/")
            hint = nearest(name, self._entries)
            raise UnknownPart(
                f"no {self.kind} named '{name}'" + (f"; did you mean '{hint}'?" if hint else "")
            )
        return self._entries[name]

    def name_of(self, make: object) -> str | None:
        """The name under which this function or class was registered, if it was."""
        return next((name for name, entry in self._entries.items() if entry.make is make), None)

    def names(self) -> list[str]:
        """Every name that is available; domains whose packages are absent are left out."""
        for domain in (*domains(), ""):
            try:
                self._import(f"{domain}/")
            except MissingPackage:
                continue
        return sorted(self._entries)

    def _import(self, name: str) -> None:
        """Import what may register `name`; it may come from a file, so it only chooses among installed domains."""
        import importlib

        for module in self._own:
            importlib.import_module(module)
        namespace = name.split("/")[0] if "/" in name else self.home
        if namespace in domains():
            domains()[namespace].load()


def _place(make: Callable[..., object]) -> tuple[str, str]:
    return make.__module__, getattr(make, "__qualname__", type(make).__qualname__)


def _doc(make: Callable[..., object]) -> str:
    return (make.__doc__ or "").strip().partition("\n")[0]


class Worlds(Registry[WorldEntry]):
    """The worlds."""

    def register(
        self,
        name: str,
        *,
        config: type,
        evaluations: Evaluations = ("eval",),
        workers: bool = False,
        view: Callable[..., World] | None = None,
    ) -> Callable[[MadeWorld], MadeWorld]:
        """Put the decorated function or class under `name`."""

        def keep(make: MadeWorld) -> MadeWorld:
            self.add(WorldEntry(name, make, config, _doc(make), evaluations, workers, view))
            return make

        return keep


class Learners(Registry[LearnerEntry]):
    """The learners."""

    def register(self, name: str, *, config: type) -> Callable[[MadeLearner], MadeLearner]:
        """Put the decorated function or class under `name`."""

        def keep(make: MadeLearner) -> MadeLearner:
            self.add(LearnerEntry(name, make, config, _doc(make)))
            return make

        return keep


class Networks(Registry[Entry]):
    """The networks: `make(settings, observation_space, action_space, generator)` gives what their learner takes."""

    def register(self, name: str, *, config: type) -> Callable[[Made], Made]:
        """Put the decorated function or class under `name`."""

        def keep(make: Made) -> Made:
            self.add(Entry(name, make, config, _doc(make)))
            return make

        return keep


worlds = Worlds("world", home="control")
learners = Learners("learner", home="", own=("twofold.learners",))
networks = Networks("network", home="", own=("twofold.learners",))


class Register:
    """The decorators with which a file of the user's registers its parts."""

    world = worlds.register
    learner = learners.register
    networks = networks.register


register = Register()
