"""The registered world: its settings, and how data, user model and rules become simulated or true users."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from twofold.base.errors import ConfigError, UserError
from twofold.recsys import catalogue as catalogues
from twofold.recsys import user_model as user_models
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.data import Dataset, Ratings
from twofold.recsys.loaders import load
from twofold.recsys.penalties import Penalties, entropy_of_next
from twofold.recsys.quit import (
    CategoryCount,
    CloseByChance,
    Never,
    QuitRule,
    close_by_distance,
    close_by_share,
)
from twofold.recsys.synthetic import SyntheticConfig, synthetic
from twofold.recsys.truth import complete
from twofold.recsys.user_model import UserModel, UserModelConfig
from twofold.recsys.users import Feelings, Rules, Users
from twofold.settings.registry import worlds

log = logging.getLogger("twofold")
EVALUATIONS = ("held_out", "FB", "NX_0", "NX_10")


@dataclass(frozen=True)
class PenaltyConfig:
    """Penalties on the training reward; all off by default."""

    uncertainty: float = field(default=0.0, metadata={"aliases": ("lambda_variance",)})  # MOPO
    entropy: float = field(default=0.0, metadata={"aliases": ("lambda_entropy",)})  # DORL
    exposure: float = 0.0  # CIRS
    exposure_tau: float = 10.0


@dataclass(frozen=True)
class UsersConfig:
    """Settings of `recsys/users`."""

    data: Literal["synthetic", "ratings", "coat", "yahoo", "movielens", "kuairec", "kuairand"] = "synthetic"
    path: str | None = None  # file or folder; null: $TWOFOLD_DATA/<data>, or data/<data>
    user_model: str | None = None  # run directory of `twofold fit`; null: fitted when missing, kept in runs/
    holdout: float = 0.3  # data without true users: this share of the log is hidden from the user model
    max_turn: int = 30
    force_length: int = 10  # turns of the mode NX_10
    # Training episodes end by the user model, by the true rule (which leaks the truth, as elsewhere), or by time.
    quit: bool | Literal["model", "true", "none"] = (
        "model"  # YAML reads `true` as a truth value: both are taken
    )
    quit_rule: Literal["intended", "compat"] = "intended"  # compat: the reference's window arithmetic
    quit_family: Literal["distance", "category"] = "distance"
    leave_threshold: float = 6.0  # distance below which, or category count above which, a user quits
    num_leave_compute: int = field(default=7, metadata={"aliases": ("quit_window",)})  # items looked back on
    close_share: float = 0.02  # quit=model: about this share of the item pairs is close, differing by world
    chance_share: float = 0.01  # quit=model: and each pair is close with this chance, drawn anew per episode
    close_items: float = 6.0  # ... and, in large catalogues, no more than about so many known ones per item
    cool_down: int = 7  # the last so many items are not shown again, also in evaluation
    posterior: bool = True  # a world is drawn from the user model's posterior per episode; false: its mean
    held_out: float = 0.1  # share of the drawn worlds kept for the evaluation `held_out`
    rating_noise: float = 0.3  # unknown part of a simulated rating (standard deviation)
    centred: bool = True  # training reward relative to the user's expected rating
    rew_norm: bool = False  # training reward divided by the standard deviation of the logged ratings
    message: str = ""  # a label, kept with the run
    model_name: str = ""  # a label, kept with the run
    quit_penalty: float = 0.0  # taken from the training reward when a user quits
    taste_dims: int = 16  # dimensions of an item vector that come from expected ratings
    random_dims: int = 16  # random ones, which keep like items apart
    rank: int = 32  # factors of the expected ratings
    belief: int = 8  # directions in which the episode's ratings correct the expectation; 0: off
    penalty: PenaltyConfig = field(default_factory=PenaltyConfig)
    model: UserModelConfig = field(default_factory=UserModelConfig)
    synthetic: SyntheticConfig = field(default_factory=SyntheticConfig)

    def __post_init__(self) -> None:
        for name in ("max_turn", "force_length", "num_leave_compute", "taste_dims", "rank"):
            if getattr(self, name) < 1:
                raise ConfigError(f"env_args.{name} must be at least 1, got {getattr(self, name)}")
        for name in ("close_share", "chance_share", "held_out", "holdout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"env_args.{name} must be in [0, 1), got {getattr(self, name)}")
        if self.close_items <= 0:
            raise ConfigError(f"env_args.close_items must be above 0, got {self.close_items}")
        if self.quit is False:
            raise ConfigError("env_args.quit must be one of model, true, none, got false")
        if self.cool_down < 0 or self.belief < 0 or self.random_dims < 0 or self.rating_noise < 0:
            raise ConfigError(
                "env_args: cool_down, belief, random_dims and rating_noise must not be negative"
            )
        if self.force_length > self.max_turn:
            raise ConfigError("env_args.force_length must not be above env_args.max_turn")


@worlds.register("recsys/users", config=UsersConfig, evaluations=EVALUATIONS)
def make(cfg: UsersConfig, *, rows: int, purpose: str) -> Users:
    """Users who are shown items one after another until they have had enough."""
    data, model, known = prepare(cfg)
    rules = Rules(
        max_turn=cfg.max_turn,
        limit=cfg.force_length if purpose == "NX_10" else cfg.max_turn,
        window=cfg.num_leave_compute,
        quit_window=cfg.quit_rule,
        block=cfg.cool_down,
        low=data.low,
        high=data.high,
    )
    if purpose in ("train", "held_out"):
        return _simulated(cfg, rows, purpose, data, model, known, rules)
    if purpose not in EVALUATIONS:
        raise UserError(f"recsys/users knows train and {', '.join(EVALUATIONS)}, not '{purpose}'")
    rule = Never() if purpose == "NX_10" else _true_rule(cfg, data)
    rules = rules if purpose == "FB" else replace(rules, block=cfg.max_turn)
    return Users(rows, known, Feelings((data.truth,), rule, 1), rules)


def _simulated(
    cfg: UsersConfig, rows: int, purpose: str, data: Dataset, model: UserModel, known: Catalogue, rules: Rules
) -> Users:
    """Users of the user model; `held_out` ones are never trained on."""
    cut = len(model.worlds) - max(1, round(cfg.held_out * len(model.worlds))) if len(model.worlds) > 1 else 1
    tables = model.worlds[:cut] if purpose == "train" else model.worlds[cut:] or model.worlds
    if purpose == "train" and not cfg.posterior:
        tables = (model.mean,)
    rule, many = _simulated_rule(cfg, data, model, len(tables))
    rules = replace(rules, rating_noise=cfg.rating_noise)
    if purpose == "train":
        rules = replace(rules, centred=cfg.centred, quit_penalty=cfg.quit_penalty)
        rules = replace(rules, scale=float(data.train.values.std()) if cfg.rew_norm else 1.0)
    penalties = _penalties(cfg.penalty, data, model, known) if purpose == "train" else None
    return Users(rows, known, Feelings(tables, rule, many), rules, penalties)


def _simulated_rule(cfg: UsersConfig, data: Dataset, model: UserModel, worlds: int) -> tuple[QuitRule, int]:
    if cfg.quit == "none":
        return Never(), 1
    if cfg.quit in (True, "true") or cfg.quit_family == "category":
        return _true_rule(cfg, data), 1
    # By the expectation, not by the drawn tables: in these, items of few ratings are far from everything by noise.
    # How many items one bores with does not grow with the catalogue: above close_items both shares fall alike.
    crowded = max(1.0, cfg.close_share * data.items / cfg.close_items)
    known = close_by_share(model.mean.item_vectors(), cfg.close_share / crowded, worlds)
    return CloseByChance(known, cfg.chance_share / crowded), worlds


def _true_rule(cfg: UsersConfig, data: Dataset) -> QuitRule:
    if cfg.quit_family == "distance":
        return close_by_distance(data.truth, cfg.leave_threshold)
    if data.categories is None:
        raise ConfigError(f"env_args.quit_family=category needs item categories; '{data.name}' has none")
    return CategoryCount(data.categories, cfg.leave_threshold)


def _penalties(cfg: PenaltyConfig, data: Dataset, model: UserModel, known: Catalogue) -> Penalties | None:
    if not (cfg.uncertainty or cfg.entropy or cfg.exposure):
        return None
    after = entropy_of_next(data.train, data.items) if cfg.entropy else None
    return Penalties(
        cfg.uncertainty, cfg.entropy, cfg.exposure, cfg.exposure_tau, model.spread, after, known.item_vectors
    )


# ---- data and user model, shared by all worlds of a process ----


def prepare(cfg: UsersConfig) -> tuple[Dataset, UserModel, Catalogue]:
    """The data, its fitted user model (fitted now where it is missing), and what the policy may know."""
    data = dataset(cfg.data, cfg.path, cfg.synthetic, cfg.holdout)
    model = fitted(data, cfg.model, cfg.user_model)
    return data, model, _catalogue(model_key(data, cfg), cfg)


@lru_cache(maxsize=4)
def _catalogue(key: str, cfg: UsersConfig) -> Catalogue:
    data = dataset(cfg.data, cfg.path, cfg.synthetic, cfg.holdout)
    model = fitted(data, cfg.model, cfg.user_model)
    sizes = {"taste": cfg.taste_dims, "random": cfg.random_dims, "rank": cfg.rank, "belief": cfg.belief}
    return catalogues.build(model, **sizes)


@lru_cache(maxsize=4)
def dataset(kind: str, path: str | None, made_up: SyntheticConfig, holdout: float) -> Dataset:
    """The data set; where it has no true users, its log is split and completed to make some."""
    if kind == "synthetic":
        return synthetic(made_up)
    data = load(kind, Path(path) if path else data_root() / kind)
    if data.report is not None and data.report.total:
        log.warning("%s", data.report.text())
    return data if data.truth is not None else _with_completed_truth(data, holdout)


def data_root() -> Path:
    """Where data sets are looked for when no path is given."""
    return Path(os.environ.get("TWOFOLD_DATA", "data"))


def _with_completed_truth(data: Dataset, holdout: float) -> Dataset:
    """True users completed from all ratings; the user model sees only a part of them."""
    if data.test is not None:
        known = (
            np.concatenate([data.train.users, data.test.users]),
            np.concatenate([data.train.items, data.test.items]),
        )
        values = np.concatenate([data.train.values, data.test.values])
        whole = Ratings(*known, values, None, data.train.user_names, data.train.item_names)
        return replace(data, truth=complete(whole, data.low, data.high))
    truth = complete(data.train, data.low, data.high)
    train, test = data.train.split(holdout, np.random.default_rng(0))
    return replace(data, train=train, test=test, truth=truth)


_FITTED: dict[str, UserModel] = {}


def fitted(data: Dataset, cfg: UserModelConfig, folder: str | None) -> UserModel:
    """The user model from its run directory, or fitted now and put there."""
    place = Path(folder) if folder else model_folder(data, cfg)
    key = str(place.resolve())
    if key not in _FITTED:
        if folder and not (place / "user_model.json").exists():
            raise UserError(f"{place} holds no user model: make it with `twofold fit --run {place}`")
        if not (place / "user_model.json").exists():
            log.info("fitting the user model of '%s' (kept in %s)", data.name, place)
            user_models.save(user_models.fit(data, cfg), place)
        _FITTED[key] = user_models.load(place)
    return _FITTED[key]


def model_folder(data: Dataset, cfg: UserModelConfig) -> Path:
    """Where a model of these ratings and settings is kept."""
    return Path(os.environ.get("TWOFOLD_RUNS", "runs")) / "user_models" / f"{data.name}-{_digest(data, cfg)}"


def model_key(data: Dataset, cfg: UsersConfig) -> str:
    return f"{cfg.user_model}:{_digest(data, cfg.model)}"


def _digest(data: Dataset, cfg: UserModelConfig) -> str:
    kind = user_models.kind_for(data, cfg)
    settings = getattr(cfg, kind)
    text = json.dumps([kind, cfg.fit_seed, dataclasses.asdict(settings)], sort_keys=True)
    content = b"".join(
        np.ascontiguousarray(a).tobytes() for a in (data.train.users, data.train.items, data.train.values)
    )
    return hashlib.blake2b(text.encode() + content, digest_size=6).hexdigest()
