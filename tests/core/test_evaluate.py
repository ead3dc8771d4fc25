from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parts import Counter

from twofold.base.statistics import half_interval, summaries, summary, wilson
from twofold.core.evaluate import Interrupted, evaluate
from twofold.rows.envs import EnvRows


class Still:
    def reset(self, rows: Any) -> None:
        """Nothing to do."""

    def act(self, obs: Any) -> Any:
        return np.zeros((len(obs), 2), np.float32)


class Lengthy(Counter):
    """An episode as long as its seed says."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.length = int(seed or 1)
        return super().reset(seed=seed)


@pytest.mark.parametrize("rows", [1, 3])
def test_one_episode_is_played_for_each_seed_in_order(rows: int) -> None:
    found = evaluate(EnvRows(Lengthy, rows), Still(), [3, 1, 5, 2, 4])  # type: ignore[arg-type]
    assert found["length"].tolist() == [3, 1, 5, 2, 4]
    assert found["return"].tolist() == [3, 1, 5, 2, 4]
    assert found["won"].tolist() == [1] * 5


def test_a_stop_interrupts_at_the_next_step() -> None:
    with pytest.raises(Interrupted):
        evaluate(EnvRows(Lengthy, 1), Still(), [5], lambda: True)  # type: ignore[arg-type]


def test_summary_has_the_student_interval() -> None:
    got = summary(np.array([1.0, 2.0, 3.0, 4.0]))
    assert got["mean"] == 2.5 and got["std"] == pytest.approx(1.2909944)
    assert got["high"] - got["mean"] == pytest.approx(3.182 * 1.2909944 / 2)
    assert half_interval(1.0, 100) == pytest.approx(0.196)
    assert half_interval(1.0, 1) == 0


def test_shares_have_wilsons_interval_and_returns_do_not() -> None:
    # Wilson (1927), 95 %: 8 of 10 is 0.490 to 0.943; none of 10 is 0 to 0.278.
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    won = np.array([1.0] * 8 + [0.0] * 2)
    found = summaries({"return": won, "won": won, "fallen": won * 2})
    assert (found["won"]["low"], found["won"]["high"]) == wilson(0.8, 10)
    assert found["return"]["high"] == summary(won)["high"] > 1
    assert found["fallen"]["high"] == summary(won * 2)["high"]
