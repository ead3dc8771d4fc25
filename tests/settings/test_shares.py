"""Schedules as shares of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from twofold.assemble import assemble
from twofold.base.errors import ConfigError
from twofold.rows.envs import EnvRows
from twofold.settings.config import load
from twofold.settings.shares import counted
from twofold.store.run import Run

WORLD = EnvRows(lambda: gym.make("Pendulum-v1"), 1)  # thirty pictures a second
FALLING = {"start": 1.0, "end": 0.2, "over": 0.8, "per": "run"}


def learner(steps: int, schedules: dict[str, Any], **trainer: Any) -> Any:
    given = {"steps": steps, "warmup": 1000, **trainer}
    return counted(load("td3", "pendulum", learner=schedules, trainer=given).config, WORLD).learner


@pytest.mark.parametrize(("steps", "ratio"), [(11_000, 1.0), (101_000, 0.5)])
def test_a_share_is_counted_in_the_updates_of_the_run_after_its_warm_up(steps: int, ratio: float) -> None:
    rate = learner(steps, {"lr_decay": FALLING}, updates_per_item=ratio).lr_decay
    whole = (steps - 1000) * ratio
    assert [rate(share * whole) for share in (0.0, 0.4, 0.8, 1.0)] == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_noise_is_counted_in_steps_and_may_begin_to_fall_later() -> None:
    noise = learner(11_000, {"expl_noise": {**FALLING, "after": 0.2}}, updates_per_item=2.0).expl_noise
    assert [noise(step) for step in (2000, 6000, 10_000)] == pytest.approx([1.0, 0.6, 0.2])


def test_schedules_that_count_themselves_stay_as_they_are() -> None:
    schedule = {"start": 1.0, "end": 0.2, "over": 500, "per": "update"}
    config = load("td3", "pendulum", learner={"lr_decay": schedule}).config
    assert counted(config, WORLD) is config


def test_a_longer_run_is_the_same_recipe(tmp_path: Path) -> None:
    resolved = load("td3", "pendulum", learner={"lr_decay": FALLING}, trainer={"steps": 2000, "warmup": 0})
    parts = assemble(Run.create(tmp_path / "r", resolved, "test"))
    made: Any = parts.trainer.learner
    assert made.cfg.lr_decay.over == 1600 and resolved.values["learner.lr_decay.over"] == 0.8
    parts.close()


def test_learning_rates_do_not_count_episodes() -> None:
    with pytest.raises(ConfigError, match=r"learner\.lr_decay\.per must be update or run, got episode"):
        load("td3", "pendulum", learner={"lr_decay": FALLING | {"per": "episode"}})


@pytest.mark.parametrize("wrong", [{"over": 1.2}, {"after": 0.3}, {"over": 500_000}])
def test_shares_above_one_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="after and over are shares of the run: at most 1 together"):
        learner(11_000, {"lr_decay": FALLING | wrong})


@pytest.mark.parametrize(("given", "steps"), [(8, 8), ({"seconds": 0.2}, 6), ({"seconds": 0.001}, 1)])
def test_a_span_is_counted_by_the_clock_of_the_world(given: Any, steps: int) -> None:
    config = load("td3_plus", "pendulum", learner={"expl_noise_hold": given}).config
    assert counted(config, WORLD).learner.expl_noise_hold.steps == steps  # type: ignore[attr-defined]


def test_without_a_clock_a_span_is_its_steps() -> None:
    world = EnvRows(lambda: gym.make("Pendulum-v1"), 1)
    world.step_seconds = None
    config = load("td3_plus", "pendulum", learner={"expl_noise_hold": {"steps": 3, "seconds": 0.2}}).config
    assert counted(config, world).learner.expl_noise_hold.steps == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(("body", "steps"), [("hopper", 8), ("walker2d", 8), ("halfcheetah", 1), ("ant", 1)])
def test_td3_plus_holds_its_noise_for_as_long_on_every_body(tmp_path: Path, body: str, steps: int) -> None:
    parts = assemble(Run.create(tmp_path / "r", load("td3_plus", body, replay={"buffer_size": 1000}), "test"))
    made: Any = parts.trainer.learner
    assert made.cfg.expl_noise_hold.steps == steps
    parts.close()
