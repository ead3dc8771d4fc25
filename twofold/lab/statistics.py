"""What several seeds say: estimates with intervals. The run is the replicate, never the episode.

Scores are a list with one array for each world; its last axis are the runs. Every statistic works on the
scores themselves ([runs]) and on many resamples of them at once ([resamples, runs]).
Agarwal et al., "Deep RL at the edge of the statistical precipice", 2021; numbers equal those of their rliable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from twofold.lab.student import quantile

Values = NDArray[np.float64]
Scores = Sequence[Values]
LEVEL = 0.95
RESAMPLES = 10_000
FEW, ENOUGH = 5, 10  # below: every dot and no estimate of shape; from here on: verdicts
_SEED = 20_211_206  # resampling is seeded: the same runs give the same interval, always


@dataclass(frozen=True)
class Estimate:
    """A number, the ends of its 95 % interval (None where the data give none), and the runs it is made of."""

    value: float
    low: float | None
    high: float | None
    runs: int


# ---- statistics ---------------------------------------------------------------------------------------------------


def iqm(scores: Scores) -> Values:
    """The mean of the middle half of all runs of all worlds."""
    everything = np.sort(np.concatenate([np.asarray(s, float) for s in scores], axis=-1), axis=-1)
    cut = everything.shape[-1] // 4
    middle: Values = everything[..., cut : everything.shape[-1] - cut].mean(axis=-1)
    return middle


def mean(scores: Scores) -> Values:
    """The mean over worlds of the mean over runs."""
    found: Values = np.mean([np.mean(s, axis=-1) for s in scores], axis=0)
    return found


def median(scores: Scores) -> Values:
    """The median over worlds of the mean over runs, as Atari papers report it."""
    found: Values = np.median([np.mean(s, axis=-1) for s in scores], axis=0)
    return found


def optimality_gap(scores: Scores, goal: float = 1.0) -> Values:
    """How far runs stay below `goal` on average; what is above it does not make up for others."""
    return goal - mean([np.minimum(s, goal) for s in scores])


def profile(scores: Scores, thresholds: Sequence[float] | Values) -> Values:
    """The share of runs above each threshold: [..., thresholds]; each world counts alike."""
    levels = np.asarray(thresholds, float)
    shares = [(np.asarray(s, float)[..., None] > levels).mean(axis=-2) for s in scores]
    found: Values = np.mean(shares, axis=0)
    return found


def wins(ours: Values, theirs: Values) -> Values:
    """1 where a run of ours (rows) beats one of theirs (columns), ½ where they are equal."""
    a, b = np.asarray(ours, float)[:, None], np.asarray(theirs, float)[None, :]
    return np.asarray((a > b) + 0.5 * (a == b), float)


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """The chance that a run of ours beats a run of theirs in a world drawn at random."""
    return float(np.mean([wins(a, b).mean() for a, b in _paired(ours, theirs)]))


def _paired(ours: Scores, theirs: Scores) -> list[tuple[Values, Values]]:
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} worlds against {len(theirs)}: compare the same worlds")
    return list(zip(ours, theirs, strict=True))


# ---- intervals ----------------------------------------------------------------------------------------------------


def mean_interval(values: Sequence[float] | Values, level: float = LEVEL) -> Estimate:
    """The mean of some runs with Student's interval; one run has none."""
    x = np.asarray(values, float)
    middle = float(x.mean())
    if len(x) < 2:
        return Estimate(middle, None, None, len(x))
    half = quantile((1 + level) / 2, len(x) - 1) * float(x.std(ddof=1)) / math.sqrt(len(x))
    return Estimate(middle, middle - half, middle + half, len(x))


def share_interval(successes: int, trials: int, level: float = LEVEL) -> Estimate:
    """A share with Wilson's interval, which stays in [0, 1] and is honest at 0 of 5."""
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} of {trials} is not a share")
    z, share = NormalDist().inv_cdf((1 + level) / 2), successes / trials
    scale = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == trials else min(1.0, middle + half)
    return Estimate(share, low, high, trials)


def bootstrap(
    statistic: Callable[[Scores], Values],
    scores: Scores,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = _SEED,
) -> Estimate:
    """A statistic with the percentile interval of the stratified bootstrap: every world's runs are resampled."""
    rng = np.random.default_rng(seed)
    drawn = [np.asarray(s, float)[rng.integers(len(s), size=(resamples, len(s)))] for s in scores]
    low, high = _percentiles(statistic(drawn), level)
    runs = sum(len(s) for s in scores)
    value = float(statistic(scores))
    return Estimate(value, None, None, runs) if runs < 2 else Estimate(value, low, high, runs)


def improvement_interval(
    ours: Scores,
    theirs: Scores,
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = _SEED,
) -> Estimate:
    """P(ours > theirs) with its bootstrap interval; both sides are resampled, each world on its own."""
    rng = np.random.default_rng(seed)
    total = np.zeros(resamples)
    pairs = _paired(ours, theirs)
    for a, b in pairs:
        # How often each run was drawn says all: the win table itself need not be built again.
        drawn_a = rng.multinomial(len(a), np.full(len(a), 1 / len(a)), size=resamples)
        drawn_b = rng.multinomial(len(b), np.full(len(b), 1 / len(b)), size=resamples)
        total += ((drawn_a @ wins(a, b)) * drawn_b).sum(axis=1) / (len(a) * len(b))
    low, high = _percentiles(total / len(pairs), level)
    runs = sum(min(len(a), len(b)) for a, b in pairs)
    value = probability_of_improvement(ours, theirs)
    if value in (0.0, 1.0):
        # Resampling can only repeat a clean sweep. Each run met one other: `runs` independent trials, all won.
        return share_interval(round(value * runs), runs, level)
    return Estimate(value, low, high, runs)


def _percentiles(values: Values, level: float) -> tuple[float, float]:
    low, high = np.percentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def permutation_p(ours: Scores, theirs: Scores, *, resamples: int = RESAMPLES, seed: int = _SEED) -> float:
    """How often labels dealt at random set the two sides as far apart as the true ones do (two-sided).

    The distance is P(ours > theirs) in units of its own uncertainty (Brunner and Munzel; Neubert and Brunner 2007):
    so the test stays honest where spreads and numbers of runs differ.
    """
    rng = np.random.default_rng(seed)
    pairs = _paired(ours, theirs)
    chance, doubt = np.zeros(resamples + 1), np.zeros(resamples + 1)
    for a, b in pairs:
        everyone = np.concatenate([a, b])
        dealt = np.argsort(rng.random((resamples, len(everyone))), axis=1)[:, : len(a)]
        mine = np.zeros((resamples + 1, len(everyone)))
        mine[0, : len(a)] = 1.0  # the true labels
        np.put_along_axis(mine[1:], dealt, 1.0, axis=1)
        found, variance = _dealt(mine, wins(everyone, everyone))
        chance += found / len(pairs)
        doubt += variance / len(pairs) ** 2
    distance = np.abs(chance - 0.5) / np.sqrt(np.maximum(doubt, 1e-12))
    return (1 + int(np.count_nonzero(distance[1:] >= distance[0] - 1e-9))) / (1 + resamples)


def _dealt(mine: Values, table: Values) -> tuple[Values, Values]:
    """P(mine > others) and its variance for many ways to deal the runs: mine [ways, runs] of 0 and 1."""
    others = 1 - mine
    n, k = mine[0].sum(), others[0].sum()
    beaten = (others @ table.T) / k  # of each run: the share of the others that it beats
    lost = (mine @ table) / n  # of each run: the share of mine that beats it
    chance = (beaten * mine).sum(axis=1) / n
    ours = ((beaten - chance[:, None]) ** 2 * mine).sum(axis=1) / max(n - 1, 1)
    theirs = ((lost - chance[:, None]) ** 2 * others).sum(axis=1) / max(k - 1, 1)
    return chance, ours / n + theirs / k


def holm(probabilities: Sequence[float]) -> list[float]:
    """p values corrected for their number (Holm): the chance of one false verdict among all stays what it says."""
    order = sorted(range(len(probabilities)), key=lambda i: probabilities[i])
    corrected, highest = [0.0] * len(probabilities), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * probabilities[index]))
        corrected[index] = highest
    return corrected


# ---- how many seeds a claim needs ---------------------------------------------------------------------------------


def seeds_needed(probability: float, power: float = 0.8, level: float = LEVEL) -> int | None:
    """Seeds of each side for a rank test to see a true P(ours > theirs) (Noether 1987); None at ½."""
    distance = abs(probability - 0.5)
    if distance < 1e-9:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)
    return math.ceil(z * z / (6 * distance * distance))
