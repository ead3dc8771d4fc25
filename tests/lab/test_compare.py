"""Comparisons never pool what differs, count failed seeds, and say what they left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twofold.base.errors import UserError
from twofold.lab.compare import compare, to_data
from twofold.lab.text import render

from .made import PACKAGES, make_group, make_run, summary

LOW, HIGH = [float(i) for i in range(10)], [float(i) + 6 for i in range(10)]


def two(tmp_path: Path, **options: object) -> None:
    make_group(tmp_path / "a", LOW)
    make_group(tmp_path / "b", HIGH, settings={"learner.gamma": 0.9}, **options)  # type: ignore[arg-type]


def test_the_better_of_two_settings_is_named(tmp_path: Path) -> None:
    two(tmp_path)
    table = compare([tmp_path]).tables[0]
    assert [(r.name, r.mean.value, r.worst) for r in table.rows] == [
        ("gamma=0.99", 4.5, (1, 0.0)),
        ("gamma=0.9", 10.5, (1, 6.0)),
    ]
    assert table.verdicts[0].words.startswith("gamma=0.9 is better: P = 0.92")


def test_the_score_of_a_run_is_one_number_whatever_its_episodes(tmp_path: Path) -> None:
    two(tmp_path)
    data = to_data(compare([tmp_path]))
    assert [row["mean"]["runs"] for row in data["tables"][0]["rows"]] == [10, 10]


def test_data_and_text_hold_the_same_numbers(tmp_path: Path) -> None:
    two(tmp_path)
    found = compare([tmp_path], threshold=6.0)
    data, text = json.loads(json.dumps(to_data(found))), render(found)
    row = data["tables"][0]["rows"][1]
    assert f"{row['mean']['value']:.2f} [{row['mean']['low']:.2f}, {row['mean']['high']:.2f}]" in text
    assert "1.00 [0.72, 1.00]" in text  # ten of ten seeds reach 6
    assert data["tables"][0]["verdicts"][0]["words"] in text
    assert "learner.gamma  0.99 (algs/td3.yaml)  0.9 (command line)" in text


def test_the_baseline_can_be_chosen_and_a_wrong_name_is_told(tmp_path: Path) -> None:
    two(tmp_path)
    verdict = compare([tmp_path], baseline="gamma=0.9").tables[0].verdicts[0]
    assert (verdict.baseline, verdict.decision) == ("gamma=0.9", "worse")
    assert "no group is named 'x'" in compare([tmp_path], baseline="x").notes[0]


def test_another_evaluation_world_can_count(tmp_path: Path) -> None:
    two(tmp_path)
    for run in tmp_path.glob("*/seed_*"):
        test = json.loads((run / "test.json").read_text())
        score = test["eval"]["return"]["mean"]
        (run / "test.json").write_text(json.dumps({**test, "strangers": {"return": summary(100 - score)}}))
    found = compare([tmp_path], metric="strangers: return").tables[0]
    assert [(row.name, row.mean.value) for row in found.rows] == [("gamma=0.99", 95.5), ("gamma=0.9", 89.5)]
    assert found.verdicts[0].decision == "worse"


def test_other_steps_are_not_compared(tmp_path: Path) -> None:
    make_group(tmp_path / "a", LOW)
    make_group(tmp_path / "b", HIGH, settings={"trainer.steps": 2000})
    found = compare([tmp_path])
    assert [len(t.rows) for t in found.tables] == [1, 1]
    assert found.notes == ("Pendulum-v1: runs of 1,000 and 2,000 steps are not compared with each other",)


def test_other_physics_is_not_compared(tmp_path: Path) -> None:
    two(tmp_path, packages={**PACKAGES, "gymnasium": "1.5.0"})
    found = compare([tmp_path])
    assert [len(t.verdicts) for t in found.tables] == [0, 0]
    assert "other versions of gymnasium" in found.notes[0]


def test_unfinished_seeds_are_left_out_named_and_postpone_the_verdict(tmp_path: Path) -> None:
    two(tmp_path)
    make_run(tmp_path / "late", seed=11, score=None, settings={"learner.gamma": 0.9})
    table = compare([tmp_path]).tables[0]
    assert table.rows[1].unfinished == (11,)
    assert table.verdicts[0].decision == "unfinished"
    assert "gamma=0.9 seed 11 is not finished" in table.verdicts[0].words


@pytest.mark.parametrize(("score", "value"), [("test", 1.0), ("last", 1.0), ("area", 0.75)])
def test_a_failed_seed_counts_with_its_last_evaluation(tmp_path: Path, score: str, value: float) -> None:
    two(tmp_path)
    failed = make_run(tmp_path / "nan", seed=11, score=None, curve=[0.0, 1.0])
    (failed / "bad_batch.safetensors").write_bytes(b"")
    row = compare([tmp_path], score=score).tables[0].rows[0]  # type: ignore[arg-type]
    assert row.failed == (11,)
    assert row.scores[-1] == value  # area: half the way up during 500 steps, then 1 for the 500 it never ran


def test_area_is_the_mean_of_the_curve_over_steps(tmp_path: Path) -> None:
    make_run(tmp_path / "a", curve=[0.0, 4.0, 6.0])
    assert compare([tmp_path], score="area").tables[0].rows[0].scores == (3.5,)


def test_few_seeds_have_no_interquartile_mean(tmp_path: Path) -> None:
    make_group(tmp_path, [1.0, 2.0, 3.0, 4.0])
    found = compare([tmp_path])
    assert found.tables[0].rows[0].iqm is None
    assert "fewer than 5 seeds" in render(found)


def test_several_worlds_have_a_verdict_each_and_one_over_all(tmp_path: Path) -> None:
    hopper = {"env_args.id": "Hopper-v5", "trainer.steps": 3000}
    layers = dict.fromkeys(hopper, "envs/hopper.yaml")
    two(tmp_path / "p")
    make_group(tmp_path / "h" / "a", [1000 * v for v in LOW], settings=hopper, layers=layers)
    faster = {**hopper, "learner.gamma": 0.9}
    make_group(tmp_path / "h" / "b", [1000 * v for v in HIGH], settings=faster, layers=layers)
    found = compare([tmp_path])
    assert [t.world for t in found.tables] == ["Hopper-v5", "Pendulum-v1"]
    assert found.variants == 2
    assert [v.decision for v in found.overall] == ["better"]
    assert found.overall[0].improvement.value == pytest.approx(0.92)


def test_comparisons_in_every_world_count_for_the_correction(tmp_path: Path) -> None:
    two(tmp_path / "p")
    alone = compare([tmp_path]).tables[0].verdicts[0]
    hopper = {"env_args.id": "Hopper-v5"}
    make_group(tmp_path / "h" / "a", LOW, settings=hopper)
    make_group(tmp_path / "h" / "b", LOW, settings={**hopper, "learner.gamma": 0.9})
    both = [verdict for table in compare([tmp_path]).tables for verdict in table.verdicts]
    assert [v.comparisons for v in both] == [2, 2]
    assert both[1].p == pytest.approx(2 * alone.p)


def test_the_optimality_gap_needs_references(tmp_path: Path) -> None:
    make_group(tmp_path, [0.0, 5.0, 10.0, 15.0, 20.0])
    row = compare([tmp_path], references={"Pendulum-v1": (0.0, 10.0)}).tables[0].rows[0]
    assert row.gap is not None and row.gap.value == pytest.approx(0.3)  # 1 - mean(0, .5, 1, 1, 1)
    assert compare([tmp_path]).tables[0].rows[0].gap is None
    with pytest.raises(UserError, match="upper score must be above"):
        compare([tmp_path], references={"Pendulum-v1": (1.0, 1.0)})


def test_variants_that_never_finished_were_tried_too(tmp_path: Path) -> None:
    two(tmp_path)
    make_run(tmp_path / "given_up", score=None, settings={"learner.gamma": 0.1})
    assert compare([tmp_path]).variants == 3


def test_chosen_names_go_before_made_ones(tmp_path: Path) -> None:
    two(tmp_path)
    names = {tmp_path / "b" / f"seed_{i}": "patient" for i in range(1, 11)}
    assert [r.name for r in compare([tmp_path], names=names).tables[0].rows] == ["gamma=0.99", "patient"]


def test_damage_and_doubles_are_told_beside_the_result(tmp_path: Path) -> None:
    two(tmp_path)
    make_run(tmp_path / "again", seed=1)
    (make_run(tmp_path / "broken") / "config.json").write_text("{")
    text = render(compare([tmp_path]))
    assert "left out" in text and "broken/config.json is not valid JSON" in text
    assert "gamma=0.99: seed 1 was run more than once and counts once" in text


def test_nothing_to_compare_and_unknown_scores_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run below"):
        compare([tmp_path])
    with pytest.raises(UserError, match="no score 'best'"):
        compare([tmp_path], score="best")  # type: ignore[arg-type]


def test_a_world_whose_own_settings_differ_gets_a_warning(tmp_path: Path) -> None:
    make_group(tmp_path / "a", LOW)
    make_group(tmp_path / "b", HIGH, settings={"env_args.repeat": 2})
    assert "the settings of the world differ" in compare([tmp_path]).tables[0].notes[0]
