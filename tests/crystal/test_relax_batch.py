"""Batches: rows are kept by the digest of their input, a bad structure is a row, jobs give the rows of one process."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ase.build import bulk
from ase.io import read, write

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.crystal.table import COLUMNS, DEATHS, Table, failed, read_rows

OWN = """
from pathlib import Path
from ase.calculators.emt import EMT

class Noting(EMT):
    def calculate(self, atoms, *rest):
        with open("calls", "a") as file:
            file.write(f"{atoms.symbols}\\n")
        if Path("dies").exists() and "Ag" in atoms.symbols:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        super().calculate(atoms, *rest)

def make():
    return Noting()

def wrong():
    return 3

def broken():
    raise OSError("no licence")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    for symbol in ("Cu", "Ag", "Ni"):
        write(f"{symbol}.cif", bulk(symbol, cubic=True))
    return tmp_path


def relax(*words: str) -> int:
    return main(["relax", "--quiet", "--optimizer=prior", "--rattle=0.05", *words])


def calls() -> list[str]:
    return Path("calls").read_text().split() if Path("calls").exists() else []


OWNED = ("--import=own.py", "--calculator=own:make")


def comparable(path: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(open(path)))
    return [{name: row[name] for name in COLUMNS if name != "seconds"} for row in rows]


def test_the_table_has_units_a_reason_for_each_failure_and_a_row_for_each_structure(place: Path) -> None:
    Path("bad.cif").write_text("nothing")
    write("Fe.cif", bulk("Fe", cubic=True))
    assert relax("Cu.cif", "bad.cif", "Fe.cif", "--table=t.csv") == 1
    cu, bad, fe = csv.DictReader(open("t.csv"))
    assert tuple(cu) == COLUMNS and {"energy_eV", "fmax_eV_per_A"} <= set(COLUMNS)
    assert (cu["state"], bad["state"], fe["state"]) == ("relaxed", "FAILED", "FAILED")
    assert float(cu["fmax_eV_per_A"]) <= 0.01 and cu["reason"] == ""
    assert "bad.cif" in bad["reason"] and "No EMT-potential for Fe" in fe["reason"]


def test_a_repeated_batch_computes_nothing_and_writes_the_same_table(place: Path) -> None:
    words = ("Cu.cif", "Ag.cif", *OWNED, "--table=t.csv", "--out=done/")
    assert relax(*words) == 0
    before, table = calls(), Path("t.csv").read_bytes()
    assert relax(*words) == 0
    assert calls() == before and Path("t.csv").read_bytes() == table


def test_other_settings_another_input_or_a_lost_file_are_relaxed_again(place: Path) -> None:
    words = ("Cu.cif", "Ag.cif", *OWNED, "--table=t.csv", "--out=done/")
    relax(*words)

    def redone(*more: str) -> set[str]:
        Path("calls").unlink(missing_ok=True)
        relax(*words, *more)
        return set(calls())

    assert redone("--fmax=0.02") == {"Cu4", "Ag4"}
    assert redone("--fmax=0.02") == set()
    write("Ag.cif", bulk("Ag", a=4.2, cubic=True))
    assert redone("--fmax=0.02") == {"Ag4"}
    Path("done/Cu.cif").unlink()
    assert redone("--fmax=0.02") == {"Cu4"}
    Path("own.py").write_text(OWN + "\n# changed\n")
    assert redone("--fmax=0.02") == {"Cu4", "Ag4"}


def test_a_failed_row_is_tried_again_and_others_are_added(place: Path) -> None:
    Path("late.cif").write_text("nothing")
    assert relax("Cu.cif", "late.cif", "--table=t.csv") == 1
    write("late.cif", bulk("Ag", cubic=True))
    assert relax("late.cif", "Ni.cif", "--table=t.csv") == 0
    assert [row["structure"] for row in comparable("t.csv")] == ["Cu.cif", "late.cif", "Ni.cif"]
    assert {row["state"] for row in comparable("t.csv")} == {"relaxed"}


def test_a_table_that_is_something_else_is_left_alone(place: Path) -> None:
    Path("t.csv").write_text("my,own,figures\n1,2,3\n")
    assert relax("Cu.cif", "--table=t.csv") == 2
    assert Path("t.csv").read_text() == "my,own,figures\n1,2,3\n"


def test_a_line_that_a_crash_cut_off_is_written_again(place: Path) -> None:
    relax("Cu.cif", "Ag.cif", "--table=t.csv")
    rows = comparable("t.csv")
    Path("t.csv").write_bytes(Path("t.csv").read_bytes()[:-20])
    relax("Cu.cif", "Ag.cif", "--table=t.csv")
    assert comparable("t.csv") == rows


def test_a_second_process_on_the_same_table_is_refused(place: Path) -> None:
    with (
        Table(Path("t.csv")),
        pytest.raises(UserError, match="another process writes"),
        Table(Path("t.csv")),
    ):
        pass


def test_files_of_equal_names_do_not_overwrite_each_other(place: Path) -> None:
    for name, symbol in (("a", "Cu"), ("b", "Ag")):
        Path(name).mkdir()
        write(f"{name}/POSCAR", bulk(symbol, cubic=True))
    assert relax("a/POSCAR", "b/POSCAR", "Cu", "Cu.cif", "--out=done") == 0
    found = {path.name: str(read(path).symbols) for path in Path("done").iterdir()}
    assert found == {"a_POSCAR.cif": "Cu4", "b_POSCAR.cif": "Ag4", "Cu.cif": "Cu4", "Cu_2.cif": "Cu4"}


def test_a_trajectory_gives_one_file_for_each_image(place: Path) -> None:
    write("path.traj", [bulk("Cu", cubic=True), bulk("Ag", cubic=True)])
    assert relax("path.traj", "--out=done/") == 0
    assert sorted(path.name for path in Path("done").iterdir()) == ["path_0.traj", "path_1.traj"]


# ---- jobs ----------------------------------------------------------------------------------------------------------


def test_jobs_give_the_rows_and_files_of_one_process_and_leave_nothing_behind(place: Path) -> None:
    Path("bad.cif").write_text("nothing")
    words = ("Cu.cif", "bad.cif", "Ag.cif", "Ni.cif", *OWNED)
    assert relax(*words, "--table=one.csv", "--out=one/") == 1
    assert relax(*words, "--table=two.csv", "--out=two/", "--jobs=2") == 1
    ones, twos = comparable("one.csv"), comparable("two.csv")
    assert [{**row, "file": row["file"].replace("two/", "one/")} for row in twos] == ones
    for path in Path("one").iterdir():
        assert path.read_bytes() == (Path("two") / path.name).read_bytes()
    assert not Path("two.csv.parts").exists()


def test_a_structure_that_kills_its_process_is_one_failed_row(place: Path) -> None:
    Path("dies").touch()
    assert relax("Cu.cif", "Ag.cif", "Ni.cif", *OWNED, "--table=t.csv", "--jobs=2") == 1
    cu, ag, ni = comparable("t.csv")
    assert (cu["state"], ag["state"], ni["state"]) == ("relaxed", "FAILED", "relaxed")
    assert ag["reason"] == f"the process died {DEATHS} times while it relaxed this"


def test_a_killed_batch_goes_on_with_other_jobs_and_loses_no_row(place: Path) -> None:
    words = ["relax", "--quiet", "--optimizer=prior", "--rattle=0.05", *OWNED, "--table=t.csv", "--out=done/"]
    structures = [f"{symbol}.cif" for symbol in ("Cu", "Ag", "Ni")] + ["Au", "Pd", "Pt", "Al", "Cu*2x1x1"]
    process = subprocess.Popen([sys.executable, "-m", "twofold", *words, "--jobs=2", *structures])
    until = time.monotonic() + 60
    while not any(read_rows(path) for path in Path().glob("t.csv.parts/*/table.csv")):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert main([*words, "--jobs=3", *structures]) == 0
    assert relax(*structures, *OWNED, "--table=calm.csv", "--out=calm/") == 0
    assert [row["energy_eV"] for row in comparable("t.csv")] == [
        row["energy_eV"] for row in comparable("calm.csv")
    ]
    assert len(list(Path("done").iterdir())) == 8 and not Path("t.csv.parts").exists()


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--jobs=2",), "--jobs and --on need a table"),
        (("--on=ray:127.0.0.1:1",), "--jobs and --on need a table"),
        (("--on=moon", "--table=t.csv"), "--on=moon: write ray:auto"),
        (("--table=nowhere/t.csv",), "no folder nowhere for the table"),
        (("--calculator=own:make",), "is code of your own: add --import=own.py"),
        (("--import=own.py", "--calculator=own:nothing"), "has no function 'nothing'"),
        (("--import=own.py", "--calculator=own:wrong"), "own:wrong gave a int, not an ASE calculator"),
        (("--import=own.py", "--calculator=own:broken"), "own:broken failed (OSError: no licence)"),
        (("--calculator=emu",), "no calculator named 'emu'"),
        (("--calculator=espresso:ecutwfc=no",), "espresso"),
        (("--trajectory=x.traj", "Ag.cif"), "--trajectory is the path of one structure, these are 2"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_done(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert relax("Cu.cif", *words) == 2
    told = capsys.readouterr().err.strip()
    assert message in told and len(told.splitlines()) == 1
    assert not Path("calls").exists()


def test_a_row_is_one_line_whatever_the_reason_holds(place: Path) -> None:
    with Table(Path("t.csv")) as table:
        table.add(failed('a,\n"b"', "one\ntwo,\tthree"))
    assert list(read_rows(Path("t.csv"))) == ['a, "b"']
    assert read_rows(Path("t.csv"))['a, "b"']["reason"] == "one two, three"
