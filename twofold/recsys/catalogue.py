"""What a policy knows before an episode: vectors made from the user model, never from the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from twofold.base.errors import ConfigError
from twofold.recsys.data import Array
from twofold.recsys.labels import Labels
from twofold.recsys.taking import Taking
from twofold.recsys.truth import Factors, Matrix
from twofold.recsys.user_model import UserModel
from twofold.store.spaces import SizedBox

_ROWS = 4000  # users looked at when a decomposition would not fit all of them


@dataclass(frozen=True)
class Catalogue:
    """Arrays that world and networks share; the last row of the user table stands for a user never seen."""

    item_vectors: Array  # float32 [items, d], unit length: the space the actor points into
    user_factors: Array  # float32 [users + 1, r]
    item_factors: Array  # float32 [items, r]; expected rating = user_factors . item_factors
    belief_factors: Array  # float32 [items, b]; one episode's deviation from the expectation = belief . these
    belief_noise: float  # standard deviation of what those factors leave unexplained
    labels: Labels = field(default_factory=Labels)  # who and what the rows stand for
    taking: Taking | None = None  # what users take, where that is rewarded

    def expected(self, users: Array, items: Array) -> Array:
        """Expected ratings of pairs, before anything is seen of the episode."""
        return np.asarray(np.einsum("...k,...k->...", self.user_factors[users], self.item_factors[items]))

    @property
    def sizes(self) -> dict[str, int]:
        """How large it is, and a number that is another one for other data."""
        users, items = len(self.user_factors) - 1, len(self.item_factors)
        data = int(self.labels.digest or "0", 16)
        takes = 0 if self.taking is None else self.taking.size
        return {
            "users": users,
            "items": items,
            "rank": self.item_factors.shape[1],
            "takes": takes,
            "data": data,
        }


class ItemSpace(SizedBox):
    """Points in the item-embedding space, with the catalogue that they are points of."""

    def __init__(self, catalogue: Catalogue) -> None:
        ones = np.ones(catalogue.item_vectors.shape[1], np.float32)
        super().__init__(-ones, ones, catalogue.sizes)
        self.catalogue = catalogue


def build(
    model: UserModel,
    labels: Labels | None = None,
    *,
    taste: int,
    random: int,
    rank: int,
    belief: int,
    seed: int = 0,
) -> Catalogue:
    """Item vectors (`taste` dimensions of the expectation + `random` ones), rating and belief factors."""
    rng = np.random.default_rng(seed)
    user, item = _factors(model.mean, rank, rng)
    users = np.vstack([user, user.mean(axis=0, keepdims=True)])
    belief_factors, noise = _belief(model, belief, rng)
    vectors = _vectors(item, user, taste, random, rng)
    factors = users.astype(np.float32), item.astype(np.float32)
    return Catalogue(vectors, *factors, belief_factors, noise, labels or Labels())


def _factors(mean: Matrix | Factors, rank: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Factors of the expected ratings, padded with zeros; the first two columns carry the biases."""
    if isinstance(mean, Factors):
        user, item = mean.user, mean.item
        if user.shape[1] > rank:
            raise ConfigError(
                f"env_args.rank must be at least {user.shape[1]}, the factors of the user model"
            )
        pad = ((0, 0), (0, rank - user.shape[1]))
        return np.pad(user, pad), np.pad(item, pad)
    values = mean.values.astype(np.float64)
    level, bias = values.mean(axis=1), values.mean(axis=0) - values.mean()
    left, scale, right = np.linalg.svd(values - level[:, None] - bias, full_matrices=False)
    kept = min(rank - 2, len(scale))
    root = np.sqrt(scale[:kept])
    user = np.column_stack([level, np.ones(len(level)), left[:, :kept] * root])
    item = np.column_stack([np.ones(len(bias)), bias, right[:kept].T * root])
    pad = ((0, 0), (0, rank - user.shape[1]))
    return np.pad(user, pad), np.pad(item, pad)


def _vectors(item: Array, user: Array, taste: int, random: int, rng: np.random.Generator) -> Array:
    """Items that are liked alike point alike; random dimensions keep equal ones apart."""
    some = user[rng.permutation(len(user))[:_ROWS]].astype(np.float64)
    gram = some.T @ some / len(some)
    spread = (item - item.mean(axis=0)) @ np.linalg.cholesky(gram + 1e-9 * np.eye(len(gram)))
    values, axes = np.linalg.eigh(spread.T @ spread)
    main = spread @ axes[:, np.argsort(-values)[: taste - 1]]
    main = np.pad(main, ((0, 0), (0, taste - 1 - main.shape[1])))
    parts = [_lifted(main), _unit(rng.standard_normal((len(item), random)))]
    return _unit(np.hstack([part for part in parts if part.shape[1]])).astype(np.float32)


def _lifted(rows: Array) -> Array:
    """Unit vectors whose cosines with a taste rank items as the products with `rows` do.

    Scaling every row to unit length would put an item that is a little better than most beside the best one; one more
    coordinate takes up what is missing instead.
    """
    lengths = np.square(rows).sum(axis=1)
    rows, lengths = rows / max(lengths.max() ** 0.5, 1e-9), lengths / max(lengths.max(), 1e-18)
    return np.column_stack([rows, np.sqrt(np.maximum(1.0 - lengths, 0.0))])


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def _belief(model: UserModel, rank: int, rng: np.random.Generator) -> tuple[Array, float]:
    """Main directions in which drawn worlds deviate from the expectation, per user.

    What they leave unexplained of one rating is the rest of those deviations and the noise of every single rating.
    """
    items = model.mean.shape[1]
    if rank == 0 or len(model.worlds) < 2:
        return np.zeros((items, rank), np.float32), 1.0
    if isinstance(model.mean, Factors):
        factors, rest = _belief_of_factors(model.mean, rank)
        return factors, float(np.hypot(rest, model.noise))
    per_world = max(1, 20 * _ROWS // items // len(model.worlds)) if items > 2000 else 100
    rows = [
        world.rows(users).astype(np.float32) - model.mean.rows(users)
        for world in model.worlds
        for users in [rng.permutation(model.mean.shape[0])[:per_world]]
    ]
    factors, rest = _directions(np.vstack(rows), rank)
    return factors, float(np.hypot(rest, model.noise))


def _directions(deviations: Array, rank: int) -> tuple[Array, float]:
    """Factors F with F F' near the covariance of the rows, and the standard deviation of the rest."""
    covariance = (deviations.T @ deviations).astype(np.float64) / len(deviations)
    values, axes = np.linalg.eigh(covariance)
    top = np.argsort(-values)[:rank]
    factors = axes[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    factors = np.pad(factors, ((0, 0), (0, rank - factors.shape[1])))
    rest = max(float(values.sum() - values[top].sum()) / len(values), 0.0)
    return factors.astype(np.float32), float(np.sqrt(rest))


def _belief_of_factors(mean: Factors, rank: int) -> tuple[Array, float]:
    """For a large model no table is made: a user is off by a third of how much users differ."""
    spread = np.cov(mean.user[: 25 * _ROWS].T.astype(np.float64))
    values, axes = np.linalg.eigh(np.atleast_2d(spread))
    top = np.argsort(-values)[:rank]
    factors = mean.item @ (axes[:, top] * np.sqrt(np.maximum(values[top] / 9, 0.0)))
    return np.pad(factors, ((0, 0), (0, rank - factors.shape[1]))).astype(np.float32), 0.3
