"""The learned users: expected ratings, and worlds drawn from what the log leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from twofold.base.errors import CheckpointError
from twofold.base.finite import first_bad
from twofold.base.setting import setting, settings
from twofold.base.values import Json, inside, number, table, text
from twofold.recsys.data import Array, Dataset
from twofold.recsys.factorised import FactorisedConfig, fit_factorised, tables
from twofold.recsys.gaussian import GaussianConfig, fit_gaussian
from twofold.recsys.ranking import Report, model_report
from twofold.recsys.truth import Factors, Matrix
from twofold.store import files
from twofold.store.policy_file import FORMAT, seal, unseal

FILE = "user_model.safetensors"
DENSE_CELLS = 20_000_000  # tables of more cells are kept as factors
Fitted = Literal["gaussian", "factorised", "deepfm"]


@settings
class DeepFMConfig:
    """Settings of the ensemble of factorisation-machine networks."""

    n_models: int = setting("networks, each on its own resample of the log", default=5, gt=0)
    feature_dim: int = setting("width of every embedding", default=8, gt=0, aliases=("entity_dim",))
    dnn: tuple[int, ...] = setting(
        "hidden layers of the mean; empty: a plain factorisation machine", default=(128, 128)
    )
    dnn_var: tuple[int, ...] = setting("hidden layers of the variance", default=())
    loss: Literal["point", "pointneg", "pair", "pp"] = setting(
        "what is fitted: ratings, with zeros for unrated items, rated above unrated, ratings and pairs",
        default="point",
    )
    neg_k: int = setting("unrated items drawn for each rating", default=5, ge=1, aliases=("neg_K",))
    bpr_weight: float = setting("share of the pair loss in `pp`", default=0.5, ge=0, le=1)
    epoch: int = setting("epochs: passes over the log", default=5, gt=0)
    batch: int = setting("ratings of one gradient step", default=256, gt=0)
    lr: float = setting("learning rate", default=0.001, gt=0)
    l2_reg: float = setting("weight decay", default=1e-5, ge=0)


@settings
class UserModelConfig:
    """How users are learned from the log."""

    kind: Literal["auto", "gaussian", "factorised", "deepfm"] = setting(
        "auto: the Gaussian process for short logs with features, else factors, else (tables too large) deepfm",
        default="auto",
    )
    fit_seed: int = setting("of what is drawn while fitting", default=0, ge=0)
    gaussian: GaussianConfig = setting("the exact Gaussian process", default=GaussianConfig())
    factorised: FactorisedConfig = setting("the Bayesian factorisation", default=FactorisedConfig())
    deepfm: DeepFMConfig = setting("the ensemble of networks", default=DeepFMConfig())

    def of(self, kind: Fitted) -> GaussianConfig | FactorisedConfig | DeepFMConfig:
        """The settings of one kind of model."""
        if kind == "gaussian":
            return self.gaussian
        return self.factorised if kind == "factorised" else self.deepfm


@dataclass(frozen=True)
class UserModel:
    """What the log says about the users."""

    kind: str
    mean: Matrix | Factors  # expected rating of every pair
    worlds: tuple[Matrix | Factors, ...]  # draws from what the ratings may be
    spread: Matrix | None  # standard deviation of the expectation (None where only factors are kept)
    noise: float  # standard deviation of one logged rating around it
    report: Report = field(default_factory=dict)  # errors and ranking metrics


def fit(data: Dataset, cfg: UserModelConfig) -> UserModel:
    """Learn the users of a data set from its training log alone."""
    kind = kind_for(data, cfg)
    rng = np.random.default_rng(cfg.fit_seed)
    if kind == "gaussian":
        model = _gaussian(data, cfg.gaussian, rng)
    elif kind == "factorised":
        model = _factorised(data, cfg.factorised, rng)
    else:
        from twofold.recsys.deepfm import fit_deepfm

        model = fit_deepfm(data, cfg.deepfm, rng)
    model.report.update(model_report(model.mean, data))
    return model


def kind_for(data: Dataset, cfg: UserModelConfig) -> Fitted:
    """The kind of model that `auto` means for this log."""
    if cfg.kind != "auto":
        return cfg.kind
    # Without features the process knows how users and items differ, but not that one likes what another dislikes.
    described = data.user_features is not None or data.item_features is not None
    if described and len(data.train) <= cfg.gaussian.most_ratings:
        return "gaussian"
    return "factorised" if data.users * data.items <= DENSE_CELLS else "deepfm"


def _gaussian(data: Dataset, cfg: GaussianConfig, rng: np.random.Generator) -> UserModel:
    found = fit_gaussian(data, cfg, rng)
    worlds = tuple(Matrix(sample.astype(np.float16)) for sample in found.samples)
    spread = found.samples.std(axis=0) if len(worlds) > 1 else np.zeros_like(found.mean)
    return UserModel("gaussian", Matrix(found.mean), worlds, Matrix(spread.astype(np.float32)), found.noise)


def _factorised(data: Dataset, cfg: FactorisedConfig, rng: np.random.Generator) -> UserModel:
    found = fit_factorised(data, cfg, rng)
    spread = found.samples.astype(np.float32).std(axis=0)
    return UserModel("factorised", Matrix(found.mean), tables(found), Matrix(spread), found.noise)


# ---- saving ----


def own_folder(folder: Path) -> Path:
    """The folder that a model goes into, made if absent; one that holds other files is the user's: refused."""
    return files.own_folder(folder, FILE)


def save(model: UserModel, folder: Path) -> None:
    """Put the model into a run directory, as a sealed file."""
    arrays: dict[str, Array] = {}
    shapes = {"mean": _pack(model.mean, "mean", arrays)}
    for index, world in enumerate(model.worlds):
        shapes[f"world{index}"] = _pack(world, f"world{index}", arrays)
    if model.spread is not None:
        _pack(model.spread, "spread", arrays)
    about = {"format": FORMAT, "user_model": model.kind, "noise": model.noise, "report": model.report}
    files.replace_bytes(own_folder(folder) / FILE, seal(arrays, about | {"tables": shapes}))


def load(folder: Path) -> UserModel:
    """The model of a run directory, verified."""
    arrays, about = unseal(folder / FILE)
    if "user_model" not in about:
        raise CheckpointError(f"{folder / FILE} does not hold a user model: fit it again with `twofold fit`")
    try:
        tables = table(about, "tables")
        worlds = tuple(_unpack(tables[f"world{i}"], f"world{i}", arrays) for i in range(len(tables) - 1))
        spread = Matrix(arrays["spread"]) if "spread" in arrays else None
        mean = _unpack(tables["mean"], "mean", arrays)
        shapes = {one.shape for one in (mean, *worlds, *([] if spread is None else [spread]))}
        report = {
            part: {name: number(value) for name, value in table(found).items()}
            for part, found in table(about, "report").items()
        }
        kind, noise = text(about, "user_model"), float(number(about, "noise"))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(f"{folder / FILE} is damaged ({error!r}): fit it again") from None
    if len(shapes) > 1 or len(mean.shape) != 2 or not math.isfinite(noise) or first_bad(**arrays):
        raise CheckpointError(
            f"{folder / FILE} is damaged: its tables do not fit each other, or are not finite"
        )
    return UserModel(kind, mean, worlds, spread, noise, report)


def _pack(table: Matrix | Factors, name: str, arrays: dict[str, Array]) -> dict[str, Json]:
    if isinstance(table, Matrix):
        arrays[name] = np.ascontiguousarray(table.values)
        return {"dense": True}
    arrays[f"{name}.user"], arrays[f"{name}.item"] = table.user, table.item
    return {"dense": False, "low": table.low, "high": table.high, "rounded": table.rounded}


def _unpack(about: Json, name: str, arrays: dict[str, Array]) -> Matrix | Factors:
    if inside(about, "dense"):
        return Matrix(arrays[name])
    user, item = arrays[f"{name}.user"], arrays[f"{name}.item"]
    low, high = number(about, "low"), number(about, "high")
    return Factors(user, item, low, high, bool(inside(about, "rounded")))
