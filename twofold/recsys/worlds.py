"""The registered world: how data, user model and rules become simulated or true users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twofold.base.errors import ConfigError, UserError
from twofold.base.foreign import AnySpace
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.config import PenaltyConfig, UsersConfig
from twofold.recsys.data import Array, Dataset
from twofold.recsys.penalties import Penalties, entropy_of_next
from twofold.recsys.prepare import Prepared, prepare
from twofold.recsys.quit import (
    CategoryCount,
    CloseByChance,
    CloseTable,
    Never,
    QuitRule,
    close_by_distance,
    close_by_share,
)
from twofold.recsys.stream import PairMemory, Stream
from twofold.recsys.truth import Factors, Matrix
from twofold.recsys.user_model import UserModel
from twofold.recsys.users import Feelings, Rules, Users
from twofold.settings.registry import worlds
from twofold.store.spaces import SizedBox

EVALUATIONS = ("held_out", "FB", "NX_0", "NX_10")
STREAM = ("held_out", "FB_stream")
_HELD_OUT = 1_000_000  # the first graph of close pairs that training never comes to


def _could_be(cfg: UsersConfig, action_space: AnySpace) -> bool:
    """Users and items are counted before data is read and a model is fitted."""
    if not isinstance(action_space, SizedBox):
        return False
    made_up = {"users": cfg.synthetic.users, "items": cfg.synthetic.items} if cfg.data == "synthetic" else {}
    return all(action_space.sizes.get(name) == size for name, size in made_up.items())


def evaluations(cfg: UsersConfig) -> tuple[str, ...]:
    """Users who share a memory are another task than users of whom nothing is known: never judged side by side."""
    return STREAM if cfg.stream else EVALUATIONS


@worlds.register("recsys/users", config=UsersConfig, evaluations=evaluations, could_be=_could_be)
def make(cfg: UsersConfig, *, rows: int, purpose: str) -> Users:
    """Users who are shown items one after another until they have had enough."""
    prepared = prepare(cfg)
    data, _, known = prepared
    rules = Rules(
        max_turn=cfg.max_turn,
        limit=cfg.force_length if purpose == "NX_10" else cfg.max_turn,
        window=cfg.num_leave_compute,
        quit_window=cfg.quit_rule,
        block=cfg.cool_down,
        stays=purpose == "NX_10",
        low=data.low,
        high=data.high,
    )
    if purpose in ("train", "held_out"):
        return _simulated(cfg, rows, purpose, prepared, rules)
    if purpose not in evaluations(cfg):
        raise UserError(f"these users know train and {', '.join(evaluations(cfg))}, not '{purpose}'")
    rule = Never() if purpose == "NX_10" else _true_rule(cfg, data)
    rules = rules if purpose.startswith("FB") else replace(rules, block=cfg.max_turn)
    return Users(
        rows, known, Feelings((_truth(data),), rule, 1), rules, stream=_stream(cfg, rows, purpose, known)
    )


def _stream(cfg: UsersConfig, rows: int, purpose: str, known: Catalogue) -> Stream | None:
    """The memory that the users of a world share; true users all live with the same close pairs."""
    if not cfg.stream:
        return None
    memory = PairMemory(len(known.item_vectors), cfg.close_share)
    block = 0 if purpose == "FB_stream" else cfg.stream_block
    return Stream(memory, rows, block, _HELD_OUT if purpose == "held_out" else 0)


def _truth(data: Dataset) -> Matrix | Factors:
    if data.truth is None:
        raise UserError(f"the data '{data.name}' has no true users to evaluate on")
    return data.truth


def _simulated(cfg: UsersConfig, rows: int, purpose: str, prepared: Prepared, rules: Rules) -> Users:
    """Users of the user model; `held_out` ones are never trained on."""
    data, model, known = prepared
    cut = len(model.worlds) - max(1, round(cfg.held_out * len(model.worlds))) if len(model.worlds) > 1 else 1
    tables = model.worlds[:cut] if purpose == "train" else model.worlds[cut:] or model.worlds
    if purpose == "train" and not cfg.posterior:
        tables = (model.mean,)
    rule, many = _simulated_rule(cfg, data, model, len(tables))
    if purpose == "held_out" and cfg.quit == "model" and not cfg.stream:
        # Not the pairs that training expects, which a log hardly tells: any, drawn for each episode. A policy that does
        # well with thousands of draws does so whatever pairs there are.
        rule, many = CloseByChance(Never(), cfg.close_share / _crowded(cfg, data)), 1
    rules = replace(rules, rating_noise=cfg.rating_noise, reward=cfg.reward, take_weight=cfg.take_weight)
    if purpose == "train":
        rules = replace(rules, centred=cfg.centred, quit_penalty=cfg.quit_penalty)
        rules = replace(rules, quit_by_rest=cfg.quit_by_rest)
        rules = replace(rules, scale=float(data.train.values.std()) if cfg.rew_norm else 1.0)
    penalties = _penalties(cfg.penalty, data, model, known) if purpose == "train" else None
    return Users(
        rows, known, Feelings(tables, rule, many), rules, penalties, _stream(cfg, rows, purpose, known)
    )


def _simulated_rule(cfg: UsersConfig, data: Dataset, model: UserModel, worlds: int) -> tuple[QuitRule, int]:
    if cfg.quit == "none":
        return Never(), 1
    if cfg.quit == "true":
        return _true_rule(cfg, data), 1
    if cfg.stream:
        # What the shared memory takes for granted: any pair may be close. By expected ratings close pairs could be
        # told apart, which true users do not allow, and a policy would learn to pay for that.
        return CloseByChance(Never(), cfg.close_share), 1
    # By the expectation, not by the drawn tables: in these, items of few ratings are far from everything by noise.
    crowded = _crowded(cfg, data)
    known = close_by_share(model.mean.item_vectors(), cfg.close_share / crowded, worlds)
    return CloseByChance(known, cfg.chance_share / crowded), worlds


def _crowded(cfg: UsersConfig, data: Dataset) -> float:
    """How many items one bores with does not grow with the catalogue: above close_items all shares fall by this."""
    return max(1.0, cfg.close_share * data.items / cfg.close_items)


def assumed_close(cfg: UsersConfig, prepared: Prepared) -> Array | None:
    """The chance that two items are close, as training with quit=model assumes it [items, items]; None: no table."""
    if cfg.quit != "model":
        return None
    rule, _ = _simulated_rule(cfg, prepared.data, prepared.model, len(prepared.model.worlds))
    if not isinstance(rule, CloseByChance) or not isinstance(rule.known, CloseTable):
        return None
    known = rule.known.close[:, :-1, :-1].mean(axis=0)
    return np.asarray(1.0 - (1.0 - known) * (1.0 - rule.share))


def _true_rule(cfg: UsersConfig, data: Dataset) -> QuitRule:
    if cfg.quit_family == "distance" and cfg.leave_share is not None:
        return close_by_share(_truth(data).item_vectors(), cfg.leave_share, 1)
    if cfg.quit_family == "distance":
        return close_by_distance(_truth(data), cfg.leave_threshold)
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
