"""What a batch may be named by: folders, globs, files, trajectories, images; what is broken is one row."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from ase import Atoms
from ase.build import bulk
from ase.io import read, write

from twofold.base.errors import UserError
from twofold.crystal import sources
from twofold.crystal.sources import find


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as people have them: structures, a trajectory, a broken file, a note, a folder below."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "set"
    (folder / "deep").mkdir(parents=True)
    write(folder / "cu.cif", bulk("Cu", cubic=True))
    write(folder / "deep" / "POSCAR", bulk("Al", cubic=True))
    write(folder / "path.traj", [bulk("Ni"), bulk("Ni").repeat(2), bulk("Ni").repeat(3)])
    (folder / "bad.cif").write_text("nothing")
    (folder / "notes.md").write_text("# what I did\n")
    (folder / "results.csv").write_text("structure\nno CIF\n")
    return folder


def names(*words: str) -> list[str]:
    return [one.name for one in find(words)]


IMAGES = ["set/path.traj@0", "set/path.traj@1", "set/path.traj@2"]


def test_a_folder_is_its_structures_and_nothing_else(place: Path) -> None:
    assert names("set") == ["set/bad.cif", "set/cu.cif", *IMAGES]


def test_a_glob_is_what_it_matches_and_two_stars_look_deeper(place: Path) -> None:
    assert names("set/*.cif") == ["set/bad.cif", "set/cu.cif"]
    assert names("set/**") == ["set/bad.cif", "set/cu.cif", "set/deep/POSCAR", *IMAGES]


@pytest.mark.parametrize(
    ("word", "chosen"),
    [("@-1", [2]), ("@0", [0]), ("@:", [0, 1, 2]), ("@1:", [1, 2]), ("@::2", [0, 2]), ("@-2:", [1, 2])],
)
def test_images_are_chosen_as_ase_writes_it(place: Path, word: str, chosen: list[int]) -> None:
    found = find([f"set/path.traj{word}"])
    assert [one.name for one in found] == [IMAGES[k] for k in chosen]
    assert [len(one.atoms or Atoms()) for one in found] == [[1, 8, 27][k] for k in chosen]


def test_an_index_holds_for_every_file_of_a_glob(place: Path) -> None:
    write("set/other.traj", [bulk("Cu"), bulk("Ag")])
    assert names("set/*.traj@-1") == ["set/other.traj@1", "set/path.traj@2"]


def test_a_name_that_was_given_can_be_given_again(place: Path) -> None:
    assert names(*names("set")) == names("set")


def test_a_file_whose_name_holds_an_at_is_that_file(place: Path) -> None:
    write("set/a@1.cif", bulk("Cu"))
    assert names("set/a@1.cif") == ["set/a@1.cif"]


def test_crystals_by_name_are_no_globs(place: Path) -> None:
    (found,) = find(["Cu*2x1x1"])
    assert found.atoms is not None and len(found.atoms) == 8


def test_a_broken_image_does_not_take_the_others_with_it(place: Path) -> None:
    overlapping = Atoms("Cu2", positions=[[0, 0, 0], [0, 0, 0.01]], cell=[5, 5, 5], pbc=True)
    write("set/three.extxyz", [bulk("Cu"), overlapping, bulk("Ag")])
    good, bad, last = find(["set/three.extxyz"])
    assert good.atoms is not None and last.atoms is not None
    assert bad.atoms is None and "image 1: two atoms overlap" in bad.problem


def test_a_bad_row_of_a_table_of_texts_is_one_row(place: Path) -> None:
    cif = Path("set/cu.cif").read_text()
    with open("all.csv", "w", newline="") as file:
        csv.writer(file).writerows([["structure"], [cif], ["hello"], [cif]])
    assert [one.atoms is None for one in find(["all.csv"])] == [False, True, False]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("gone.cif", "no structure file gone.cif"),
        ("gone/*.cif", "no structure file matches gone/*.cif"),
        ("set/deep/none", "no structure file set/deep/none"),
        ("set/path.traj@9", "there are 3 images, the first is @0"),
        ("set/path.traj@5:9", "that range of 3 images is empty"),
        ("set/path.traj@last", "behind the @ stands a number or a range"),
        ("Cu@3", "'Cu' is one crystal"),
        ("set/bad.cif", "set/bad.cif"),
    ],
)
def test_what_cannot_be_had_is_one_line(place: Path, word: str, problem: str) -> None:
    (found,) = find([word])
    assert found.atoms is None and problem in found.problem and "\n" not in found.problem


def test_an_empty_folder_says_how_to_look_deeper(place: Path) -> None:
    Path("empty/inner").mkdir(parents=True)
    (found,) = find(["empty/"])
    assert found.problem == "empty/ holds no structure file; 'empty/**' looks into its folders too"


def test_more_than_a_batch_can_hold_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_STRUCTURES", 2)
    with pytest.raises(UserError, match="in several batches"):
        find(["set/path.traj"])


def test_an_ase_database_is_read(place: Path) -> None:
    pytest.importorskip("ase.db")
    for atoms in (bulk("Cu"), bulk("Ag")):
        write("set/all.db", atoms, append=True)
    assert len(read("set/all.db", index=":")) == 2
    assert [str(one.atoms.symbols) for one in find(["set/all.db"]) if one.atoms] == ["Cu", "Ag"]
