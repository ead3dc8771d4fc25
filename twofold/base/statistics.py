"""Mean, spread and interval of a handful of values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
        2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip


def summary(values: NDArray[Any]) -> dict[str, float]:
    """Mean, standard deviation and 95 % confidence interval of the mean over episodes."""
    values = values[np.isfinite(values)]
    count = len(values)
    mean = float(values.mean()) if count else math.nan
    std = float(values.std(ddof=1)) if count > 1 else 0.0
    half = half_interval(std, count)
    worst = float(values.min()) if count else math.nan
    interval = {"low": mean - half, "high": mean + half}
    return {"mean": mean, "std": std, **interval, "min": worst, "episodes": count}


def half_interval(std: float, count: int) -> float:
    """Half the width of the 95 % interval of a mean of `count` values."""
    if count < 2:
        return 0.0
    return (_T95[count - 2] if count <= len(_T95) + 1 else 1.96) * std / math.sqrt(count)


def summaries(found: dict[str, NDArray[Any]]) -> dict[str, dict[str, float]]:
    return {name: summary(values) for name, values in found.items()}
