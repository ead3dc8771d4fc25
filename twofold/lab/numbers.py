"""Numbers as people read them: as many digits as the spread allows."""

from __future__ import annotations

import math

from twofold.lab.statistics import Estimate


def decimals(*values: float | None) -> int:
    """Digits after the point that show about four figures of the largest of these."""
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if largest == 0:
        return 1
    return min(3, max(0, 3 - math.floor(math.log10(largest))))


def number(value: float, digits: int | None = None) -> str:
    """A number with thousands apart; a true minus sign is left to the typesetter."""
    return f"{value:,.{decimals(value) if digits is None else digits}f}"


def interval(estimate: Estimate, digits: int | None = None) -> str:
    """`2,240 [1,900, 2,600]`; no bracket where there is no interval."""
    digits = decimals(estimate.value, estimate.low, estimate.high) if digits is None else digits
    middle = number(estimate.value, digits)
    if estimate.low is None or estimate.high is None:
        return middle
    return f"{middle} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def age(seconds: float) -> str:
    """How long ago, in the unit that fits."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
