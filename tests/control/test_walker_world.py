from __future__ import annotations

import numpy as np

from twofold.control.walker_world import WalkerConfig, walker_world
from twofold.rows.check import check_world

SHAPED = WalkerConfig(repeat=2, lidar_history=(4, 8), reward_scale=3.0)


def played(purpose: str) -> tuple[float, dict[str, float]]:
    """Reward sum and episode metrics of an episode that ends in a fall."""
    world = walker_world(SHAPED, rows=1, purpose=purpose)
    world.reset(seed=[3], options={"reset_mask": np.ones(1, bool)})
    rng, total = np.random.default_rng(0), 0.0
    while True:
        _, reward, terminated, truncated, info = world.step(rng.uniform(-1, 1, (1, 4)).astype(np.float32))
        total += reward[0]
        if terminated[0] or truncated[0]:
            return total, {k: float(v[0]) for k, v in info["episode"].items()}


def test_training_is_shaped_and_both_report_the_raw_return() -> None:
    train, eval_ = played("train"), played("eval")
    assert train[1] == eval_[1] and eval_[1]["success"] == 0.0
    assert eval_[0] == eval_[1]["return"] < -90
    assert abs(train[0] - 3 * eval_[0]) < 1e-6


def test_the_world_keeps_the_contract_without_fresh_instances() -> None:
    assert check_world(walker_world(SHAPED, rows=2, purpose="train"), steps=120) == []
