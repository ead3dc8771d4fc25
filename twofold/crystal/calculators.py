"""Calculators by name, and a wrapper that counts every evaluation of energy and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import is_there, open_regular
from twofold.crystal.eam import FastEAM

_MAX_TABLE_BYTES = 128_000_000
NAMES = "emt, lj, lj:sigma=...,epsilon=..., eam:FILE, chgnet"


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


def make_calculator(name: str) -> Calculator:
    """A fresh calculator by name; `Counted` around it counts its calls."""
    return calculator_factory(name)()


def calculator_factory(name: str) -> Callable[[], Calculator]:
    """How to make the named calculator; big tables and models are loaded once and shared."""
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
    raise UserError(f"no calculator named '{name}'; there are {NAMES}, and any ASE calculator from Python")


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
    import contextlib
    import io
    import warnings

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return CHGNetCalculator(use_device="cpu")
