"""The server answers this machine's browser with the token, and nobody else; no request names a path."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs the extra 'lab'")
pytest.importorskip("uvicorn", reason="the page needs the extra 'lab'")

from twofold.base.errors import UserError
from twofold.base.listening import listen
from twofold.lab import page
from twofold.lab.compare import compare, to_data
from twofold.lab.page.catalogue import Catalogue, active_hours, run_id
from twofold.lab.page.server import address, serve
from twofold.show.panels import HeatMap, write_panel

from ..made import make_group, make_run, summary
from .serving import TOKEN, Served, served

STATIC = Path(page.__file__).parent / "static"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    make_group(tmp_path / "a", [float(i) for i in range(10)])
    make_group(tmp_path / "b", [i + 6.0 for i in range(10)], settings={"learner.gamma": 0.9})
    return tmp_path


@pytest.fixture
def here(runs: Path) -> Iterator[Served]:
    with served(runs) as found:
        found.ask("runs")
        yield found


def overview(here: Served) -> Any:
    return here.ask("runs")[1]


# ---- who may ask -------------------------------------------------------------------------------------------------

REFUSED: dict[str, dict[str, str]] = {
    "no token": {"x_twofold_token": ""},
    "a wrong token": {"x_twofold_token": TOKEN[:-1]},
    "a foreign name for this machine": {"host": "evil.example"},
    "the right name with a wrong port": {"host": "127.0.0.1:1"},
    "no host": {"host": ""},
    "a foreign origin": {"origin": "http://evil.example"},
    "an origin of another port": {"origin": "http://127.0.0.1:1"},
    "an origin that hides": {"origin": "null"},
    "another page": {"sec_fetch_site": "cross-site"},
    "a giant body": {"content_length": "999999999"},
    "a body without length": {"transfer_encoding": "chunked"},
}


@pytest.mark.parametrize("kind", REFUSED)
def test_strangers_are_refused(here: Served, kind: str) -> None:
    status, answer = here.ask("runs", None, **REFUSED[kind])
    assert status in (400, 403)
    assert b"groups" not in (answer if isinstance(answer, bytes) else json.dumps(answer).encode())
    assert here.ask("runs")[0] == 200


def test_the_own_origin_is_welcome(here: Served) -> None:
    assert here.ask("runs", None, origin=f"http://127.0.0.1:{here.port}")[0] == 200
    assert here.ask("runs", None, host=f"localhost:{here.port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/static/main.js",
        "/%2e%2e/server.py",
        "/uplot/../../server.py",
        "//etc/passwd",
        "/api/",
    ],
)
def test_there_are_no_paths_but_those_of_the_page(here: Served, path: str) -> None:
    status, content, _ = here.raw("GET", path)
    assert status in (403, 404, 405)
    assert b"import" not in content


@pytest.mark.parametrize("name", ["one", "panel", "film", "evaluations", "stop", "resume"])
@pytest.mark.parametrize("id", ["../a/seed_1", "/etc/passwd", "", None, 7, "a/seed_1", {"x": 1}])
def test_a_run_is_named_by_its_id_and_by_nothing_else(here: Served, name: str, id: Any) -> None:
    status, answer = here.ask(name, {"run": id, "name": "../config.json"})
    assert (status, answer) == (404, {"error": "no such run"})


def test_answers_carry_strict_headers_and_no_name_of_the_server(here: Served) -> None:
    for method, path, body in (("GET", "/", None), ("POST", "/api/runs", b"{}")):
        _, _, headers = here.raw(method, path, body)
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 50_000, b"\xff", b'{"runs": 3}'])
def test_nonsense_is_answered_and_the_server_lives(here: Served, body: bytes) -> None:
    assert here.raw("POST", "/api/curves", body)[0] in (400, 404)
    assert here.ask("runs")[0] == 200


def test_the_token_is_in_the_fragment_which_is_never_sent() -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:8642/#token=abc", address(8642, "abc"))


def test_only_this_machine_can_connect() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_and_a_missing_folder_are_told(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as listening:
        listening.listen()
        with pytest.raises(UserError, match="give another --port"):
            listen("127.0.0.1", listening.getsockname()[1])
    with pytest.raises(UserError, match="not a directory"):
        serve(tmp_path / "absent")


def test_the_page_waits_for_a_folder_that_comes_later(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "runs")
    catalogue.refresh()
    assert catalogue.groups() == {}
    make_group(tmp_path / "runs", [1.0, 2.0])
    catalogue._refresh()
    assert [len(group.runs) for group in catalogue.groups().values()] == [2]


# ---- what is answered --------------------------------------------------------------------------------------------


def test_groups_come_with_their_numbers_and_runs(here: Served, runs: Path) -> None:
    found = overview(here)
    assert [(g["name"], g["seeds"], g["mean"][0], g["worst"]) for g in found["groups"]] == [
        ("gamma=0.99", 10, 4.5, 0.0),
        ("gamma=0.9", 10, 10.5, 6.0),
    ]
    assert found["groups"][0]["settings"] == {"learner.gamma": 0.99}
    assert found["groups"][0]["runs"][0]["state"] == "finished"
    assert found["metrics"][0] == "return" and "learning: updates" in found["metrics"]


def test_no_name_of_a_folder_and_no_number_of_a_setting_spoils_an_answer(tmp_path: Path) -> None:
    odd = {"learner.gamma": float("nan"), "learner.tau": float("inf")}
    make_run(tmp_path / "\udcff\x1b[2J", settings=odd)
    make_run(tmp_path / "\udcfe\x1b[2J", seed=2, settings=odd)
    with served(tmp_path) as here:
        run, other = (one["id"] for one in overview(here)["groups"][0]["runs"])
        assert run != other
        status, told = here.ask("one", {"run": run})
        assert status == 200, told
        settings = {one["name"]: one["value"] for one in told["settings"]}
    assert (settings["learner.gamma"], settings["learner.tau"]) == ("nan", "inf")


def test_nothing_new_is_a_short_answer(here: Served) -> None:
    version = overview(here)["version"]
    assert here.ask("runs", {"version": version})[1] == {"version": version, "same": True}


def test_compare_is_what_the_command_says(here: Served, runs: Path) -> None:
    ids = [g["id"] for g in overview(here)["groups"]]
    status, answer = here.ask("compare", {"groups": ids})
    assert status == 200
    assert answer == json.loads(json.dumps(to_data(compare([runs]))))


def test_curves_are_sent_from_where_the_asker_is(here: Served, runs: Path) -> None:
    id = run_id(runs / "a" / "seed_3")
    assert here.ask("curves", {"runs": {id: 0}})[1] == {
        "curves": {id: {"from": 0, "x": [0, 500, 1000], "y": [0, 1, 2]}}
    }
    assert here.ask("curves", {"runs": {id: 2}})[1]["curves"][id] == {"from": 2, "x": [1000], "y": [2.0]}
    assert here.ask("curves", {"runs": {id: 99}})[1]["curves"][id]["from"] == 0  # it was cut: all again


def test_means_are_those_of_the_figures(here: Served) -> None:
    group = overview(here)["groups"][0]["id"]
    found = here.ask("means", {"groups": [group]})[1]["means"][group]
    assert found["y"][-1] == 4.5 and found["seeds"] == 10
    assert found["low"][-1] < 4.5 < found["high"][-1]


def test_a_run_tells_all_its_parts(here: Served, runs: Path) -> None:
    found = here.ask("one", {"run": run_id(runs / "b" / "seed_1")})[1]
    gamma = next(s for s in found["settings"] if s["name"] == "learner.gamma")
    assert gamma == {"name": "learner.gamma", "value": 0.9, "layer": "command line", "neutral": False}
    assert found["provenance"]["commit"] == "14b527e"
    assert found["resume"] == ["twofold", "resume", str(runs / "b" / "seed_1")]
    assert found["tests"]["eval"]["return"]["mean"] == 6.0
    assert len(here.ask("evaluations", {"run": found["id"]})[1]["evaluations"]) == 3


def test_films_and_panels_are_chosen_among_those_found(here: Served, runs: Path) -> None:
    folder = runs / "a" / "seed_1"
    (folder / "videos").mkdir()
    (folder / "videos" / "best.mp4").write_bytes(b"film")
    (folder / "videos" / "secret.mp4").symlink_to("/etc/passwd")
    write_panel(folder, "cross", HeatMap("x", ["a"], ["b"], [[1.0]]))
    (folder / "panels" / "bad.json").write_text('{"kind": "heatmap"}')
    asked = {"run": run_id(folder)}
    found = here.ask("one", asked)[1]
    assert (found["films"], found["panels"]) == (["best.mp4"], ["bad", "cross"])
    assert here.raw("POST", "/api/film", json.dumps({**asked, "name": "best.mp4"}).encode())[1] == b"film"
    assert here.ask("film", {**asked, "name": "secret.mp4"})[0] == 404
    assert here.ask("film", {**asked, "name": "../config.json"})[0] == 404
    assert here.ask("panel", {**asked, "name": "cross"})[1]["mean"] == [[1.0]]
    assert here.ask("panel", {**asked, "name": "bad"})[0] == 404


def test_figures_and_reports_are_made_for_groups(here: Served) -> None:
    ids = [g["id"] for g in overview(here)["groups"]]
    assert here.raw("POST", "/api/figure", json.dumps({"groups": ids}).encode())[1].startswith(b"<?xml")
    assert b"gamma=0.9 is better" in here.raw("POST", "/api/report", json.dumps({"groups": ids}).encode())[1]
    assert here.ask("figure", {"groups": ["nobody"]})[0] == 404
    assert here.ask("compare", {"groups": "all"})[0] == 404


def test_stop_asks_the_process_that_holds_the_run(here: Served, runs: Path) -> None:
    id = run_id(runs / "a" / "seed_1")
    assert here.ask("stop", {"run": id}) == (404, {"error": "no process is running it"})
    assert here.ask("resume", {"run": id}) == (404, {"error": "it is finished"})


def test_runs_with_code_of_their_own_are_not_resumed_from_the_page(runs: Path) -> None:
    folder = make_run(runs / "own", score=None, command="twofold train --import=mine.py")
    with served(runs) as here:
        overview(here)
        status, answer = here.ask("resume", {"run": run_id(folder)})
    assert status == 404
    assert "twofold resume" in answer["error"] and "--import" in answer["error"]


# ---- keeping up to date ------------------------------------------------------------------------------------------


def look(catalogue: Catalogue) -> int:
    catalogue._looked = 0.0
    catalogue.refresh()
    return catalogue.version


def test_the_version_grows_when_and_only_when_something_changed(runs: Path) -> None:
    catalogue = Catalogue(runs)
    first = look(catalogue)
    assert look(catalogue) == first
    record = {"step": 2000, "world": "eval", "return": summary(1.0)}
    with open(runs / "a" / "seed_1" / "evaluations.jsonl", "a") as file:
        file.write(json.dumps(record) + "\n")
    assert look(catalogue) == first + 1
    with open(runs / "a" / "seed_2" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert look(catalogue) == first + 2
        found = catalogue.run(run_id(runs / "a" / "seed_2"))
        assert found is not None and (found.state, found.reason) == ("running", f"process {os.getpid()}")
    assert look(catalogue) == first + 3


def test_a_run_that_breaks_or_goes_is_noticed(runs: Path) -> None:
    catalogue = Catalogue(runs)
    look(catalogue)
    (runs / "a" / "seed_1" / "config.json").write_text("{")
    look(catalogue)
    assert catalogue.run(run_id(runs / "a" / "seed_1")) is None
    assert list(catalogue.problems) == [runs / "a" / "seed_1"]
    (runs / "a" / "seed_1" / "config.json").unlink()
    look(catalogue)
    assert catalogue.problems == {}


def test_a_hostile_folder_is_told_and_the_server_lives(runs: Path) -> None:
    (make_run(runs / "deep") / "config.json").write_bytes(b"[" * 100_000)
    with open(make_run(runs / "giant") / "evaluations.jsonl", "wb") as file:
        file.truncate(1_000_000_000)
    with served(runs) as here:
        found = overview(here)
        assert len(found["problems"]) == 2 and len(found["groups"]) == 2
        assert any("more than" in problem for problem in found["problems"])


def test_hours_are_those_at_work(tmp_path: Path) -> None:
    lines = [{"step": 3600, "steps_per_second": 1.0}, {"step": 7200, "steps_per_second": 2.0}]
    (tmp_path / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert active_hours(tmp_path, [0, 1800, 3600, 7200]) == [0.0, 0.5, 1.0, 1.5]


# ---- what is sent is what was taken from others ------------------------------------------------------------------


def test_uplot_is_unchanged_and_travels_with_its_licence() -> None:
    expected = {
        "uPlot.iife.min.js": "8df9b8c2bc60abbdd95c5cf260f46681",
        "uPlot.min.css": "c57618bc6a0fa8e8e13309299315930e",
    }
    for name in expected:
        content = (STATIC / "uplot" / name).read_bytes()
        assert hashlib.sha512(content).hexdigest()[:32] == expected[name]
    assert "MIT" in (STATIC / "uplot" / "LICENSE").read_text()
    assert "1.6.32" in (STATIC / "uplot" / "SOURCE").read_text()


def test_the_page_makes_no_html_of_text() -> None:
    for path in STATIC.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()
        ), path


def test_nothing_in_the_page_names_another_host() -> None:
    for path in [*STATIC.glob("*.js"), *STATIC.glob("*.css"), *STATIC.glob("*.html")]:
        found = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
        assert [f for f in found if f != "http://www.w3.org/2000/svg"] == [], path
