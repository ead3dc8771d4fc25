"""Engines by name: real ones where they are installed, and what is said where they are not."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.filters import FrechetCellFilter

from twofold.base.errors import MissingPackage, UserError
from twofold.crystal.calculators import AskedOnly, Counted, calculator_factory, make_calculator
from twofold.crystal.espresso import _files
from twofold.crystal.relaxer import TD3Relaxer

PSEUDO = Path("/usr/share/espresso/pseudo")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("mace", "mace", "mace"), ("xtb", "tblite", "xtb"), ("chgnet", "chgnet", "chgnet")],
)
def test_a_missing_package_is_named_with_its_extra(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in [one for one in sys.modules if one.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, module, None)
    from twofold.crystal import calculators

    calculators._chgnet.cache_clear()
    calculators._mace.cache_clear()
    with pytest.raises(MissingPackage, match=rf"the calculator '{name}' needs .*({extra}|{module})"):
        make_calculator(name)


def test_mace_is_asked_for_the_model_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def mace_mp(**how: object) -> EMT:
        asked.append(how)
        if how["model"] == "gone":
            raise RuntimeError("Model download failed\nand more")
        return EMT()

    fake = ModuleType("mace.calculators")
    vars(fake)["mace_mp"] = mace_mp
    monkeypatch.setitem(sys.modules, "mace", ModuleType("mace"))
    monkeypatch.setitem(sys.modules, "mace.calculators", fake)
    from twofold.crystal.calculators import _mace

    _mace.cache_clear()
    for name in ("mace", "mace:small"):
        make_calculator(name)
    assert [how["model"] for how in asked] == ["medium", "small"]
    assert asked[0]["default_dtype"] == "float64"
    with pytest.raises(UserError, match=r"'gone' cannot be had \(RuntimeError: Model download failed\)"):
        make_calculator("mace:gone")
    _mace.cache_clear()


@pytest.mark.parametrize("name", ["xtb", "xtb:GFN1-xTB"])
def test_xtb_gives_the_forces_of_its_energy(name: str) -> None:
    pytest.importorskip("tblite", reason="the calculator xtb needs the extra `xtb`")
    water = molecule("H2O")
    water.rattle(0.05, seed=1)
    water.calc = Counted(make_calculator(name))
    forces, step = water.get_forces(), 1e-4
    ends = []
    for sign in (-1, 1):
        moved = water.copy()
        moved.positions[1, 2] += sign * step
        moved.calc = make_calculator(name)
        ends.append(moved.get_potential_energy())
    assert forces[1, 2] == pytest.approx(-(ends[1] - ends[0]) / (2 * step), abs=1e-3)


def test_an_unknown_method_of_xtb_is_one_line() -> None:
    pytest.importorskip("tblite", reason="the calculator xtb needs the extra `xtb`")
    with pytest.raises(UserError, match="xtb:PM7: write GFN2-xTB"):
        make_calculator("xtb:PM7")


class Told(EMT):
    """Remembers what it was asked for, as CHGNet is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[str] = []

    def calculate(self, atoms: Atoms, properties: list[str], changes: list[str], task: str) -> None:
        self.tasks.append(task)
        super().calculate(atoms, properties, changes)
        if "s" not in task:
            self.results.pop("stress", None)


def test_stress_is_computed_only_where_it_is_asked_for() -> None:
    atoms, inner = bulk("Cu", cubic=True), Told()
    atoms.calc = AskedOnly(inner)
    atoms.get_forces()
    atoms.get_potential_energy()
    assert inner.tasks == ["ef"]
    stress = atoms.get_stress()
    atoms.positions[0, 0] += 0.1
    atoms.get_forces()
    assert "stress" not in atoms.calc.results  # that of the other place is gone
    assert inner.tasks == ["ef", "efs", "ef"]
    assert np.abs(atoms.get_stress() - stress).max() > 1e-6


def test_a_relaxing_cell_asks_for_stress_in_the_same_call() -> None:
    atoms, inner = bulk("Cu", cubic=True), Told()
    atoms.rattle(0.05, seed=1)
    atoms.calc = counted = Counted(AskedOnly(inner))
    TD3Relaxer(FrechetCellFilter(atoms), logfile=None).run(fmax=0.01)
    assert set(inner.tasks) == {"efs"} and len(inner.tasks) == counted.calls


def test_chgnet_by_name_gives_what_its_own_calculator_gives() -> None:
    dynamics = pytest.importorskip("chgnet.model.dynamics", reason="the calculator chgnet needs the extra")
    ours, theirs = bulk("LiF", "rocksalt", a=4.0), bulk("LiF", "rocksalt", a=4.0)
    for atoms, calculator in (
        (ours, make_calculator("chgnet")),
        (theirs, dynamics.CHGNetCalculator(use_device="cpu")),
    ):
        atoms.rattle(0.05, seed=1)
        atoms.calc = calculator
    np.testing.assert_array_equal(ours.get_forces(), theirs.get_forces())
    np.testing.assert_array_equal(ours.get_stress(), theirs.get_stress())
    np.testing.assert_array_equal(ours.get_magnetic_moments(), theirs.get_magnetic_moments())


# ---- Quantum ESPRESSO ----------------------------------------------------------------------------------------------


@pytest.fixture
def pseudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/true" if name == "pw.x" else None)
    for name in ("Si.pz-vbc.UPF", "C.pbe.UPF", "C.pz-vbc.UPF", "si_old.van", "Readme", "HUSPBE.RRKJ3"):
        (tmp_path / name).touch()
    (tmp_path / "si_old.van").unlink()
    return tmp_path


def test_each_element_has_the_only_potential_that_fits(pseudo: Path) -> None:
    assert _files(pseudo, "") == {"Si": "Si.pz-vbc.UPF"}
    assert _files(pseudo, "pz") == {"Si": "Si.pz-vbc.UPF", "C": "C.pz-vbc.UPF"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ecutwfc", "espresso:ecutwfc: write NAME=VALUE with pseudo_dir"),
        ("cutoff=30", "espresso:cutoff=30: write NAME=VALUE"),
        ("ecutwfc=high", "ecutwfc must be a number above 0, got 'high'"),
        ("kspacing=-1", "kspacing must be a number above 0, got '-1'"),
        ("pseudo_dir=/nowhere", "no folder of pseudopotentials /nowhere"),
        ("command=srun pw.x", "no program 'srun' here"),
        ("pseudo=blyp", "has no element with one pseudopotential"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(pseudo: Path, text: str, message: str) -> None:
    where = "" if "pseudo_dir" in text else f",pseudo_dir={pseudo}"
    with pytest.raises(UserError, match=message):
        calculator_factory(f"espresso:{text}{where}")


@pytest.mark.slow
def test_pw_gives_forces_by_name() -> None:
    if shutil.which("pw.x") is None or not PSEUDO.exists():
        pytest.skip("Quantum ESPRESSO's pw.x or its potentials are not installed")
    atoms: Atoms = bulk("Si")
    atoms.rattle(0.05, seed=1)
    atoms.calc = Counted(
        make_calculator(f"espresso:pseudo_dir={PSEUDO},pseudo=pz-vbc,ecutwfc=12,kspacing=0.6")
    )
    assert np.isfinite(atoms.get_forces()).all() and atoms.calc.calls == 1
    assert np.isfinite(atoms.get_stress()).all() and atoms.calc.calls == 1
