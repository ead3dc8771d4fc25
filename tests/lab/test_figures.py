"""Pictures: a line and a band for each group, seeds that line up by step, nothing drawn that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.lab.compare import compare
from twofold.lab.figures import (
    aligned,
    band,
    curves_figure,
    draw_curves,
    possible,
    profile_figure,
    scores_figure,
)
from twofold.lab.groups import group_runs
from twofold.lab.runs import read_runs
from twofold.show.style import colour, dash, short_count, to_bytes, write_figure

from .made import make_group, make_run


def groups(*places: Path) -> Any:
    return group_runs(read_runs(list(places)).runs)


def two(tmp_path: Path) -> Path:
    make_group(tmp_path / "a", [1.0, 2.0, 3.0, 4.0, 5.0])
    make_group(tmp_path / "b", [2.0, 3.0, 9.0, 4.0, 6.0], settings={"learner.gamma": 0.9})
    return tmp_path


def lines(axes: Any, width: float) -> list[Any]:
    return [line for line in axes.get_lines() if line.get_linewidth() == width]


def test_each_group_has_a_line_a_band_and_thin_seeds(tmp_path: Path) -> None:
    (axes,) = curves_figure(groups(two(tmp_path))).axes
    assert [line.get_label() for line in lines(axes, 2.2)] == ["gamma=0.99, 5 seeds", "gamma=0.9, 5 seeds"]
    assert len(lines(axes, 0.8)) == 10
    assert len(axes.collections) == 2
    assert lines(axes, 2.2)[0].get_ydata()[-1] == pytest.approx(3.0)
    assert axes.get_title(loc="left") == "Pendulum-v1"


def test_each_world_has_a_panel_of_its_own(tmp_path: Path) -> None:
    two(tmp_path / "x")
    make_run(tmp_path / "hopper", settings={"env_args.id": "Hopper-v5"})
    figure = curves_figure(groups(tmp_path))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Hopper-v5", "Pendulum-v1"]


def test_two_seeds_have_no_band(tmp_path: Path) -> None:
    make_group(tmp_path, [1.0, 2.0])
    assert not curves_figure(groups(tmp_path)).axes[0].collections


def test_runs_are_averaged_at_the_steps_they_share(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 1, 4.0, curve=[0.0, 2.0, 4.0])
    make_run(tmp_path / "b", 2, 4.0, curve=[0.0, 1.0, 2.0, 3.0, 8.0])
    steps, values = aligned(read_runs([tmp_path]).runs, "return")
    assert steps.tolist() == [0, 500, 1000]
    assert values.tolist() == [[0.0, 2.0, 4.0], [0.0, 2.0, 8.0]]


def test_a_failed_seed_keeps_its_last_value_in_the_mean(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 1, 4.0, curve=[0.0, 2.0, 4.0])
    (make_run(tmp_path / "b", 2, None, curve=[0.0, 1.0]) / "bad_batch.safetensors").write_bytes(b"")
    steps, values = aligned(read_runs([tmp_path]).runs, "return")
    assert (steps.tolist(), values[1].tolist()) == ([0, 500, 1000], [0.0, 1.0, 1.0])


def test_the_mean_is_of_the_seeds_that_have_ended(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 1, 4.0, curve=[0.0, 2.0, 4.0])
    make_run(tmp_path / "b", 2, None, curve=[0.0, 1.0])
    (axes,) = curves_figure(groups(tmp_path)).axes
    (mean,) = lines(axes, 2.2)
    assert mean.get_label() == "td3, 1 seed" and mean.get_ydata().tolist() == [0.0, 2.0, 4.0]
    assert len(lines(axes, 0.8)) == 2


def test_before_any_seed_has_ended_the_mean_goes_as_far_as_all_have_come(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 1, None, curve=[0.0, 2.0, 4.0])
    make_run(tmp_path / "b", 2, None, curve=[0.0, 1.0, 2.0], settings={"trainer.workers": 1})
    (mean,) = lines(curves_figure(groups(tmp_path)).axes[0], 2.2)
    assert (mean.get_label(), mean.get_ydata().tolist()) == ("td3, 2 seeds", [0.0, 1.5, 3.0])


def test_a_band_stays_inside_what_is_possible() -> None:
    shares = np.array([[0.0], [0.9], [1.0]])
    low, high = band(shares, (0.0, 1.0))
    assert (low[0], high[0]) == (0.0, 1.0)
    assert band(shares, None)[1][0] > 1.5


def test_the_possible_range_is_that_of_shares_or_of_all_evaluations(tmp_path: Path) -> None:
    found = groups(two(tmp_path))
    assert possible(found, "return") == (0.0, 9.0)
    assert possible(found, "absent") is None
    record = '{"step": %d, "world": "eval", "battle_won": {"mean": 0.5}}\n'
    (make_run(tmp_path / "won", seed=9) / "evaluations.jsonl").write_text(record % 0 + record % 1000)
    assert possible(groups(tmp_path / "won"), "battle_won") == (0.0, 1.0)


def test_plot_skips_runs_without_the_metric_and_says_so(tmp_path: Path) -> None:
    two(tmp_path)
    (make_run(tmp_path / "empty", seed=8) / "evaluations.jsonl").unlink()
    out, notes = draw_curves([tmp_path], tmp_path / "curves.svg")
    assert out.read_bytes().startswith(b"<?xml")
    assert notes == [f"{tmp_path / 'empty'} has no 'return' yet: left out"]


def test_an_unknown_metric_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has a metric 'win'; known are return"):
        draw_curves([two(tmp_path)], tmp_path / "x.png", metric="win")


def test_an_unknown_kind_of_picture_is_refused(tmp_path: Path) -> None:
    figure = curves_figure(groups(two(tmp_path)))
    with pytest.raises(UserError, match=r"cannot draw a \.gif"):
        write_figure(figure, tmp_path / "x.gif")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_runs_give_the_same_picture(tmp_path: Path, kind: str) -> None:
    found = groups(two(tmp_path))
    assert to_bytes(curves_figure(found), kind) == to_bytes(curves_figure(found), kind)


def test_pyplot_is_never_imported(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys; from pathlib import Path; from twofold.lab.figures import draw_curves;"
        f"draw_curves([Path({str(two(tmp_path))!r})], Path({str(tmp_path / 'c.png')!r}));"
        "assert 'matplotlib.pyplot' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_scores_show_every_seed_and_the_mean(tmp_path: Path) -> None:
    comparison = compare([two(tmp_path)])
    (axes,) = scores_figure(comparison.tables[0], comparison).axes
    assert [len(c.get_offsets()) for c in axes.collections] == [5, 5]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["gamma=0.99  n=5", "gamma=0.9  n=5"]


def test_profiles_need_five_seeds_and_over_worlds_references(tmp_path: Path) -> None:
    comparison = compare([two(tmp_path)])
    figure = profile_figure(comparison.tables, comparison)
    assert figure is not None
    assert figure.axes[0].get_lines()[0].get_ydata()[0] == 1.0
    few = compare([make_group(tmp_path / "few", [1.0, 2.0], settings={"learner.tau": 1.0})])
    assert profile_figure(few.tables, few) is None
    both = [comparison.tables[0]] * 2
    assert profile_figure(both, comparison) is None
    assert profile_figure(both, comparison, {"Pendulum-v1": (0.0, 10.0)}) is not None


def test_many_lines_stay_different() -> None:
    assert len({(colour(i), str(dash(i))) for i in range(24)}) == 24


def test_steps_are_short() -> None:
    assert [short_count(v) for v in (0, 500, 300_000, 1_500_000, 2_000_000_000)] == [
        "0",
        "500",
        "300k",
        "1.5M",
        "2G",
    ]


def test_hostile_names_are_drawn_as_text(tmp_path: Path) -> None:
    make_run(tmp_path / "a", settings={"learner.note": "$\\frac{"})
    make_run(tmp_path / "b", settings={"learner.note": "$x$ <script>\x00"})
    picture = to_bytes(curves_figure(groups(tmp_path)), "svg").decode()
    assert "note=$x$ &lt;script&gt;?" in picture
    assert "<script>" not in picture
