"""A sweep as data for the page: what its files say, whatever somebody wrote into them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the page needs the extra 'lab'")
pytest.importorskip("uvicorn", reason="the page needs the extra 'lab'")

from twofold.lab.page.catalogue import run_id
from twofold.lab.page.sweeps import find_sweeps, sweep_data

from .serving import served
from .sweeps import make_sweep, score_of


def test_a_sweep_is_told_with_its_trials_axes_and_winner(tmp_path: Path) -> None:
    data = sweep_data(make_sweep(tmp_path / "s"))
    assert (data["phase"], data["done"], data["failed"], data["running"], data["wanted"]) == (
        "done",
        12,
        1,
        1,
        14,
    )
    assert [axis["name"] for axis in data["axes"]] == ["learner.actor_lr", "networks.critic_hidden"]
    assert data["axes"][0]["log"] and data["axes"][1]["choices"] == ["64,64", "256,256"]
    assert data["trials"][1]["values"] == {"learner.actor_lr": 1e-4, "networks.critic_hidden": "64,64"}


def test_the_winner_is_the_best_on_fresh_seeds_never_by_its_search_score(tmp_path: Path) -> None:
    winner = sweep_data(make_sweep(tmp_path / "s"))["winner"]
    assert winner is not None and winner["trial"] == 2 and winner["confirmed"] == (55.5, 50.0, 61.0)
    assert score_of(8) > score_of(2)  # whom the search liked more
    folder = make_sweep(tmp_path / "t", candidates=[])
    assert sweep_data(folder)["winner"] is None


def test_the_server_lists_sweeps_and_links_their_runs(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "all" / "deep" / "s")
    with served(tmp_path) as here:
        here.ask("runs")
        status, found = here.ask("sweeps")
        assert status == 200 and [one["name"] for one in found["sweeps"]] == ["all/deep/s"]
        status, data = here.ask("sweep", {"sweep": found["sweeps"][0]["id"]})
        assert status == 200
        linked = {one["number"]: one["run"] for one in data["trials"] if one["run"]}
        assert linked == {2: run_id(folder / "search/pendulum/trial_002/seed_10002")}
        assert here.ask("sweep", {"sweep": "../../etc"})[0] == 404


def test_a_sweep_before_its_first_trial_says_little(tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "s")
    (folder / "result.json").unlink()
    data = sweep_data(folder)
    assert (data["phase"], data["trials"], data["winner"], data["wanted"]) == ("search", [], None, 0)


HOSTILE: list[Any] = [
    {"trials": "many"},
    {"trials": [3, None, {"number": "x", "score": "high", "values": [1]}]},
    {"trials": [{"number": 10**30, "score": 1e400}]},
    {"candidates": {"a": 1}, "wanted": []},
    {"importance": [1], "verdicts": 7, "phase": {}},
    {"candidates": [{"confirmed": {"value": True}}]},
    [],
]


@pytest.mark.parametrize("record", HOSTILE)
def test_whatever_stands_in_the_files_the_page_goes_on(tmp_path: Path, record: Any) -> None:
    folder = make_sweep(tmp_path / "s")
    (folder / "result.json").write_text(json.dumps(record))
    with served(tmp_path) as here:
        status, found = here.ask("sweeps")
        assert status == 200 and len(found["sweeps"]) == 1
        assert here.ask("sweep", {"sweep": found["sweeps"][0]["id"]})[0] in (200, 404)


def test_links_are_not_followed(tmp_path: Path) -> None:
    make_sweep(tmp_path / "elsewhere" / "s")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "elsewhere")
    assert find_sweeps(tmp_path / "here") == []
