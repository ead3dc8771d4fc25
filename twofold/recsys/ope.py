"""Off-policy evaluation: what a policy would earn, judged from a log with known propensities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twofold.assemble import world_of
from twofold.base.errors import UserError
from twofold.recsys.data import Array, Dataset
from twofold.recsys.truth import Factors, Matrix
from twofold.store.policy_file import LoadedPolicy


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval and the number of ratings that it effectively rests on."""

    value: float
    low: float
    high: float
    effective: float

    def text(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.effective:.0f} effective ratings)"


def ips(weights: Array, rewards: Array, chances: Array, count: int) -> Estimate:
    """Inverse propensity score: the sum of weight x reward over the log, per decision (`count` of them)."""
    return _total(weights * rewards, weights, chances, count)


def snips(weights: Array, rewards: Array, chances: Array) -> Estimate:
    """Self-normalised IPS: divided by the sum of the weights, a little biased and far steadier."""
    value = float((weights * rewards).sum() / weights.sum())
    # Delta method for a ratio of two sums.
    return _around(value, weights * (rewards - value), weights, chances, float(weights.sum()))


def doubly_robust(
    weights: Array, rewards: Array, chances: Array, predicted: Array, model_value: Array
) -> Estimate:
    """The user model's value plus the weighted mistakes that it makes on the log.

    predicted [n]: the model's rating of each logged pair; model_value [users]: its value of the policy.
    """
    count = len(model_value)
    correction = _total(weights * (rewards - predicted), weights, chances, count)
    value, half = float(model_value.mean()) + correction.value, correction.high - correction.value
    return Estimate(value, value - half, value + half, correction.effective)


def effective_size(weights: Array) -> float:
    """(sum w)^2 / sum w^2."""
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def _total(terms: Array, weights: Array, chances: Array, count: int) -> Estimate:
    return _around(float(terms.sum() / count), terms, weights, chances, float(count))


def _around(value: float, terms: Array, weights: Array, chances: Array, scale: float) -> Estimate:
    """95 % interval of a sum over a log that held each pair independently with its chance (Poisson sampling)."""
    half = 1.96 * float(np.sqrt(((1 - chances) * np.square(terms)).sum())) / scale
    return Estimate(value, value - half, value + half, effective_size(weights))


def estimates(
    data: Dataset, policy: Array, prediction: Matrix | Factors | None = None
) -> dict[str, Estimate]:
    """All estimators for a policy given as probabilities [users, items] of the first item shown.

    The log holds a pair with probability `data.propensities`, independently: a weight is policy / propensity,
    the sum runs over users.
    """
    if data.propensities is None:
        raise UserError(f"the data '{data.name}' has no propensities: off-policy evaluation needs them")
    log, users = data.train, data.users
    chances = np.maximum(data.propensities[log.users, log.items].astype(np.float64), 1e-6)
    weights = policy[log.users, log.items] / chances
    rewards = log.values.astype(np.float64)
    found = {"IPS": ips(weights, rewards, chances, users), "SNIPS": snips(weights, rewards, chances)}
    if prediction is not None:
        value = (policy * prediction.rows(np.arange(users))).sum(axis=1)
        predicted = prediction.at(log.users, log.items).astype(np.float64)
        found["DM"] = Estimate(float(value.mean()), float("nan"), float("nan"), 0.0)
        found["DR"] = doubly_robust(weights, rewards, chances, predicted, value)
    return found


def first_items(loaded: LoadedPolicy, users: int) -> Array:
    """The item that the policy shows first to each user [users]; data that it was not trained on are refused."""
    world = world_of(loaded, "FB", users)
    policy = loaded.learner.policy(explore=False, rows=users, rng=np.random.default_rng(0))
    obs, _ = world.reset(seed=list(range(users)), options={"reset_mask": np.ones(users, bool)})
    return np.asarray(world.step(policy.act(obs))[4]["item"])


def softened(items: Array, count: int, epsilon: float) -> Array:
    """A policy that shows `items` [users] and, with chance epsilon, any item: [users, count]."""
    policy = np.full((len(items), count), epsilon / count)
    policy[np.arange(len(items)), items] += 1 - epsilon
    return policy
