"""Structure files of anybody: read, or refused in one line, whatever they claim."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ase.build import bulk
from ase.io import write

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.crystal import reading
from twofold.crystal.calculators import make_calculator
from twofold.crystal.structures import load

LATTICE = 'Lattice="3.6 0 0 0 3.6 0 0 0 3.6" Properties=species:S:1:pos:R:3 pbc="T T T"'


@pytest.fixture
def cif(tmp_path: Path) -> str:
    write(tmp_path / "cu.cif", bulk("Cu", cubic=True))
    return (tmp_path / "cu.cif").read_text()


@pytest.mark.parametrize(
    "name", ["cu.cif", "POSCAR", "cu.xyz", "cu.traj", "cu.cif.gz", "geometry.in", "a@2:3.cif"]
)
def test_formats_are_read_as_before(name: str, tmp_path: Path, cif: str) -> None:
    if name.endswith((".gz", "3.cif")):
        (tmp_path / name).write_bytes(gzip.compress(cif.encode()) if name.endswith(".gz") else cif.encode())
    else:
        write(tmp_path / name, bulk("Cu", cubic=True), format="aims" if name == "geometry.in" else None)
    assert [len(atoms) for atoms in load(tmp_path / name)] == [4]


CLAIMS = {
    "a.xyz": f"1000000000000\n{LATTICE}\nCu 0 0 0\n",
    "b.extxyz": "99999999999999999999999\n\nCu 0 0 0\n",
    "c.xyz": f"100000\n{LATTICE}\nCu 0 0 0\n",
    "d.xyz": "-5\n\nCu 0 0 0\n",
    "e.vasp": "x\n1.0\n3 0 0\n0 3 0\n0 0 3\nCu\n1000000000000\nDirect\n0 0 0\n",
    "f.vasp": "x\n1.0\n3 0 0\n0 3 0\n0 0 3\nCu\n1000000\nDirect\n0 0 0\n",
    "g.xyz": f"2\n{LATTICE}\nCu 0 0 0\nCu 1e200 0 0\n",
    "h.xyz": f"1\n{LATTICE}\nCu nan 0 0\n",
    "i.xyz": f"1\n{LATTICE.replace('3.6 0 0 0', '1e300 0 0 0')}\nCu 0 0 0\n",
    "j.xyz": f"1\n{LATTICE}\nXx 0 0 0\n",
    "k.cif": "",
    "l.db": "SQLite format 3",
    "m.xml": '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><modeling>&b;</modeling>',
    "n.csv": "a,b\n1,2\n",
    "o.csv": "structure\nhello\n",
    "p.csv": "",
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_file_that_claims_what_it_does_not_hold_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(CLAIMS[name])
    with pytest.raises(UserError, match=name):
        load(tmp_path / name)


@pytest.mark.parametrize(
    "name", ["a.cif", "a.xyz", "a.vasp", "a.traj", "a.json", "a.csv", "a.cif.gz", "noname"]
)
def test_binary_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)) * 20)
    with pytest.raises(UserError, match=name):
        load(tmp_path / name)


@pytest.mark.parametrize("change", ["-3.61", "1e300", "nan", "0"])
def test_cells_that_cannot_be_are_refused(change: str, tmp_path: Path, cif: str) -> None:
    line = next(line for line in cif.splitlines() if line.startswith("_cell_length_a"))
    (tmp_path / "x.cif").write_text(cif.replace(line, f"_cell_length_a {change}"))
    with pytest.raises(UserError, match=r"x\.cif"):
        load(tmp_path / "x.cif")


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("name", ["x.cif", "x.csv", "x.eam.alloy"])
def test_what_is_no_file_does_not_hang(make: Callable[[Path], object], name: str, tmp_path: Path) -> None:
    make(tmp_path / name)
    with pytest.raises(UserError, match="not a regular file"):
        if name.endswith(".alloy"):
            make_calculator(f"eam:{tmp_path / name}")
        else:
            load(tmp_path / name)


def test_a_packed_file_does_not_unpack_without_end(
    tmp_path: Path, cif: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAX_BYTES", 100_000)
    (tmp_path / "bomb.cif.gz").write_bytes(gzip.compress(cif.encode() + b"#" * 1_000_000))
    with pytest.raises(UserError, match="unpacks to more than 100,000 bytes"):
        load(tmp_path / "bomb.cif.gz")
    (tmp_path / "torn.cif.gz").write_bytes(gzip.compress(cif.encode())[:-9])
    with pytest.raises(UserError, match="cannot be unpacked"):
        load(tmp_path / "torn.cif.gz")


@pytest.mark.parametrize(
    "text", ["Cu*1000x1000x1000", "Cu*99999999999999999999x1x1", "Cu*0x1x1", "Xx", "Cu:foo"]
)
def test_crystals_that_cannot_be_built_are_one_line(text: str) -> None:
    with pytest.raises(UserError):
        load(text)


TABLES = {
    "noise": "\x00\x01",
    "a million million entries": "a\nb\nc\n1 Cu\n1000000000000 0.1 1000000000000 0.1 5.0\n29 63.5 3.6 fcc\n1.0\n",
    "fewer than none": "a\nb\nc\n1 Cu\n-5 0.1 -5 0.1 5.0\n29 63.5 3.6 fcc\n1.0\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES.keys())
def test_potentials_that_are_none_are_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.eam.alloy").write_text(text)
    with pytest.raises(UserError, match=r"not an \.eam\.alloy"):
        make_calculator(f"eam:{tmp_path / 'x.eam.alloy'}")


@pytest.mark.parametrize(
    "option",
    ["--rattle=nan", "--rattle=inf", "--rattle=1e300", "--fmax=nan", "--fmax=0", "--steps=-1", "--seed=-1"],
)
def test_numbers_that_nothing_can_be_relaxed_with_are_refused_at_once(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["relax", "Cu", option]) == 2
    assert option.partition("=")[0].strip("-") in capsys.readouterr().err


def test_a_comparison_does_not_write_into_a_folder_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    assert main(["relax-compare", "Cu", f"--out={tmp_path}"]) == 2
    assert "nothing was touched" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
