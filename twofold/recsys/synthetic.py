"""Users made up from factors, so that the whole domain runs with no data at hand."""

from __future__ import annotations

import numpy as np

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.recsys.data import Dataset, Features, Ratings, category_table
from twofold.recsys.truth import Factors, Matrix
from twofold.recsys.user_model import DENSE_CELLS

MOST, _MOST_RATINGS = 1_000_000, 50_000_000  # users or items, and ratings: what a minute makes


@settings
class SyntheticConfig:
    """Settings of the made-up users and items."""

    users: int = setting("number of synthetic users", default=200, ge=1, le=MOST)
    items: int = setting("number of synthetic items", default=150, ge=1, le=MOST)
    tastes: int = setting("dimensions of taste", default=6, ge=1, le=1_000)
    groups: int = setting("item categories", default=12, ge=1, le=1_000)
    ratings_per_user: int = setting("length of each user's log", default=25, ge=1, unit="ratings")
    selection: float = setting(
        "how much more often liked items are in the log; 0: the log is a random sample", default=1.0
    )
    data_seed: int = setting("of the synthetic users and their log", default=0, ge=0)

    def __post_init__(self) -> None:
        if self.users * self.ratings_per_user > _MOST_RATINGS:
            raise ConfigError(f"env_args.synthetic: at most {_MOST_RATINGS:,} synthetic ratings in all")
        if self.ratings_per_user > self.items:
            raise ConfigError(
                "env_args.synthetic.ratings_per_user must not be above env_args.synthetic.items"
            )


def synthetic(cfg: SyntheticConfig) -> Dataset:
    """Ratings 1..5 from user and item factors, logged with self-selection and noise."""
    rng = np.random.default_rng(cfg.data_seed)
    group = rng.integers(cfg.groups, size=cfg.items)
    centres = rng.normal(0, 0.35, (cfg.groups, cfg.tastes))
    taste = centres[group] + rng.normal(0, 0.25, (cfg.items, cfg.tastes))
    item = np.column_stack([np.ones(cfg.items), rng.normal(0, 0.45, cfg.items), taste])
    user = np.column_stack(
        [rng.normal(2.6, 0.35, cfg.users), np.ones(cfg.users), rng.normal(0, 0.8, (cfg.users, cfg.tastes))]
    )
    truth = Factors(user.astype(np.float32), item.astype(np.float32), 1.0, 5.0)
    train = _log(cfg, truth, rng)
    flags = np.eye(cfg.groups, dtype=np.float32)[group]
    names = tuple(f"group:{index}" for index in range(cfg.groups))
    dense = cfg.users * cfg.items <= DENSE_CELLS
    return Dataset(
        name="synthetic",
        train=train,
        low=1.0,
        high=5.0,
        truth=Matrix(truth.rows(np.arange(cfg.users))) if dense else truth,
        item_features=Features(flags, names),
        categories=category_table([[index] for index in group]),
    )


def _log(cfg: SyntheticConfig, truth: Factors, rng: np.random.Generator) -> Ratings:
    """Each user's log: popular items more often, rated with noise."""
    appeal = np.exp(cfg.selection * 2.0 * truth.item[:, 1])
    users = np.repeat(np.arange(cfg.users, dtype=np.int32), cfg.ratings_per_user)
    if cfg.users * cfg.items <= DENSE_CELLS:
        # The largest of log(weight) + Gumbel noise are a weighted draw without replacement.
        keys = np.log(appeal) + rng.gumbel(size=(cfg.users, cfg.items))
        items = np.argpartition(-keys, cfg.ratings_per_user - 1, axis=1)[:, : cfg.ratings_per_user].ravel()
    else:
        items = rng.choice(cfg.items, size=len(users), p=appeal / appeal.sum())
        users, items = np.divmod(np.unique(users.astype(np.int64) * cfg.items + items), cfg.items)
    raw = np.einsum("nk,nk->n", truth.user[users], truth.item[items]) + rng.normal(0, 0.7, len(users))
    values = np.clip(np.round(raw), truth.low, truth.high).astype(np.float32)
    names = tuple(map(str, range(cfg.users))), tuple(map(str, range(cfg.items)))
    return Ratings(users.astype(np.int32), items.astype(np.int32), values, None, *names)
