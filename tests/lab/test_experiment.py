"""Experiment files: the same file is the same plan, and every mistake is told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.base.errors import ConfigError
from twofold.lab.experiment import Plan, parse_seeds, plan_seeds, read_plan
from twofold.settings.presets import parse_value, typed

WHOLE = """
title: how patient
config: td3
env_config: [pendulum, hopper]
seeds: 1..3
set: {trainer: {steps: 500}}
variants:
  default: {}
  patient: {learner.gamma: 0.999}
  ddpg: {config: ddpg}
baseline: patient
threshold: -300
references: {pendulum: [-1300, -150]}
"""


def plan(tmp_path: Path, text: str) -> Plan:
    (tmp_path / "patience.yaml").write_text(text)
    return read_plan(tmp_path / "patience.yaml", tmp_path / "runs")


def test_a_plan_is_variants_times_worlds_times_seeds_with_seeds_outermost(tmp_path: Path) -> None:
    found = plan(tmp_path, WHOLE)
    assert len(found.jobs) == 18
    assert [(j.seed, j.world, j.variant) for j in found.jobs[:4]] == [
        (1, "pendulum", "default"),
        (1, "pendulum", "patient"),
        (1, "pendulum", "ddpg"),
        (1, "hopper", "default"),
    ]
    job = found.jobs[1]
    assert job.folder == tmp_path / "runs" / "pendulum" / "patient" / "seed_1"
    assert job.argv[1:] == (
        *("-m", "twofold", "train", "--config=td3", "--env-config=pendulum", f"--run={job.folder}"),
        *("seed=1", "trainer.steps=500", "learner.gamma=0.999"),
    )
    assert job.steps == 500
    assert found.names[job.folder] == "patient"
    assert found.references == {"Pendulum-v1": (-1300.0, -150.0)}


def test_the_same_file_is_the_same_plan(tmp_path: Path) -> None:
    assert plan(tmp_path, WHOLE) == plan(tmp_path, WHOLE)


def test_little_needs_to_be_said(tmp_path: Path) -> None:
    found = plan(tmp_path, "seeds: 2\n")
    assert [(j.name, found.title, found.baseline) for j in found.jobs] == [
        ("pendulum default seed 2", "patience", "default")
    ]


MISTAKES = {
    "sedes: 1..3": "unknown key 'sedes'; did you mean 'seeds'?",
    "seeds: 3..1": "from a smaller to a larger",
    "seeds: [1, 1]": "twice",
    "seeds: many": "such as 1..10",
    "seeds: true": "such as 1..10",
    "seeds: 0..99999999": "at most",
    "env_config: [pendulum, pendulum]": "different names",
    "env_config: nowhere": "nowhere",
    "config: nothing": "nothing",
    "variants: {a: {gama: 0.9}}": "unknown setting 'gama'; did you mean 'gamma'?",
    "variants: {a: {learner.gamma: much}}": "learner.gamma must be",
    "variants: {../a: {}}": "they name folders",
    "variants: {a: {seed: 3}}": "sets the seed",
    "variants: {}": "at least one",
    "variants: [a]": "variants must hold",
    "variants: {a: {}, b: {learner.gamma: 0.99}}": "'pendulum a' and 'pendulum b' have the same settings",
    "baseline: best": "baseline 'best' is not a variant: default",
    "score: best": "score must be one of test, last, area",
    "threshold: high": "threshold must be a finite number",
    "threshold: .nan": "threshold must be a finite number",
    "references: {pendulum: [0, .inf]}": "references.pendulum must be a finite number",
    "": "nothing is asked for",
    "references: {mars: [0, 1]}": "references.mars",
    "references: {pendulum: [1, 0]}": "the second must be above",
    "seeds: 1..9999\nenv_config: [pendulum, hopper]": "more than 10,000 runs",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_every_mistake_is_told_before_anything_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        plan(tmp_path, text)
    assert MISTAKES[text] in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "patience.yaml"))
    assert not (tmp_path / "runs").exists()


def test_files_of_ones_own_lie_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("env: control/gym\nenv_args: {id: Pendulum-v1}\n")
    (job,) = plan(tmp_path, "env_config: mine.yaml").jobs
    assert f"--env-config={tmp_path / 'mine.yaml'}" in job.argv
    assert job.world == "mine"


def test_settings_that_cannot_change_the_bytes_make_no_variant(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the same settings"):
        plan(tmp_path, "variants: {a: {}, b: {trainer.tensorboard: false}}")


def test_seeds_of_one_command_are_a_plan_too(tmp_path: Path) -> None:
    found = plan_seeds("td3", "pendulum", {"learner.gamma": 0.9}, "1..2,5", tmp_path)
    assert [str(j.folder.relative_to(tmp_path)) for j in found.jobs] == [
        *(f"pendulum/td3_gamma=0.9/seed_{seed}" for seed in (1, 2, 5)),
    ]
    assert found.jobs[0].argv[-2:] == ("seed=1", "learner.gamma=0.9")


def test_folders_of_seeds_tell_settings_apart(tmp_path: Path) -> None:
    def name(**settings: object) -> str:
        return plan_seeds("td3", "pendulum", settings, "1", tmp_path).jobs[0].folder.parent.name

    assert name() == "td3"
    assert name(**{"learner.gamma": 0.9, "trainer.steps": 100}) == "td3_gamma=0.9_steps=100"
    long = {"networks.actor_hidden": [256, 256, 256], "networks.critic_hidden": [256, 256, 256]}
    first, second = name(**long), name(**{**long, "networks.critic_hidden": [256, 256, 128]})
    assert first != second and len(first) <= 60


def test_seeds_are_read_as_people_write_them() -> None:
    assert parse_seeds("1..3,7") == [1, 2, 3, 7]
    assert parse_seeds([1, "4..5"]) == [1, 4, 5]
    assert parse_seeds(0) == [0]


plain_values = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-(10**9), 10**9),
    st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12),
    st.lists(st.integers(0, 999), max_size=4),
)


@given(plain_values)
def test_a_value_survives_the_command_line(value: Any) -> None:
    try:
        text = typed(value)
    except Exception as error:
        assert "cannot be given on a command line" in str(error)
        return
    assert parse_value(text) == value
