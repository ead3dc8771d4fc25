"""Mean, spread and interval of a handful of values."""

from __future__ import annotations

import math

import numpy as np

from twofold.base.values import Array

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
        2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip


def summary(values: Array, *, share: bool = False) -> dict[str, float]:
    """Mean, standard deviation and 95 % confidence interval of the mean over episodes; Wilson's for shares."""
    values = values[np.isfinite(values)]
    count = len(values)
    mean = float(values.mean()) if count else math.nan
    std = float(values.std(ddof=1)) if count > 1 else 0.0
    half = half_interval(std, count)
    worst = float(values.min()) if count else math.nan
    low, high = wilson(mean, count) if share else (mean - half, mean + half)
    return {"mean": mean, "std": std, "low": low, "high": high, "min": worst, "episodes": count}


def half_interval(std: float, count: int) -> float:
    """Half the width of the 95 % interval of a mean of `count` values."""
    if count < 2:
        return 0.0
    return (_T95[count - 2] if count <= len(_T95) + 1 else 1.96) * std / math.sqrt(count)


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `count` trials: inside of [0, 1], and of some width at its ends."""
    z = 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(middle - half, 0.0), min(middle + half, 1.0)


_SUMS = ("return", "length")  # over an episode, whatever their values


def _is_share(values: Array) -> bool:
    values = values[np.isfinite(values)]
    return len(values) > 1 and bool(np.isin(values, (0.0, 1.0)).all())


def summaries(found: dict[str, Array]) -> dict[str, dict[str, float]]:
    """Every metric's summary; what is won or not, and nothing between, is a share of the episodes."""
    shares = {name for name, values in found.items() if name not in _SUMS and _is_share(values)}
    return {name: summary(values, share=name in shares) for name, values in found.items()}
