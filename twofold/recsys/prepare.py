"""From settings to data, user model and catalogue: what the worlds of a run share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from twofold.base.errors import UserError
from twofold.base.regular import files_below, is_folder, is_there, open_regular, status_of
from twofold.recsys import catalogue as catalogues
from twofold.recsys import user_model as user_models
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.completed import fit_judge, judge_config, whole
from twofold.recsys.config import Kind, UsersConfig
from twofold.recsys.data import Array, Dataset
from twofold.recsys.labels import Labels
from twofold.recsys.loaders import load
from twofold.recsys.opening import explained
from twofold.recsys.reading import ColumnsConfig, read_ratings
from twofold.recsys.synthetic import SyntheticConfig, synthetic
from twofold.recsys.taking import TakeModel, Taking, kept_taking
from twofold.recsys.truth import Matrix
from twofold.recsys.user_model import UserModel, UserModelConfig

log = logging.getLogger("twofold")
Stamp = tuple[tuple[str, int, int], ...]  # name, size and time of change of files


class Prepared(NamedTuple):
    """What the worlds of a run are made of."""

    data: Dataset
    model: UserModel
    catalogue: Catalogue


@dataclass(frozen=True)
class Source:
    """Where ratings come from, and what the files there looked like."""

    kind: Kind
    path: Path
    made_up: SyntheticConfig
    split: Literal["last", "time", "random"]
    holdout: float
    columns: ColumnsConfig
    truth: Path | None
    stamp: Stamp

    @classmethod
    def of(cls, cfg: UsersConfig) -> Source:
        path = Path(cfg.path) if cfg.path else data_root() / cfg.data
        truth = Path(cfg.truth) if cfg.truth else None
        stamp = stamp_of(path) + (stamp_of(truth) if truth else ())
        return cls(cfg.data, path, cfg.synthetic, cfg.split, cfg.holdout, cfg.columns, truth, stamp)


def stamp_of(path: Path) -> Stamp:
    """Changes when a file there does; empty where there is none."""
    found = files_below(path) if is_folder(path) else [path]
    looks = [(str(file), status_of(file)) for file in found]
    return tuple((name, look.st_size, look.st_mtime_ns) for name, look in looks if look is not None)


def data_root() -> Path:
    """Where data sets are looked for when no path is given."""
    return Path(os.environ.get("TWOFOLD_DATA", "data"))


def prepare(cfg: UsersConfig) -> Prepared:
    """The data, its user model (fitted now and kept, where it is missing), and what the policy may know."""
    source = Source.of(cfg)
    data = dataset(source)
    folder = Path(cfg.user_model) if cfg.user_model else model_folder(data, cfg.model)
    if cfg.user_model is None and not is_there(folder / user_models.FILE):
        fit_into(folder, data, cfg.model)
    sizes = (cfg.taste_dims, cfg.random_dims, cfg.rank, cfg.belief)
    judge = None if data.truth is not None else judge_folder(data, cfg.model)
    if judge is not None:
        fit_judge(data, cfg.model, judge)
    prepared = _prepared(source, folder.resolve(), stamp_of(folder / user_models.FILE), sizes, judge)
    if cfg.reward == "rating":
        return prepared
    taking = _taking(source, cfg.take_by, cfg.take_list, cfg.take_ridge)
    return prepared._replace(catalogue=replace(prepared.catalogue, taking=taking))


# Worlds of one run share what they are made of: it takes seconds to read and hundreds of megabytes to hold.
@lru_cache(maxsize=2)
def _prepared(
    source: Source, folder: Path, stamp: Stamp, sizes: tuple[int, int, int, int], judge: Path | None
) -> Prepared:
    data = dataset(source)
    if judge is not None:
        data = replace(data, truth=user_models.load(judge).mean)
    if not stamp:
        raise UserError(f"{folder} holds no user model: make it with `twofold fit --run {folder}`")
    model = _read_model(folder, stamp)
    if model.mean.shape != (data.users, data.items):
        raise UserError(
            f"{folder} holds a user model of {model.mean.shape[0]} users and {model.mean.shape[1]} items, the data has "
            f"{data.users} and {data.items}: fit one with `twofold fit`"
        )
    taste, random, rank, belief = sizes
    known = catalogues.build(model, Labels.of(data), taste=taste, random=random, rank=rank, belief=belief)
    return Prepared(data, model, known)


@lru_cache(maxsize=2)
def _taking(source: Source, by: TakeModel, size: int, ridge: float) -> Taking:
    return kept_taking(dataset(source).train, by, size, ridge, models_folder())


@lru_cache(maxsize=2)
def _read_model(folder: Path, stamp: Stamp) -> UserModel:
    return user_models.load(folder)


@lru_cache(maxsize=4)
def dataset(source: Source) -> Dataset:
    """The data set, with its own true users or those given; a part of its log is hidden."""
    if source.kind == "synthetic":
        return synthetic(source.made_up)
    data = load(source.kind, source.path, source.columns)
    if data.report is not None and data.report.total:
        log.warning("%s", data.report.text())
    if source.truth is not None:
        data = replace(data, truth=read_truth(source.truth, data))
    elif data.truth is not None:
        return data
    return _with_hidden_part(data, source)


def _with_hidden_part(data: Dataset, source: Source) -> Dataset:
    """The data set with a part of its log kept from the user model, where it brings none."""
    if data.test is not None:
        return data
    if source.split == "last":
        train, test = data.train.without_last()
    elif source.split == "time":
        train, test = data.train.before(source.holdout)
    else:
        train, test = data.train.split(source.holdout, np.random.default_rng(0))
    return replace(data, train=train, test=test)


def read_truth(path: Path, data: Dataset) -> Matrix:
    """A user's own true ratings, of every pair."""
    wanted = (data.users, data.items)
    if path.suffix == ".npy":
        return Matrix(_matrix(path, wanted))
    log, *_ = read_ratings(path)
    rows, columns = (
        np.array([place.get(name, -1) for name in names])
        for names, place in (
            (log.user_names, {name: n for n, name in enumerate(data.train.user_names)}),
            (log.item_names, {name: n for n, name in enumerate(data.train.item_names)}),
        )
    )
    values = np.full((wanted[0] + 1, wanted[1] + 1), np.nan, np.float32)
    values[rows[log.users], columns[log.items]] = log.values
    if missing := int(np.isnan(values[:-1, :-1]).sum()):
        raise UserError(f"{path} lacks {missing} of the {wanted[0]} x {wanted[1]} pairs of the data")
    return Matrix(values[:-1, :-1])


def _matrix(path: Path, wanted: tuple[int, int]) -> Array:
    """Numbers of a .npy file of this shape; what it claims is looked at before anything is read."""
    with open_regular(path, 64 + 10_000 + 16 * wanted[0] * wanted[1], follow=True) as file, explained(path):
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read(file)
        if shape != wanted or dtype.kind not in "fiu":
            raise UserError(
                f"{path} must hold {wanted[0]} x {wanted[1]} finite ratings, it has {str(shape)[:80]} of {dtype}"
            )
        file.seek(0)
        values = np.lib.format.read_array(file, allow_pickle=False)
    if not np.isfinite(values).all():
        raise UserError(f"{path} must hold finite ratings, some are not")
    return np.asarray(values, np.float32)


def fit_into(folder: Path, data: Dataset, cfg: UserModelConfig) -> UserModel:
    """Fit a user model and keep it in `folder`; it says so, because it takes time and room on the disk."""
    log.info(
        "fitting the user model (%s) to %d ratings of '%s', kept in %s",
        user_models.kind_for(data, cfg),
        len(data.train),
        data.name,
        folder,
    )
    user_models.own_folder(folder)  # before minutes are spent on it
    model = user_models.fit(data, cfg)
    user_models.save(model, folder)
    _warn_of_a_better_kind(model, data, cfg)
    return model


def _warn_of_a_better_kind(model: UserModel, data: Dataset, cfg: UserModelConfig) -> None:
    """Features may miss what tastes are about: factors, fitted in seconds, tell; hidden ratings are only looked at."""
    if cfg.kind != "auto" or model.kind != "gaussian" or "test" not in model.report:
        return
    own = model.report["test"]["rmse"]
    factors = user_models.fit(data, replace(cfg, kind="factorised")).report["test"]["rmse"]
    if factors < 0.95 * own:
        log.warning(
            "the features say little about tastes: the user model misses hidden ratings by %.3f, one by factors alone "
            "by %.3f: better with env_args.model.kind=factorised",
            own,
            factors,
        )


def model_folder(data: Dataset, cfg: UserModelConfig, name: str = "") -> Path:
    """Where a model of these ratings and settings is kept."""
    return models_folder() / f"{data.name}{name}-{_digest(data, cfg)}"


def models_folder() -> Path:
    """Where all that is fitted to logs is kept."""
    return Path(os.environ.get("TWOFOLD_RUNS", "runs")) / "user_models"


def judge_folder(data: Dataset, cfg: UserModelConfig) -> Path:
    """Where the model of all ratings is kept that judges simulated episodes."""
    return model_folder(replace(data, train=whole(data)), judge_config(data, cfg), "-judge").resolve()


def _digest(data: Dataset, cfg: UserModelConfig) -> str:
    kind = user_models.kind_for(data, cfg)
    text = json.dumps([kind, cfg.fit_seed, dataclasses.asdict(cfg.of(kind))], sort_keys=True)
    content = b"".join(
        np.ascontiguousarray(a).tobytes() for a in (data.train.users, data.train.items, data.train.values)
    )
    return hashlib.blake2b(text.encode() + content, digest_size=6).hexdigest()
