"""The arithmetic of `make bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from bench import Plan, compared, targets, with_checkouts
from bench_systems import Clock, Finished, Window


def run(number: int, system: str, speed: float, *, quiet: bool = True) -> dict:
    return {"round": number, "threads": 2, "system": system, "steps_per_second": speed, "quiet": quiet}


def test_ratios_are_taken_within_rounds():
    ours, its = [300.0, 100.0, 90.0], [100.0, 80.0, 45.0]
    runs = [run(i, "twofold", speed) for i, speed in enumerate(ours)]
    runs += [run(i, "it", speed) for i, speed in enumerate(its)]
    found = compared(runs)["2"]["systems"]["it"]
    assert found["ours_over_it"] == {"median": 2.0, "low": 1.25, "high": 3.0}  # medians apart would give 1.25
    assert found["median"] == 80.0


def test_disturbed_rounds_count_only_where_fewer_than_three_are_quiet():
    runs = [run(i, "twofold", 100.0) for i in range(3)] + [run(3, "twofold", 10.0, quiet=False)]
    assert compared(runs)["2"]["systems"]["twofold"]["low"] == 100.0
    assert compared(runs[1:])["2"]["systems"]["twofold"]["low"] == 10.0
    assert compared(runs[1:])["2"]["quiet_rounds"] == 2


def test_a_target_that_is_missed_is_called_so():
    runs = [
        run(i, name, s) for i in range(3) for name, s in (("twofold", 230.0), ("stable-baselines3", 100.0))
    ]
    record = {"summary": compared(runs), "updates": {}, "replay": {"ratio": 1.02}, "help_seconds": 0.2}
    met = {row["what"]: row["met"] for row in targets(record)}
    assert met["steps/s over stable-baselines3, 2 threads"] is False  # 2.3, wanted 2.4
    assert met["replay of 1M over raw float32"] is True
    assert "steps/s over tianshou, 2 threads" not in met  # not measured: neither met nor missed


def test_the_clock_times_the_window_and_ends_the_training():
    class Still(gym.Env):
        observation_space = action_space = gym.spaces.Box(-1, 1, (1,))

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, False, False, {}

    clock, steps = Clock(Still(), Window(warmup=990, skip=10, steps=50, seconds=0.0)), 0
    with pytest.raises(Finished) as end:
        while True:
            clock.step(np.zeros(1))
            steps += 1
    assert steps == 1050
    assert end.value.timing.steps == 50


def test_a_window_that_our_first_evaluation_would_reach_is_refused():
    with pytest.raises(ValueError, match="first evaluation"):
        Window(warmup=500, skip=100)


def test_codes_that_are_no_packages_join_where_a_checkout_is_given(tmp_path):
    plan = with_checkouts(Plan(systems=("twofold",)), [f"cleanrl={tmp_path}"])
    assert plan.systems == ("twofold", "cleanrl", "cleanrl-jax")
    assert with_checkouts(Plan(), []) == Plan()


def test_a_checkout_that_is_not_there_is_refused(tmp_path):
    for wrong in (f"sb3={tmp_path}", f"td3={tmp_path / 'nowhere'}"):
        with pytest.raises(SystemExit, match="name one of cleanrl, td3 and its folder"):
            with_checkouts(Plan(), [wrong])
