"""TD3 learns: minutes each, run by `make learn`."""

from __future__ import annotations

from pathlib import Path

import pytest

import twofold


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_pendulum_is_held_up_within_ten_thousand_steps(seed: int, tmp_path: Path) -> None:
    run = twofold.train("td3", "pendulum", seed=seed, run=tmp_path / "r", trainer={"test_episodes": 100})
    assert run.test["eval"]["return"]["mean"] > -200
