"""The judge of simulated episodes where data brings no true users: a model of all ratings of the log, hidden ones too.

It is of the kind of the model that trains, has seen more ratings than that one, and draws other random numbers; so it
should know tastes at least as well. How well is measured on hidden ratings that a judge of the same kind has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twofold.base.progress import task
from twofold.base.regular import is_there
from twofold.recsys import user_model as user_models
from twofold.recsys.data import Dataset, Ratings
from twofold.recsys.ranking import errors
from twofold.recsys.truth import Factors, Matrix
from twofold.recsys.user_model import UserModel, UserModelConfig


@dataclass(frozen=True)
class JudgeErrors:
    """Errors on the same hidden ratings: neither of the two has seen them."""

    judge: float  # RMSE
    model: float  # RMSE of the model that trains
    ratings: int

    def text(self) -> str:
        found = (
            f"users of simulated episodes: a model of all ratings; on {self.ratings} ratings hidden from both it "
            f"misses by {self.judge:.3f}, the model that trains by {self.model:.3f} (RMSE)"
        )
        return found if self.judge <= self.model else f"{found}: the judge is no better than the judged"


def fit_judge(data: Dataset, cfg: UserModelConfig, folder: Path) -> None:
    """Fit a model of all ratings and keep its expectation in `folder`, if it is not there."""
    if is_there(folder / user_models.FILE):
        return
    user_models.own_folder(folder)
    with task(f"fitting who judges to all {len(whole(data))} ratings"):
        user_models.save(_fitted(data, whole(data), cfg), folder)


def judge_errors(data: Dataset, cfg: UserModelConfig, model: Matrix | Factors) -> JudgeErrors:
    """A judge who has seen half of the hidden ratings, and the model that trains, on the other half."""
    assert data.test is not None
    known, hidden = data.test.split(0.5, np.random.default_rng(1))
    judge = _fitted(data, joined(data.train, known), cfg).mean
    rmse = [errors(table, hidden)["rmse"] for table in (judge, model)]
    return JudgeErrors(rmse[0], rmse[1], len(hidden))


def judge_config(data: Dataset, cfg: UserModelConfig) -> UserModelConfig:
    """The kind of the model that trains, with other random numbers; of a Gaussian process the mean alone is needed."""
    gaussian = replace(cfg.gaussian, samples=1, most_ratings=max(cfg.gaussian.most_ratings, len(whole(data))))
    return replace(cfg, kind=user_models.kind_for(data, cfg), fit_seed=cfg.fit_seed + 1, gaussian=gaussian)


def _fitted(data: Dataset, log: Ratings, cfg: UserModelConfig) -> UserModel:
    model = user_models.fit(replace(data, train=log, test=None), judge_config(data, cfg))
    return UserModel(model.kind, _on_the_scale(model.mean, data), (), None, model.noise, model.report)


def _on_the_scale(mean: Matrix | Factors, data: Dataset) -> Matrix | Factors:
    """Nobody gives more than the scale has; not rounded, which would only add an error."""
    if isinstance(mean, Factors):
        return replace(mean, rounded=False)
    return Matrix(np.clip(mean.values, data.low, data.high).astype(np.float32))


def whole(data: Dataset) -> Ratings:
    """All ratings of a data set."""
    return data.train if data.test is None else joined(data.train, data.test)


def joined(one: Ratings, other: Ratings) -> Ratings:
    """Two logs of the same users and items as one, without times."""
    pairs = ((one.users, other.users), (one.items, other.items), (one.values, other.values))
    users, items, values = (np.concatenate(pair) for pair in pairs)
    return Ratings(users, items, values, None, one.user_names, one.item_names)
