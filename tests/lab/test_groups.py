"""Runs are pooled over seeds and over nothing else, and named by what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from twofold.lab.compare import variant_key
from twofold.lab.groups import Group, differences, group_runs, show
from twofold.lab.runs import read_runs

from .made import PACKAGES, make_group, make_run


def groups(*places: Path) -> list[Group]:
    return group_runs(read_runs(list(places)).runs)


def test_two_settings_are_two_groups_named_by_the_setting(tmp_path: Path) -> None:
    make_group(tmp_path / "a", [1.0, 2.0, 3.0])
    make_group(tmp_path / "b", [1.0, 2.0], settings={"learner.gamma": 0.9})
    assert [g.label for g in groups(tmp_path)] == ["gamma=0.99, 3 seeds", "gamma=0.9, 2 seeds"]


def test_one_variant_is_named_by_its_algorithm(tmp_path: Path) -> None:
    make_group(tmp_path, [1.0, 2.0])
    assert [g.name for g in groups(tmp_path)] == ["td3"]


@pytest.mark.parametrize("setting", [{"trainer.workers": 4}, {"trainer.save_every": 7}, {"debug": True}])
def test_settings_that_cannot_change_the_bytes_make_no_variant(tmp_path: Path, setting: Any) -> None:
    make_run(tmp_path / "a", seed=1)
    make_run(tmp_path / "b", seed=2, settings=setting)
    assert [len(g.runs) for g in groups(tmp_path)] == [2]


@pytest.mark.parametrize("setting", [{"trainer.steps": 2000}, {"env_args.id": "Hopper-v5"}, {"threads": 2}])
def test_steps_worlds_and_threads_are_never_pooled(tmp_path: Path, setting: Any) -> None:
    make_run(tmp_path / "a", seed=1)
    make_run(tmp_path / "b", seed=2, settings=setting)
    assert [len(g.runs) for g in groups(tmp_path)] == [1, 1]


@pytest.mark.parametrize("off", [None, False])
def test_a_setting_that_is_off_is_as_one_that_did_not_exist_yet(tmp_path: Path, off: Any) -> None:
    make_run(tmp_path / "before", seed=1)
    make_run(tmp_path / "after", seed=2, settings={"learner.new": off})
    make_run(tmp_path / "on", seed=1, settings={"learner.new": True, "learner.gamma": 0.9})
    made = groups(tmp_path)
    assert [len(g.runs) for g in made] == [2, 1]
    assert [d.setting for d in differences(made)] == ["learner.gamma", "learner.new"]
    make_run(tmp_path / "other", seed=1, settings={"learner.new": off, "learner.gamma": 0.8})
    some = groups(tmp_path / "before", tmp_path / "other")
    assert [d.setting for d in differences(some)] == ["learner.gamma"]


def test_a_setting_that_is_off_is_none_in_another_world_either(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1)
    off = {"env_args.id": "Hopper-v5", "learner.new": None}
    make_run(tmp_path / "b", seed=1, settings=off, layers={"learner.new": "command line"})
    assert len({variant_key(group) for group in groups(tmp_path)}) == 1


def test_zero_is_not_off(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1)
    make_run(tmp_path / "b", seed=2, settings={"learner.new": 0})
    assert [len(g.runs) for g in groups(tmp_path)] == [1, 1]


def test_other_physics_is_another_group_and_says_so(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1)
    make_run(tmp_path / "b", seed=2, packages={**PACKAGES, "gymnasium": "1.5.0"})
    assert [g.name for g in groups(tmp_path)] == ["td3 gymnasium 1.4.0", "td3 gymnasium 1.5.0"]


def test_a_package_that_one_run_did_without_cannot_matter(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1)
    make_run(tmp_path / "b", seed=2, packages={**PACKAGES, "ase": "3.29.0", "torch": "2.12.0"})
    assert [len(g.runs) for g in groups(tmp_path)] == [2]


def test_a_seed_that_was_run_twice_counts_once(tmp_path: Path) -> None:
    make_run(tmp_path / "a", seed=1, score=None)
    make_run(tmp_path / "b", seed=1, score=5.0)
    make_run(tmp_path / "c", seed=2)
    (group,) = groups(tmp_path)
    assert [run.folder.name for run in group.runs] == ["b", "c"]
    assert [run.folder.name for run in group.copies] == ["a"]


def test_other_algorithms_are_named_by_their_file_not_by_every_setting(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    layers = dict.fromkeys(["learner.name", "learner.gamma", "learner.tau"], "algs/ddpg.yaml")
    make_run(tmp_path / "b", settings={"learner.name": "ddpg", "learner.tau": 0.001}, layers=layers)
    changed = {"learner.name": "ddpg", "learner.tau": 0.5}
    make_run(tmp_path / "c", settings=changed, layers={**layers, "learner.tau": "command line"})
    assert [g.name for g in groups(tmp_path)] == ["td3", "ddpg", "ddpg tau=0.5"]


def test_differences_tell_the_layer_that_set_each_value(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", settings={"learner.gamma": 0.9})
    (found,) = differences(groups(tmp_path))
    assert found.setting == "learner.gamma"
    assert found.values == (
        ("gamma=0.99", "0.99", "algs/td3.yaml"),
        ("gamma=0.9", "0.9", "command line"),
    )


def test_settings_of_the_same_last_word_keep_their_whole_name(tmp_path: Path) -> None:
    make_run(tmp_path / "a", settings={"learner.size": 1, "networks.size": 1})
    make_run(tmp_path / "b", settings={"learner.size": 2, "networks.size": 2})
    assert groups(tmp_path)[1].name == "learner.size=2 networks.size=2"


def test_many_differences_do_not_make_an_endless_name(tmp_path: Path) -> None:
    make_run(tmp_path / "a", settings={f"learner.x{i}": 0 for i in range(9)})
    make_run(tmp_path / "b", settings={f"learner.x{i}": "y" * 99 for i in range(9)})
    first, second = groups(tmp_path)
    assert first.name == "x0=0 x1=0 x2=0 x3=0 +5 more"
    assert len(second.name) < 150


def test_values_are_shown_as_people_write_them() -> None:
    assert [show(v) for v in (None, True, 3e-4, [256, 256], "x")] == [
        "none",
        "true",
        "0.0003",
        "256,256",
        "x",
    ]
