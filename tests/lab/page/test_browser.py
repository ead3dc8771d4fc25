"""The page in a real browser: what a person sees, while runs are written, cut, stopped and resumed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from digest import digest

from twofold.lab.compare import compare, to_data
from twofold.lab.page.catalogue import run_id
from twofold.show.panels import HeatMap, Listing, Replay, Trajectory, write_panel

from ..made import make_group, make_run, summary
from ..test_conduct import TINY
from .serving import Served, served
from .sweeps import make_sweep

CHROMIUM = shutil.which("chromium") or ""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM, reason="no chromium here: apt-get install chromium"),
    pytest.mark.xdist_group("browser"),
]
pytest.importorskip("starlette", reason="the page needs the extra 'lab'")
sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need the extra 'browser'")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",  # containers have little shared memory
]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Watched:
    """A tab whose complaints and requests are remembered."""

    def __init__(self, browser: Any, here: Served, **options: Any) -> None:
        self.tab = browser.new_context(viewport={"width": 1400, "height": 1000}, **options).new_page()
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.tab.on(
            "console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None
        )
        self.tab.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.tab.on("request", lambda r: self.hosts.add(r.url.split("/")[2] if "://" in r.url else ""))
        self.tab.goto(here.address)
        self.here = here

    def text(self, selector: str) -> str:
        return str(self.tab.locator(selector).first.inner_text())

    def points(self) -> list[Any]:
        """The last point of every mean, as the picture says it."""
        return str(self.tab.locator(".plot").first.get_attribute("aria-label")).split("; ")


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Watched]]:
    tabs: list[Watched] = []

    def open_page(here: Served, **options: Any) -> Watched:
        tabs.append(Watched(browser, here, **options))
        return tabs[-1]

    yield open_page
    for tab in tabs:
        assert tab.complaints == []
        assert tab.hosts <= {f"127.0.0.1:{tab.here.port}", ""}
        tab.tab.context.close()


def until(claim: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for what will be true; a strict policy forbids the browser's own way of waiting."""
    end = time.monotonic() + seconds
    while True:
        try:
            if claim():
                return
        except sync_api.Error:
            pass
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_group(tmp_path / "a", [float(i) for i in range(10)])
    make_group(tmp_path / "b", [i + 6.0 for i in range(10)], settings={"learner.gamma": 0.9})
    return tmp_path


def test_the_table_shows_groups_and_opens_to_seeds(runs: Path, opened: Any) -> None:
    with served(runs) as here:
        page = opened(here)
        rows = page.tab.locator("table.groups tbody tr")
        until(lambda: rows.count() == 2)
        assert "gamma=0.99" in rows.nth(0).inner_text() and "4.50" in rows.nth(0).inner_text()
        page.tab.locator("button.open").first.click()
        until(lambda: rows.count() == 12)
        page.tab.get_by_role("link", name="seed 3", exact=True).click()
        until(lambda: "seed_3" in page.text("h1"))
        assert "token" not in page.tab.url


def test_a_new_line_is_drawn_without_reloading_and_a_cut_shortens_the_curve(runs: Path, opened: Any) -> None:
    shutil.rmtree(runs / "b")
    for seed in range(2, 11):
        shutil.rmtree(runs / "a" / f"seed_{seed}")
    log = runs / "a" / "seed_1" / "evaluations.jsonl"
    with served(runs) as here:
        page = opened(here)
        until(lambda: "at 1k steps" in page.points()[0])
        whole = log.read_bytes()
        with open(log, "a") as file:
            file.write(json.dumps({"step": 1500, "world": "eval", "return": summary(42.0)}) + "\n")
        until(lambda: "42.00 at 1.5k steps" in page.points()[0])
        log.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1])
        until(lambda: "at 500 steps" in page.points()[0])


def test_a_new_run_appears_by_itself(runs: Path, opened: Any) -> None:
    with served(runs) as here:
        page = opened(here)
        rows = page.tab.locator("table.groups tbody tr")
        until(lambda: rows.count() == 2)
        make_run(runs / "c", settings={"learner.gamma": 0.5})
        until(lambda: rows.count() == 3)


def test_comparisons_are_those_of_the_command(runs: Path, opened: Any) -> None:
    words = to_data(compare([runs]))["tables"][0]["verdicts"][0]["words"]
    with served(runs) as here:
        page = opened(here)
        page.tab.get_by_role("link", name="Compare").click()
        until(lambda: words in page.text("main"))
        assert page.tab.locator("svg.dots circle").count() == 22  # twenty seeds and two means
        assert "learner.gamma" in page.text("main")


def test_filter_metrics_hours_and_smoothing_work(runs: Path, opened: Any) -> None:
    with served(runs) as here:
        page = opened(here)
        rows = page.tab.locator("table.groups tbody tr")
        until(lambda: rows.count() == 2)
        page.tab.get_by_label("Filter").fill("gamma>0.95")
        until(lambda: rows.count() == 1)
        page.tab.get_by_label("Filter").fill("")
        page.tab.get_by_label("Add a curve").select_option("learning: updates")
        until(lambda: page.tab.locator(".chart canvas").count() == 2)
        page.tab.get_by_label("Smoothing, shown only").fill("0.5")
        until(lambda: "every number counts the raw values" in page.text(".under"))
        page.tab.get_by_label("Against").select_option("hours")
        with page.tab.expect_download() as download:
            page.tab.get_by_role("button", name="SVG").click()
        assert Path(download.value.path()).read_bytes().startswith(b"<?xml")


def test_hostile_names_are_text(tmp_path: Path, opened: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    make_group(tmp_path / "a", [1.0, 2.0], settings={"learner.x": evil, "env_args.id": evil})
    make_group(tmp_path / "b", [1.0, 2.0], settings={"learner.x": "<script>1</script>", "env_args.id": evil})
    (make_run(tmp_path / evil.replace("/", "")) / "config.json").write_text("{")
    with served(tmp_path) as here:
        page = opened(here)
        until(lambda: page.tab.locator("table.groups tbody tr").count() == 2)
        assert evil in page.text("table.groups") or evil[:20] in page.text("table.groups")
        page.tab.get_by_role("link", name="Compare").click()
        until(lambda: "<script>1" in page.text("main"))
        assert page.tab.locator("main img").count() == 0


def test_panels_of_every_kind_are_drawn(runs: Path, opened: Any) -> None:
    folder = runs / "a" / "seed_1"
    write_panel(folder, "heat", HeatMap("cross-play", ["us"], ["them"], [[0.75]], [[0.7]], [[0.8]]))
    write_panel(
        folder, "list", Listing("user 17", ["item", "score"], [["film", 4.5], ["book", 3]], [0], "liked")
    )
    frames = [[0.0, 0, 0, 1, 1, 1], [0.0, 0, 0, 2, 2, 2]]
    cell = [[3.0, 0, 0], [0, 3.0, 0], [0, 0, 3.0]]
    write_panel(
        folder, "atoms", Trajectory("NiAl", ["#112233"] * 2, [1.0, 1.0], frames, cell, {"energy": [-1, -2]})
    )
    write_panel(
        folder,
        "war",
        Replay(
            "3m",
            (9, 9),
            [0, 1],
            [1, 1],
            [[1, 1, 5, 5], [2, 2, 4, 4]],
            [[1, 1], [0.5, 0]],
            "won",
            [[1, 0], [-1, -1]],
        ),
    )
    with served(runs) as here:
        page = opened(here)
        until(lambda: page.tab.locator("table.groups tbody tr").count() == 2)
        page.tab.evaluate("id => { location.hash = `#/run/${id}` }", run_id(folder))
        until(lambda: page.tab.locator("figure.panel").count() == 4)
        assert "0.75 [0.70, 0.80]" in page.text(".heatmap")
        assert "✓ liked" in page.text(".panel.table")
        page.tab.locator(".panel.replay input").fill("1")
        assert "1 against 0, won" in page.text(".panel.replay")
        before = page.tab.locator(".panel.trajectory canvas").screenshot()
        page.tab.locator(".panel.trajectory canvas").focus()
        for _ in range(5):
            page.tab.keyboard.press("ArrowLeft")
        assert page.tab.locator(".panel.trajectory canvas").screenshot() != before


def test_a_wrong_token_says_what_to_do(runs: Path, browser: Any) -> None:
    with served(runs) as here:
        tab = browser.new_context().new_page()
        tab.goto(here.address + "x")
        until(lambda: "open the address that `twofold page` printed" in tab.locator("#live").inner_text())
        tab.context.close()


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}}])
def test_the_page_fits_and_has_a_name_for_every_control(
    runs: Path, browser: Any, options: dict[str, Any]
) -> None:
    with served(runs) as here:
        tab = browser.new_context(**options).new_page()
        tab.goto(here.address)
        until(lambda: tab.locator(".plot canvas").count() == 1)
        assert tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        names = tab.locator("button.open").first.bounding_box()
        assert names is not None and names["x"] < tab.viewport_size["width"]  # the table begins on the screen
        unnamed = """() => [...document.querySelectorAll('main :is(input, select, button)')]
            .filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim())).length"""
        assert tab.evaluate(unnamed) == 0
        tab.context.close()


@pytest.mark.parametrize("width", [1400, 390])
def test_a_sweep_shows_history_slices_importance_and_its_winner(
    tmp_path: Path, opened: Any, width: int
) -> None:
    make_sweep(tmp_path / "search_<b>")
    with served(tmp_path) as here:
        page = opened(here)
        page.tab.set_viewport_size({"width": width, "height": 900})
        page.tab.get_by_role("link", name="Sweeps").click()
        page.tab.get_by_role("link", name="search_<b>").click()
        until(lambda: "winner: trial 2" in page.text("main"))
        text = page.text("main")
        assert "55.50 [50.00, 61.00] on 5 fresh seeds; the search said 90.93" in text
        assert "winner is better: P = 0.91" in text and "80 %" in text
        pictures = page.tab.locator("figure.chart svg.dots")
        assert pictures.count() == 3  # history and two slices
        assert pictures.nth(0).locator("circle").count() == 12
        assert pictures.nth(2).locator("circle").count() == 12
        assert page.tab.locator("main tbody tr").count() == 3 + 14
        assert page.tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        page.tab.get_by_role("link", name="trial 2", exact=True).click()
        until(lambda: "seed_10002" in page.text("h1"))


def test_a_sweep_that_goes_on_is_drawn_anew(tmp_path: Path, opened: Any) -> None:
    folder = make_sweep(tmp_path / "s", phase="search", candidates=[], verdicts=[])
    with served(tmp_path) as here:
        page = opened(here)
        page.tab.evaluate("id => { location.hash = `#/sweep/${id}` }", run_id(folder))
        until(lambda: "no winner yet" in page.text("main"))
        record = json.loads((folder / "result.json").read_text())
        record["trials"][13]["score"] = 7.0
        (folder / "result.json").write_text(json.dumps(record))
        until(lambda: page.tab.locator("figure.chart svg.dots").nth(0).locator("circle").count() == 13)


def train(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    settings = {**TINY, "trainer.steps": steps, "seed": 3}
    words = [f"{k}={json.dumps(v)}" for k, v in settings.items()]
    command = [
        sys.executable,
        "-m",
        "twofold",
        "train",
        "--config=td3",
        "--env-config=pendulum",
        f"--run={folder}",
    ]
    return subprocess.Popen([*command, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def test_stop_and_resume_from_the_page_end_in_the_same_bytes(tmp_path: Path, opened: Any) -> None:
    assert train(tmp_path / "alone", 2000).wait() == 0
    folder = tmp_path / "runs" / "r"
    folder.parent.mkdir()
    with served(folder.parent) as here:
        process = train(folder, 2000)
        page = opened(here)
        until(lambda: page.tab.locator("table.groups tbody tr").count() == 1)
        page.tab.evaluate("id => { location.hash = `#/run/${id}` }", run_id(folder))
        until(lambda: (folder / "metrics.jsonl").exists() and os.path.getsize(folder / "metrics.jsonl") > 500)
        page.tab.get_by_role("button", name="Stop and save").click()
        assert process.wait() == 143
        page.tab.get_by_role("button", name="Resume").click()
        until(lambda: "finished" in page.text(".runhead"), 90)
    assert digest(folder) == digest(tmp_path / "alone")
