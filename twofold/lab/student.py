"""Quantiles of Student's t, to machine precision and without scipy."""

from __future__ import annotations

import math
from functools import lru_cache

_TINY = 1e-300


@lru_cache(maxsize=1024)
def quantile(probability: float, freedom: float) -> float:
    """The t below which `probability` of Student's distribution with `freedom` degrees lies."""
    if not 0 < probability < 1 or freedom <= 0:
        raise ValueError(f"no t quantile of {probability} with {freedom} degrees of freedom")
    if probability < 0.5:
        return -quantile(1 - probability, freedom)
    tail = 2 * (1 - probability)  # both tails: P(|t| > x) = I(freedom / (freedom + x²); freedom/2, 1/2)
    low, high = 0.0, 1.0
    while _both_tails(high, freedom) > tail:
        low, high = high, high * 2
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _both_tails(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _both_tails(x: float, freedom: float) -> float:
    return incomplete_beta(freedom / (freedom + x * x), freedom / 2, 0.5)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I(x; a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side
        return 1 - incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) * _continued_fraction(x, a, b) / a


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Lentz's evaluation of the fraction of the incomplete beta function (DLMF 8.17.22)."""
    value, c, d = 1.0, 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d or _TINY)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return value
