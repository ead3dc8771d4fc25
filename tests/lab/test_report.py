"""The report: one file without scripts or network, the same numbers everywhere, hostile names as text."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.lab.compare import to_data
from twofold.lab.report import film_paths, typed, write_report

from .made import make_group, make_run

VOID = {"meta", "img", "path", "use", "rect", "br"}


class Reader(HTMLParser):
    """Open tags, everything said, and every address in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.said = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [v for k, v in attrs if v and k in ("src", "href", "xlink:href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text())
    return reader


def two(tmp_path: Path) -> Path:
    make_group(tmp_path / "a", [float(i) for i in range(10)])
    make_group(tmp_path / "b", [i + 6.25 for i in range(10)], settings={"learner.gamma": 0.9})
    return tmp_path


def test_the_page_is_whole_and_asks_for_nothing(tmp_path: Path) -> None:
    found = read(write_report([two(tmp_path / "runs")], tmp_path / "out").page)
    assert found.open == []
    assert "script" not in found.tags
    assert all(address.startswith(("#", "data:")) for address in found.addresses)


def test_page_markdown_latex_csv_and_data_hold_the_same_numbers(tmp_path: Path) -> None:
    made = write_report([two(tmp_path / "runs")], tmp_path / "out")
    row = to_data(made.comparison)["tables"][0]["rows"][1]
    interval = f"{row['mean']['value']:.2f} [{row['mean']['low']:.2f}, {row['mean']['high']:.2f}]"
    words = to_data(made.comparison)["tables"][0]["verdicts"][0]["words"]
    said = read(made.page).said
    assert interval in said and words in said
    assert interval in (tmp_path / "out" / "tables.md").read_text()
    assert interval in (tmp_path / "out" / "tables.tex").read_text()
    assert str(row["mean"]["low"]) in (tmp_path / "out" / "summary.csv").read_text()


def test_where_the_numbers_come_from_is_said(tmp_path: Path) -> None:
    make_group(
        tmp_path / "runs", [1.0, 2.0], command="/usr/lib/twofold/__main__.py train --run=/tmp/x gamma=0.9"
    )
    said = read(write_report([tmp_path / "runs"], tmp_path / "out").page).said
    for fact in (
        "14b527e",
        "gymnasium 1.4.0",
        "a processor",
        "twofold train gamma=0.9 seed=2",
        "1 variant tried",
    ):
        assert fact in said
    assert "__main__" not in said.split("The same tables")[0]


def test_figures_lie_beside_the_page(tmp_path: Path) -> None:
    made = write_report([two(tmp_path / "runs")], tmp_path / "out")
    names = {path.name for path in made.files}
    assert {"curves.svg", "scores.svg", "profile.svg", "seeds.csv", "curves.csv"} <= names
    assert all(path.stat().st_size for path in made.files)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    evil = "</style><script>alert(1)</script>"
    make_group(tmp_path / "runs" / "a", [1.0, 2.0], settings={"learner.x": evil, "env_args.id": evil})
    make_group(
        tmp_path / "runs" / "b", [1.0, 2.0], settings={"learner.x": "y", "env_args.id": evil}, command=evil
    )
    found = read(write_report([tmp_path / "runs"], tmp_path / "out").page)
    assert found.open == [] and "script" not in found.tags
    assert evil in found.said


def test_a_film_of_the_middle_seed_is_inside(tmp_path: Path) -> None:
    make_group(tmp_path / "runs", [1.0, 2.0, 9.0])
    for seed in (1, 2, 3):
        (tmp_path / "runs" / f"seed_{seed}" / "videos").mkdir()
        (tmp_path / "runs" / f"seed_{seed}" / "videos" / "best.mp4").write_bytes(b"film %d" % seed)
    found = read(write_report([tmp_path / "runs"], tmp_path / "out").page)
    assert "td3, seed 2: 2.000 (best.mp4)" in found.said
    assert [a for a in found.addresses if a.startswith("data:video")] == ["data:video/mp4;base64,ZmlsbSAy"]


def test_a_film_that_is_too_large_or_a_link_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "runs" / "r")
    (folder / "videos").mkdir()
    (folder / "videos" / "link.mp4").symlink_to("/etc/passwd")
    (folder / "videos" / "notes.txt").write_text("x")
    assert film_paths(folder) == []
    with open(folder / "videos" / "giant.mp4", "wb") as file:
        file.truncate(9_000_000)
    found = read(write_report([tmp_path / "runs"], tmp_path / "out").page)
    assert "giant.mp4) is not shown" in found.said
    assert "video" not in found.tags


def test_damage_is_told_in_the_report(tmp_path: Path) -> None:
    two(tmp_path / "runs")
    (make_run(tmp_path / "runs" / "broken") / "config.json").write_text("{")
    assert (
        "broken/config.json is not valid JSON"
        in read(write_report([tmp_path / "runs"], tmp_path / "out").page).said
    )


def test_nothing_finished_is_nothing_to_report(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "r", score=None)
    with pytest.raises(UserError, match="nothing to report"):
        write_report([tmp_path / "runs"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_commands_are_shown_as_typed() -> None:
    assert typed("/x/__main__.py train --run=/tmp/a 'b c=1'") == "twofold train 'b c=1'"
    assert typed("broken 'quote") == "broken 'quote"
    assert json.dumps(typed("")) == '""'


def test_several_worlds_have_sections_of_their_own_and_one_verdict_over_all(tmp_path: Path) -> None:
    hopper = {"env_args.id": "Hopper-v5", "trainer.steps": 3000}
    layers = dict.fromkeys(hopper, "envs/hopper.yaml")
    two(tmp_path / "runs" / "p")
    make_group(tmp_path / "runs" / "h" / "a", [100.0 * i for i in range(10)], settings=hopper, layers=layers)
    faster = {**hopper, "learner.gamma": 0.9}
    make_group(
        tmp_path / "runs" / "h" / "b", [100 * i + 50.0 for i in range(10)], settings=faster, layers=layers
    )
    references = {"Pendulum-v1": (0.0, 20.0), "Hopper-v5": (0.0, 1000.0)}
    made = write_report([tmp_path / "runs"], tmp_path / "out", references=references)
    found = read(made.page)
    assert found.open == []
    assert "over all worlds: P is the chance" in found.said
    assert "Performance profile over all worlds" in found.said
    assert {"profile.svg", "curves_1.svg", "curves_2.svg"} <= {path.name for path in made.files}
