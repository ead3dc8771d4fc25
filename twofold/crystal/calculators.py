"""Calculators by name, and a wrapper that counts every evaluation of energy and forces."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from ase import Atoms
from ase.calculators.calculator import BaseCalculator, Calculator, all_changes

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_there, open_regular
from twofold.crystal.eam import FastEAM

_MAX_TABLE_BYTES = 128_000_000
NAMES = "emt, lj, lj:sigma=...,epsilon=..., eam:FILE, chgnet, mace, xtb, espresso:pseudo_dir=..."


class Counted(Calculator):  # ASE is not checked
    """Another calculator whose energy, forces (and stress, once asked for) come from one counted evaluation.

    Some calculators compute energy and forces in two passes when asked twice; here both are always asked together,
    so `calls` is the number of physics evaluations, whatever an optimiser does.
    """

    def __init__(self, inner: Calculator) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0
        self.implemented_properties = list(inner.implemented_properties)
        self._stress = False

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = all_changes,
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        self._stress = self._stress or "stress" in properties
        wanted = [p for p in ("energy", "forces") if p in self.implemented_properties]
        wanted += [p for p in properties if p not in wanted]
        if self._stress and "stress" not in wanted:
            wanted.append("stress")
        self.calls += 1
        try:
            self.inner.calculate(self.atoms, wanted, system_changes)
        except NotImplementedError as error:
            raise UserError(
                f"{self.inner.name or type(self.inner).__name__} cannot do this: {error}"
            ) from None
        self.results = dict(self.inner.results)


class AskedOnly(Calculator):
    """CHGNet without what nobody asks for: the stress is a third of a call, and of use only where the cell relaxes."""

    name = "chgnet"

    def __init__(self, inner: Calculator) -> None:
        super().__init__()
        self.inner = inner
        self.implemented_properties = list(inner.implemented_properties)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy", "forces"),
        system_changes: Sequence[str] = all_changes,
    ) -> None:
        super().calculate(atoms, properties, system_changes)
        further = set(properties) - {"energy", "free_energy", "forces"}
        task = "ef" if not further else "efs" if further == {"stress"} else "efsm"
        self.inner.results = {}  # none of another structure
        self.inner.calculate(atoms, list(properties), list(system_changes), task=task)
        self.results = dict(self.inner.results)


Own = Mapping[str, ModuleType]  # modules that the user named with --import


def make_calculator(name: str) -> Calculator:
    """A fresh calculator by name; `Counted` around it counts its calls."""
    return calculator_factory(name)()


def calculator_factory(name: str, own: Own | None = None) -> Callable[[], Calculator]:
    """How to make the named calculator, or one of the user's code; tables and models are loaded once and shared."""
    kind, _, rest = name.partition(":")
    if kind == "emt" and not rest:
        from ase.calculators.emt import EMT

        emt: Callable[[], Calculator] = EMT
        return emt
    if kind == "lj":
        return _lennard_jones(rest)
    if kind == "eam" and rest:
        return lambda: _eam(str(Path(rest).resolve()))
    if kind == "chgnet" and not rest:
        return _chgnet
    if kind == "mace":
        return lambda: _mace(rest or "medium")
    if kind == "xtb":
        return lambda: _xtb(rest or "GFN2-xTB")
    if kind == "espresso":
        from twofold.crystal.espresso import espresso_factory

        return espresso_factory(rest)
    if rest.isidentifier():
        return _of_the_user(kind.removesuffix(".py"), rest, own or {})
    raise UserError(
        f"no calculator named '{name}'; there are {NAMES}, and MODULE:FUNCTION of your own with --import"
    )


def _lennard_jones(text: str) -> Callable[[], Calculator]:
    from ase.calculators.lj import LennardJones

    settings = {"sigma": 3.4, "epsilon": 0.0104}  # argon
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key not in ("sigma", "epsilon", "rc"):
            raise UserError(f"the calculator lj takes sigma, epsilon and rc, not '{key}'")
        try:
            settings[key] = float(value)
        except ValueError:
            raise UserError(f"lj:{key} must be a number, got '{value}'") from None
    settings.setdefault("rc", 3 * settings["sigma"])
    return lambda: LennardJones(smooth=True, **settings)


@lru_cache(maxsize=8)
def _eam(path: str) -> FastEAM:
    if not is_there(path):
        raise UserError(f"no potential file {path}")
    open_regular(path, _MAX_TABLE_BYTES, follow=True).close()  # its reader takes a path alone
    try:
        return FastEAM(path)
    except (ValueError, LookupError, OverflowError, MemoryError, TypeError, AttributeError) as error:
        why = str(error)[:200] or type(error).__name__
        raise UserError(f"{path} is not an .eam.alloy or .eam.fs table: {why}") from None


@lru_cache(maxsize=1)
def _chgnet() -> Calculator:
    try:
        from chgnet.model.dynamics import CHGNetCalculator
    except ImportError:
        raise MissingPackage("chgnet", "chgnet", "the calculator 'chgnet'") from None
    with _silent():
        return AskedOnly(CHGNetCalculator(use_device="cpu"))


@lru_cache(maxsize=4)
def _mace(model: str) -> Calculator:
    """`small`, `medium`, ... are fetched by MACE itself when they are first used; else the path of a model."""
    try:
        from mace.calculators import mace_mp
    except ImportError:
        raise MissingPackage("mace-torch", "mace", "the calculator 'mace'") from None
    try:
        with _silent():
            made: Calculator = mace_mp(model=model, device="cpu", default_dtype="float64")
    except Exception as error:  # no network, no such file, a file of something else
        raise UserError(f"the MACE model '{model}' cannot be had ({_told(error)}): give mace:FILE") from None
    return made


def _xtb(method: str) -> Calculator:
    try:
        from tblite.ase import TBLite
    except ImportError:
        raise MissingPackage("tblite", "xtb", "the calculator 'xtb'") from None
    if method not in ("GFN2-xTB", "GFN1-xTB", "IPEA1-xTB"):
        raise UserError(f"xtb:{method}: write GFN2-xTB, GFN1-xTB or IPEA1-xTB")
    made: Calculator = TBLite(method=method, verbosity=0)
    return made


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Models announce themselves on the standard output, which is the table's."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:160]}"


def _of_the_user(module: str, function: str, own: Own) -> Callable[[], Calculator]:
    """A function of code that the user named with --import; nothing else is imported by its name."""
    if module not in own:
        raise UserError(f"the calculator {module}:{function} is code of your own: add --import={module}.py")
    make: object = vars(own[module]).get(function)
    if not callable(make):
        raise UserError(f"{own[module].__file__} has no function '{function}' that makes a calculator")

    def made() -> Calculator:
        try:
            found = make()
        except Exception as error:  # whatever the user's code raises
            raise UserError(f"{module}:{function} failed ({_told(error)})") from error
        if not isinstance(found, BaseCalculator):
            raise UserError(f"{module}:{function} gave a {type(found).__name__}, not an ASE calculator")
        return found

    return made
