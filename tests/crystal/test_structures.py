import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import write

from twofold.base.errors import ConfigError, UserError
from twofold.crystal.structures import Distortion, builtin, load, nearest_pair


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("Cu", "Cu4"),
        ("Cu*2x1x1", "Cu8"),
        ("NiAl:B2", "NiAl"),
        ("Ni3Al:L12*2x2x2", "Ni24Al8"),
        ("NaCl:rocksalt", "Na4Cl4"),
    ],
)
def test_builtin_crystals(text, formula):
    assert builtin(text).symbols.formula.count() == Atoms(formula).symbols.formula.count()


@pytest.mark.parametrize("text", ["Xx", "Cu*2", "Cu:L12", "hello world"])
def test_a_wrong_crystal_is_the_users_mistake(text):
    with pytest.raises(UserError):
        builtin(text)


@pytest.mark.parametrize("suffix", ["cif", "vasp", "extxyz"])
def test_files_are_read_back(tmp_path, suffix):
    write(tmp_path / f"a.{suffix}", bulk("Cu", cubic=True))
    assert len(load(tmp_path / f"a.{suffix}")[0]) == 4


def test_a_csv_of_cif_text_gives_all_its_structures(alfe):
    assert [len(atoms) for atoms in load(alfe / "AlFe.csv")] == [2, 2]


def test_bad_files_say_which_and_why(tmp_path):
    (tmp_path / "bad.cif").write_text("no crystal")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    write(
        tmp_path / "over.extxyz", Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 0.1]], cell=[4, 4, 4], pbc=True)
    )
    for name, word in (
        ("bad.cif", "bad.cif"),
        ("bad.csv", "structure"),
        ("over.extxyz", "overlap"),
        ("no.cif", "no.cif"),
    ):
        with pytest.raises(UserError, match=word):
            load(tmp_path / name)


def test_trans_coef_is_uniform_and_one_sided():
    atoms = bulk("Cu", cubic=True).repeat(3)
    shift = Distortion(trans_coef=0.3)(atoms, np.random.default_rng(0)).positions - atoms.positions
    assert shift.min() >= 0 and shift.max() < 0.3
    assert shift.mean() == pytest.approx(0.15, abs=0.02)


def test_large_displacements_are_scaled_back_to_r0():
    atoms = bulk("Cu", cubic=True)
    out = Distortion(rattle=2.0, r0=1.5)(atoms, np.random.default_rng(1))
    assert nearest_pair(out) == pytest.approx(1.5, abs=1e-3)


def test_vacancies_keep_the_rest():
    atoms = builtin("NiAl:B2*2x2x2")
    out = Distortion(vacancies=2)(atoms, np.random.default_rng(0))
    assert len(out) == 14
    assert set(out.symbols) == {"Ni", "Al"}


def test_strain_is_within_its_limit():
    atoms = bulk("Cu", cubic=True)
    out = Distortion(strain=0.05)(atoms, np.random.default_rng(0))
    strain = np.linalg.solve(atoms.cell.array, out.cell.array) - np.eye(3)
    assert 0 < np.abs(strain).max() <= 0.05
    np.testing.assert_allclose(strain, strain.T, atol=1e-12)


def test_a_negative_distortion_is_refused():
    with pytest.raises(ConfigError, match="rattle"):
        Distortion(rattle=-1.0)
