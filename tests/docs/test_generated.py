"""Pages that are made from the code and from data agree with both."""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from twofold.lab.experiment import read_plan
from twofold.settings.registry import learners, networks, worlds

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def loaded(path: str) -> ModuleType:
    """A script that is no package."""
    sys.path[:0] = [str((ROOT / path).parent)]
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


index, build = loaded("benchmarks/index.py"), loaded("docs/build.py")


# ---- references ----


def test_every_part_and_setting_is_in_the_reference_with_its_meaning() -> None:
    page = build.settings_page()
    for registry in (learners, networks, worlds):
        for name in registry.names():
            assert f"={name}\n" in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 300
    assert not [row for row in rows if row.endswith("|  |")], "a setting without a meaning"


def test_the_reference_shows_defaults_as_they_are_written() -> None:
    page = build.settings_page()
    assert "| `seed` | whole number | `0` |" in page and "| `debug` | true \\| false | `false` |" in page


def test_everything_public_is_in_the_python_reference() -> None:
    import twofold

    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    shown = set(re.findall(r"::: [\w.]*\.(\w+)", page)) | {"networks", "register", "worlds"}
    names = {"declared" if name == "settings" else name for name in shown}
    assert set(twofold.__all__) <= names


# ---- links between places ----


@pytest.mark.parametrize(
    ("link", "page", "there"),
    [
        ("../../benchmarks/results/core/speed.md", "concepts/engines.md", "../results/core/speed.md"),
        ("../benchmarks/results/core/faults.md", "guarantees.md", "results/core/faults.md"),
        ("../../../docs/hardcore.md", "results/control/hardcore.md", "../../hardcore.md"),
        ("hardcore.png", "results/control/hardcore.md", "hardcore.png"),
        ("docs/architecture.md", "contributing.md", "architecture.md"),
        ("start.md", "index.md", "start.md"),
    ],
)
def test_a_link_leads_to_the_same_page_in_the_repository_and_in_the_site(
    link: str, page: str, there: str
) -> None:
    assert build.relinked(f"[x]({link})", page, build.source_of(page)) == f"[x]({there})"


def test_links_of_the_repository_lead_somewhere() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *RESULTS.rglob("*.md"),
    ]
    made = {ROOT / "docs" / place for place in build.generated()}
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target, _ in build._LINK.findall(text):
            place = (page.parent / target).resolve()
            assert place.exists() or place in made, f"{page.relative_to(ROOT)}: {target}"


# ---- results ----


def test_the_index_and_the_readme_say_what_the_data_says() -> None:
    assert (RESULTS / "README.md").read_text() == index.results_index(), "run python benchmarks/index.py"
    readme = (ROOT / "README.md").read_text()
    assert readme == index.with_sentences(readme), "run python benchmarks/index.py"


def test_a_changed_number_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "last_returns", lambda name: [1.0, 2.0])
    readme = (ROOT / "README.md").read_text()
    assert readme != index.with_sentences(readme)


def test_every_result_belongs_to_a_domain_and_its_script_exists() -> None:
    assert [path.name for path in RESULTS.iterdir() if path.is_file()] == ["README.md"]
    for page in RESULTS.glob("*/*.md"):
        assert page.parent == index.folder_of(page.stem), page
        assert (ROOT / "benchmarks" / index.script_of(page.stem)).is_file(), page


def test_a_result_of_no_domain_is_refused_with_the_names_that_are() -> None:
    with pytest.raises(ValueError, match=r"begin with one of .*td3.*recsys"):
        index.folder_of("fast")


CURVES = [p for p in sorted(RESULTS.glob("*/*.csv")) if p.read_text().startswith("seed,step,return_mean")]


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.stem)
def test_a_page_of_curves_ends_where_its_data_ends(path: Path) -> None:
    text = path.with_suffix(".md").read_text()
    for value in index.last_returns(path.stem):
        shown = {f"{value:.1f}", f"{value + 0.04:.1f}", f"{value - 0.04:.1f}"}  # the data has two decimals
        assert any(number in text for number in shown), f"{path.stem}: {value}"


TEAMS = [p for p in sorted(RESULTS.glob("team/*.csv")) if p.read_text().startswith("case,seed,score")]


@pytest.mark.parametrize("path", TEAMS, ids=lambda path: path.stem)
def test_a_page_of_a_team_shows_every_seed_of_its_data(path: Path) -> None:
    text = path.with_suffix(".md").read_text()
    with open(path) as file:
        for row in csv.DictReader(file):
            line = next(line for line in text.splitlines() if line.startswith(f"| {row['case']} |"))
            numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", line)]
            assert any(abs(n - float(row["score"])) <= 0.0051 for n in numbers), (row["case"], row["score"])


def test_the_page_on_speed_shows_its_data() -> None:
    page = (RESULTS / "core" / "speed.md").read_text()
    summary = json.loads((RESULTS / "core" / "speed.json").read_text())["summary"]
    for found in summary.values():
        for name, system in found["systems"].items():
            start = f"| {name} | {system['median']:.1f} ("
            assert start in page and f"{system['ours_over_it']['median']:.2f} (" in page, name


def test_the_page_on_faults_is_its_data() -> None:
    record = json.loads((RESULTS / "core" / "faults.json").read_text())
    found = record.pop("results")
    assert (RESULTS / "core" / "faults.md").read_text() == loaded("benchmarks/faults.py").report(
        found, record
    )


# Results whose page is a function of what is kept beside it; the words of a page are a .txt file.
MADE = {
    "control/hardcore_ablations": lambda: loaded("benchmarks/hardcore_ablations.py").page(),
    "control/hardcore_average": lambda: loaded("benchmarks/hardcore_average.py").page(
        kept("control/hardcore_average")
    ),
    "recsys/recsys_ablations": lambda: loaded("benchmarks/recsys_ablations.py").page(
        kept("recsys/recsys_ablations")
    ),
    "recsys/recsys_recall": lambda: loaded("benchmarks/recsys_recall.py").page(kept("recsys/recsys_recall")),
    "recsys/recsys_serving": lambda: loaded("benchmarks/recsys_serving.py").page(
        kept("recsys/recsys_serving")
    ),
    "recsys/recsys_stream": lambda: loaded("benchmarks/recsys_graphs.py").page(kept("recsys/recsys_stream")),
    "recsys/recsys_graphs": lambda: loaded("benchmarks/recsys_graphs.py").page(kept("recsys/recsys_graphs")),
    "recsys/recsys_reference": lambda: loaded("benchmarks/recsys_reference.py").page(
        kept("recsys/recsys_reference")
    ),
    "recsys/recsys_speed": lambda: loaded("benchmarks/recsys_speed.py").page(kept("recsys/recsys_speed")),
    "crystal/crystal": lambda: loaded("benchmarks/crystal_report.py").page(),
    "crystal/crystal_policy": lambda: loaded("benchmarks/crystal_policy.py").page(),
    "crystal/crystal_chemistry": lambda: loaded("benchmarks/crystal_chemistry.py").page(),
}


def kept(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", MADE)
def test_a_page_is_what_its_data_and_its_words_make(name: str) -> None:
    if name.startswith("crystal"):
        pytest.importorskip("ase", reason="pages of crystals need ase")
    assert (RESULTS / f"{name}.md").read_text() == MADE[name](), "write the page again"


STANDINGS = [p for p in sorted(RESULTS.glob("recsys/*.json")) if "standings" in json.loads(p.read_text())]


@pytest.mark.parametrize("path", STANDINGS, ids=lambda path: path.stem)
def test_a_page_of_standings_is_its_data(path: Path) -> None:
    made = loaded("benchmarks/recsys.py").page(path.with_suffix(""))
    assert path.with_suffix(".md").read_text() == made, f"python benchmarks/recsys.py --page --out={path}"


team = loaded("benchmarks/team.py")


@pytest.mark.parametrize("suite", team.suites())
def test_a_page_of_a_team_is_its_data(suite: str) -> None:
    page = (RESULTS / "team" / f"team_{suite}.md").read_text()
    assert page == team.page(suite), f"python benchmarks/team.py {suite}"


def test_every_page_on_recommendation_and_crystals_is_held_against_its_data() -> None:
    held = {*MADE, *(f"recsys/{path.stem}" for path in STANDINGS)}
    for page in [*RESULTS.glob("recsys/*.md"), *RESULTS.glob("crystal/*.md")]:
        assert f"{page.parent.name}/{page.stem}" in held, page


EXPERIMENTS = sorted([*ROOT.glob("benchmarks/experiments/*.yaml"), *ROOT.glob("examples/*.yaml")])


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_is_a_plan_of_settings_that_exist(path: Path, tmp_path: Path) -> None:
    plan = read_plan(path, tmp_path)
    assert plan.jobs and plan.baseline in plan.names.values()


# Words of an older dialect of these pages.
DIALECT = re.compile(
    r"gone on (with|from)|\bso many\b|\bmend\b|as told by|\bgo(es)? on with\b|\bdrawn anew\b"
)


def test_messages_and_settings_speak_the_words_of_the_field() -> None:
    for path in sorted((ROOT / "twofold").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not DIALECT.search(node.value), f"{path}:{node.lineno}: {node.value[:80]}"


def test_pages_speak_the_words_of_the_field() -> None:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        assert not (found := DIALECT.search(path.read_text())), f"{path}: {found}"
