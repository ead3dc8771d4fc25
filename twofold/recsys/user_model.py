"""The learned users: expected ratings, and worlds drawn from what the log leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base.errors import CheckpointError, ConfigError
from twofold.recsys.data import Array, Dataset
from twofold.recsys.factorised import FactorisedConfig, fit_factorised, tables
from twofold.recsys.gaussian import GaussianConfig, fit_gaussian
from twofold.recsys.truth import Factors, Matrix
from twofold.store import files

FORMAT = 1
DENSE_CELLS = 20_000_000  # tables of more cells are kept as factors


@dataclass(frozen=True)
class DeepFMConfig:
    """Settings of the ensemble of factorisation-machine networks."""

    n_models: int = 5
    feature_dim: int = field(default=8, metadata={"aliases": ("entity_dim",)})  # width of every embedding
    dnn: tuple[int, ...] = (128, 128)  # hidden layers of the mean; empty: a plain factorisation machine
    dnn_var: tuple[int, ...] = ()  # hidden layers of the variance
    loss: Literal["point", "pointneg", "pair", "pp"] = "point"  # pp: point and pair together
    neg_k: int = field(default=5, metadata={"aliases": ("neg_K",)})  # unrated items drawn for each rating
    bpr_weight: float = 0.5  # share of the pair loss in `pp`
    epoch: int = 5
    batch: int = 256
    lr: float = 0.001
    l2_reg: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("n_models", "feature_dim", "epoch", "batch", "lr"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"env_args.model.deepfm.{name} must be above 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class UserModelConfig:
    """How users are learned from the log."""

    # auto: the Gaussian process for short logs, else the factorisation, else (tables too large) deepfm
    kind: Literal["auto", "gaussian", "factorised", "deepfm"] = "auto"
    fit_seed: int = 0
    gaussian: GaussianConfig = field(default_factory=GaussianConfig)
    factorised: FactorisedConfig = field(default_factory=FactorisedConfig)
    deepfm: DeepFMConfig = field(default_factory=DeepFMConfig)


@dataclass(frozen=True)
class UserModel:
    """What the log says about the users."""

    kind: str
    mean: Matrix | Factors  # expected rating of every pair
    worlds: tuple[Matrix | Factors, ...]  # draws from what the ratings may be
    spread: Matrix | None  # standard deviation of the expectation (None where only factors are kept)
    noise: float  # standard deviation of one logged rating around it
    report: dict[str, Any] = field(default_factory=dict)  # errors and ranking metrics


def fit(data: Dataset, cfg: UserModelConfig) -> UserModel:
    """Learn the users of a data set from its training log alone."""
    from twofold.recsys.ranking import model_report

    kind = kind_for(data, cfg)
    rng = np.random.default_rng(cfg.fit_seed)
    if kind == "gaussian":
        model = _gaussian(data, cfg.gaussian, rng)
    elif kind == "factorised":
        model = _factorised(data, cfg.factorised, rng)
    else:
        from twofold.recsys.deepfm import fit_deepfm

        model = fit_deepfm(data, cfg.deepfm, rng)
    model.report.update(model_report(model, data))
    return model


def kind_for(data: Dataset, cfg: UserModelConfig) -> str:
    """The kind of model that `auto` means for this log."""
    if cfg.kind != "auto":
        return cfg.kind
    if len(data.train) <= cfg.gaussian.most_ratings:
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


def save(model: UserModel, folder: Path) -> None:
    """Put the model into a run directory, pickle-free and whole."""
    arrays: dict[str, Array] = {}
    shapes = {"mean": _pack(model.mean, "mean", arrays)}
    for index, world in enumerate(model.worlds):
        shapes[f"world{index}"] = _pack(world, f"world{index}", arrays)
    if model.spread is not None:
        _pack(model.spread, "spread", arrays)
    content = encode(arrays)
    about = {
        "format": FORMAT,
        "kind": model.kind,
        "noise": model.noise,
        "report": model.report,
        "tables": shapes,
        "blake2b": files.checksum(content),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files.replace_bytes(folder / "user_model.safetensors", content)
    files.replace_bytes(folder / "user_model.json", files.to_json(about))


def load(folder: Path) -> UserModel:
    """The model of a run directory, verified."""
    about = files.read_json(folder / "user_model.json")
    content = files.read_regular(folder / "user_model.safetensors")
    if about.get("format") != FORMAT or files.checksum(content) != about.get("blake2b"):
        raise CheckpointError(
            f"{folder} holds a user model that is damaged or of another format: fit it again"
        )
    arrays, tables = decode(content), about["tables"]
    worlds = tuple(_unpack(tables[f"world{i}"], f"world{i}", arrays) for i in range(len(tables) - 1))
    spread = Matrix(arrays["spread"]) if "spread" in arrays else None
    mean = _unpack(tables["mean"], "mean", arrays)
    return UserModel(about["kind"], mean, worlds, spread, float(about["noise"]), about["report"])


def _pack(table: Matrix | Factors, name: str, arrays: dict[str, Array]) -> dict[str, Any]:
    if isinstance(table, Matrix):
        arrays[name] = np.ascontiguousarray(table.values)
        return {"dense": True}
    arrays[f"{name}.user"], arrays[f"{name}.item"] = table.user, table.item
    return {"dense": False, "low": table.low, "high": table.high, "rounded": table.rounded}


def _unpack(about: dict[str, Any], name: str, arrays: dict[str, Array]) -> Matrix | Factors:
    if about["dense"]:
        return Matrix(arrays[name])
    user, item = arrays[f"{name}.user"], arrays[f"{name}.item"]
    return Factors(user, item, about["low"], about["high"], about["rounded"])
