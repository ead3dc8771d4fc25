"""Off-policy evaluation: what a policy would earn, judged from a log with known propensities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import UserError
from .data import Array, Dataset


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval and the number of ratings that it effectively rests on."""

    value: float
    low: float
    high: float
    effective: float

    def text(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.effective:.0f} effective ratings)"


def ips(weights: Array, rewards: Array, count: int) -> Estimate:
    """Inverse propensity score: sum of weight x reward over the log, per decision (`count` of them)."""
    return _normal(weights * rewards, count, weights)


def snips(weights: Array, rewards: Array, count: int) -> Estimate:
    """Self-normalised IPS: divided by the sum of the weights, a little biased and far steadier."""
    total = weights.sum()
    value = float((weights * rewards).sum() / total)
    # Delta method for a ratio of two sums.
    error = float(np.sqrt(np.square(weights * (rewards - value)).sum()) / total)
    return Estimate(value, value - 1.96 * error, value + 1.96 * error, effective_size(weights))


def doubly_robust(
    weights: Array, rewards: Array, predicted: Array, model_value: Array, count: int
) -> Estimate:
    """The user model's value plus the weighted mistakes that it makes on the log.

    predicted [n]: the model's rating of each logged pair; model_value [users]: its value of the policy.
    """
    correction = _normal(weights * (rewards - predicted), count, weights)
    value = float(model_value.mean()) + correction.value
    half = correction.high - correction.value
    return Estimate(value, value - half, value + half, correction.effective)


def effective_size(weights: Array) -> float:
    """(sum w)^2 / sum w^2."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _normal(terms: Array, count: int, weights: Array) -> Estimate:
    """The sum of the terms over `count` decisions; what is not in the log counts as zero."""
    value = float(terms.sum() / count)
    variance = (float(np.square(terms).sum()) / count - value**2) / count
    half = 1.96 * float(np.sqrt(max(variance, 0.0)))
    return Estimate(value, value - half, value + half, effective_size(weights))


def estimates(data: Dataset, policy: Array, prediction: Any = None) -> dict[str, Estimate]:
    """All estimators for a policy given as probabilities [users, items] of the first item shown.

    The log holds a pair with probability `data.propensities`, independently: a weight is policy / propensity,
    the sum runs over users.
    """
    if data.propensities is None:
        raise UserError(f"the data '{data.name}' has no propensities: off-policy evaluation needs them")
    log, users = data.train, data.users
    weights = policy[log.users, log.items] / np.maximum(data.propensities[log.users, log.items], 1e-6)
    rewards = log.values.astype(np.float64)
    found = {"IPS": ips(weights, rewards, users), "SNIPS": snips(weights, rewards, users)}
    if prediction is not None:
        value = (policy * prediction.rows(np.arange(users))).sum(axis=1)
        predicted = prediction.at(log.users, log.items).astype(np.float64)
        found["DM"] = Estimate(float(value.mean()), float("nan"), float("nan"), 0.0)
        found["DR"] = doubly_robust(weights, rewards, predicted, value, users)
    return found


def softened(items: Array, count: int, epsilon: float) -> Array:
    """A policy that shows `items` [users] and, with chance epsilon, any item: [users, count]."""
    policy = np.full((len(items), count), epsilon / count)
    policy[np.arange(len(items)), items] += 1 - epsilon
    return policy
