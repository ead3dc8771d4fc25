"""Panels: data that any page can draw, refused where it could not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twofold.base.errors import UserError
from twofold.show.panels import HeatMap, Listing, Panel, Replay, Trajectory, read_panel, write_panel

PANELS: list[Panel] = [
    HeatMap("cross-play", ["a", "b"], ["c"], [[1.0], [2.0]], [[0.5], [1.5]], [[1.5], [2.5]]),
    Listing("user", ["item", "rating"], [["film", 4.5], ["book", None]], [1], "liked"),
    Trajectory(
        "NiAl", ["#00ff00"], [1.0], [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], values={"energy": [-1.0, -2.0]}
    ),
    Replay("3m", (8.0, 8.0), [0, 1], [0.5, 0.5], [[1.0, 1.0, 2.0, 2.0]], [[1.0, 0.0]], "won"),
]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_is_read_as_it_was_written(tmp_path: Path, panel: Panel) -> None:
    path = write_panel(tmp_path, "one", panel)
    assert path == tmp_path / "panels" / "one.json"
    assert read_panel(path)["kind"] == panel.kind
    assert read_panel(path)["title"] == panel.title


WRONG: dict[str, Any] = {
    "mean must have 2 rows of 1": lambda: HeatMap("x", ["a", "b"], ["c"], [[1.0]]),
    "low must have 1 rows of 1": lambda: HeatMap("x", ["a"], ["c"], [[1.0]], [[1.0, 2.0]]),
    "every row must have 2 cells": lambda: Listing("x", ["a", "b"], [["c"]]),
    "a marked row is not there": lambda: Listing("x", ["a"], [["c"]], [1]),
    "three numbers for each of 1 atoms": lambda: Trajectory("x", ["#000000"], [1.0], [[0.0]]),
    "one number for each frame": lambda: Trajectory("x", [], [], [[]], values={"e": []}),
    "colours must be such as": lambda: Trajectory("x", ["red"], [1.0], []),
    "targets are -1 or one of 1 units": lambda: Replay(
        "x", (1, 1), [0], [1.0], [[0.0, 0.0]], [[1.0]], targets=[[1]]
    ),
    "place and health of each of 1 units": lambda: Replay("x", (1, 1), [0], [1.0], [[0.0, 0.0]], []),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_panel_whose_parts_do_not_fit_is_refused(message: str) -> None:
    with pytest.raises(UserError, match=message):
        WRONG[message]()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"kind": "pie"}',
        b'{"kind": "table"}',
        b'{"kind": "table", "title": "x", "columns": ["a"], "rows": [[NaN]]}',
        b'{"kind": "table", "title": "x", "columns": ["a"], "rows": 3}',
        b'{"kind": "table", "title": "x", "columns": [], "rows": [], "script": "x"}',
        b'{"kind": "heatmap", "title": "x", "rows": 1, "columns": 2, "mean": 3}',
        b'{"kind": "trajectory", "title": "x", "colours": [7], "radii": [1], "frames": []}',
    ],
)
def test_a_damaged_panel_is_refused_with_a_reason(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_panel(tmp_path / "bad.json")
    assert "bad.json" in str(error.value)


def test_names_stay_inside_the_run(tmp_path: Path) -> None:
    for name in ("../x", "", "a/b", "x" * 99):
        with pytest.raises(UserError, match="names are letters"):
            write_panel(tmp_path, name, PANELS[0])


def test_a_panel_that_no_page_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave frames out"):
        write_panel(tmp_path, "big", Listing("x", ["a"], [["y" * 9_000_000]]))
    assert json.dumps([p.name for p in tmp_path.rglob("*.json")]) == "[]"
