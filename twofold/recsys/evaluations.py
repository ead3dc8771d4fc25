"""What standings are made of: evaluations that need nothing from each other, so that they can be made anywhere.

Each is a policy (or all that need no training, with one seed) before some users. Which users play together never
depends on where that happens, so figures are the same to the last digit in one process and in many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from twofold.assemble import fits
from twofold.base.progress import task
from twofold.recsys.baselines import baselines
from twofold.recsys.completed import judge_errors
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array
from twofold.recsys.judge import Judged, Verdict, errors, judge, of_policy, of_scores
from twofold.recsys.metrics import Chooses, play, play_stream
from twofold.recsys.peers import peers
from twofold.recsys.prepare import Prepared, Source, dataset, prepare
from twofold.recsys.ranking import item_means
from twofold.recsys.recommend import Recommender
from twofold.recsys.streamed import planners, player, served, stream_world
from twofold.recsys.users import Users
from twofold.recsys.worlds import assumed_close, make
from twofold.settings.config import own_settings
from twofold.store.policy_file import LoadedPolicy, load_policy

LOG, JUDGE, STREAMED = "log", "judge", "FB_stream"
MODES = ("FB", "NX_0", "NX_10")
_MOST_USERS = 2_000  # that play
_TOGETHER = 500  # users of one evaluation
Arrays = dict[str, Array]
Result = dict[str, Arrays]  # policy -> what it got; of episodes [draws of the policy, users, ...]


@dataclass(frozen=True)
class Evaluation:
    """One policy, or all that need no training, before some users."""

    mode: str
    run: int | None = None  # which of the runs; None: those that need no training
    seed: int = 0  # of the random baselines, or of the order in which users come
    piece: int = 0  # of the users

    @property
    def name(self) -> str:
        """Different for every one, and fit for a file."""
        who = "baselines" if self.run is None else f"run_{self.run}"
        return f"{self.mode}_{who}_{self.seed}_{self.piece}"


class Evaluator:
    """Users, runs and seeds; makes any of the evaluations that they ask for."""

    def __init__(self, cfg: UsersConfig, runs: Sequence[Path], seeds: int) -> None:
        self.cfg, self.seeds = cfg, seeds
        with task("preparing the users"):
            self.prepared: Prepared = prepare(cfg)
        self.loaded = [(kind_of(run), load_policy(run)) for run in runs]

    @cached_property
    def plan(self) -> tuple[Evaluation, ...]:
        """All evaluations, in the order of the tables."""
        return (*self._by_log(), *self._played(), *self._in_stream())

    def _by_log(self) -> Iterator[Evaluation]:
        test = self.prepared.data.test
        if test is None or not len(test):
            return
        yield Evaluation(LOG)
        yield from (Evaluation(LOG, run) for run in range(len(self.loaded)))
        if dataset(Source.of(self.cfg)).truth is None and len(test) > 1:
            yield Evaluation(JUDGE)

    def _played(self) -> Iterator[Evaluation]:
        pieces = range(-(-min(self.prepared.data.users, _MOST_USERS) // _TOGETHER))
        for mode in MODES:
            yield from (
                Evaluation(mode, None, seed, piece) for seed, piece in product(range(self.seeds), pieces)
            )
            yield from (Evaluation(mode, run, 0, piece) for run, piece in product(self._of(False), pieces))

    def _in_stream(self) -> Iterator[Evaluation]:
        if self._of(True) or self.cfg.stream:
            players = (None, *self._of(True))
            yield from (
                Evaluation(STREAMED, run, order) for run, order in product(players, range(self.seeds))
            )

    def _of(self, stream: bool) -> list[int]:
        """The runs of users who share a memory, or of those who do not."""
        return [number for number, (_, run) in enumerate(self.loaded) if settings_of(run).stream is stream]

    def made(self, one: Evaluation) -> Result:
        """One evaluation."""
        if one.mode == LOG:
            return self._log_of_others() if one.run is None else self._log_of_run(one.run)
        if one.mode == JUDGE:
            found = judge_errors(self.prepared.data, self.cfg.model, self.prepared.model.mean)
            return {JUDGE: {name: np.array(value) for name, value in vars(found).items()}}
        if one.mode == STREAMED:
            return self._served(one)
        return self._episodes(one)

    # ---- what really happened ----

    def _log_of_others(self) -> Result:
        data, model, _ = self.prepared
        found = {
            name: judge(of_scores(scores, data.train), data) for name, scores in peers(data.train).items()
        }
        greedy = judge(of_scores(lambda users: model.mean.rows(users), data.train), data)
        found["greedy user model"] = greedy | errors(model.mean, data)
        found["item means"] = errors(item_means(data), data)
        return {name: _packed(verdict) for name, verdict in found.items()}

    def _log_of_run(self, run: int) -> Result:
        data, model, _ = self.prepared
        kind, policy = self.loaded[run]
        found = judge(of_policy(Recommender(policy), data.train), data)
        return {kind: _packed(found | errors(model.mean, data))}

    # ---- simulated episodes ----

    def _episodes(self, one: Evaluation) -> Result:
        """Everyone plays the same users."""
        cfg = replace(self.cfg, stream=False)
        most = min(self.prepared.data.users, _MOST_USERS)
        users = list(range(one.piece * _TOGETHER, min((one.piece + 1) * _TOGETHER, most)))
        if one.run is not None:
            kind, run = self.loaded[one.run]
            world = _told(cfg, run, one.mode, len(users))
            return {kind: _played(world, (_acting(world, run),), users)}
        world = make(cfg, rows=len(users), purpose=one.mode)
        # A second piece of users is not shown what the first was; the first draws as one alone would.
        rng = np.random.default_rng((one.seed, one.piece) if one.piece else one.seed)
        players = baselines(world, self.prepared.data, rng, assumed_close(cfg, self.prepared))
        # Another seed is nothing new to who throws no dice.
        own = [player for player in players if one.seed == 0 or player.kind.drawn]
        return {player.kind.label: _played(world, player.policies, users) for player in own}

    def _served(self, one: Evaluation) -> Result:
        """Users one after another, with a memory that they share."""
        world = stream_world(self.cfg)
        order = np.random.default_rng(one.seed).permutation(world.users)
        players: dict[str, Chooses] = planners(world, self.prepared.data)
        if one.run is not None:
            kind, run = self.loaded[one.run]
            players = {kind: player(world, run)}
        found = {name: served(play_stream(world, policy, order)) for name, policy in players.items()}
        return {name: {key: np.array(value) for key, value in got.items()} for name, got in found.items()}


def _played(world: Users, policies: Sequence[Chooses], users: list[int]) -> Arrays:
    """The episodes of several draws of one policy [draws, users, ...]."""
    found = [play(world, policy, users) for policy in policies]
    return {key: np.stack([episodes[key] for episodes in found]) for key in found[0]}


def _told(cfg: UsersConfig, run: LoadedPolicy, mode: str, rows: int) -> Users:
    """The same world, which also tells a trained policy what users take if it was trained with that."""
    own = settings_of(run)
    told = replace(
        cfg, reward=own.reward, take_by=own.take_by, take_list=own.take_list, take_ridge=own.take_ridge
    )
    return make(told, rows=rows, purpose=mode)


def _acting(world: Users, run: LoadedPolicy) -> Chooses:
    fits(run, world)
    return run.learner.policy(explore=False, rows=world.num_envs, rng=np.random.default_rng(0))


def settings_of(run: LoadedPolicy) -> UsersConfig:
    return own_settings(UsersConfig, run.config.env_args)


def kind_of(run: Path) -> str:
    """The name of a run without its seed and date."""
    return re.sub(r"[_-]?seed[_-]?\d+.*$", "", run.name) or run.name


# ---- results put together ----

Results = dict[Evaluation, Result]


def _packed(verdict: Verdict) -> Arrays:
    parts = {name: (found.mean, found.half, found.values) for name, found in verdict.items()}
    keys = ("mean", "half", "values")
    return {
        f"{name}/{key}": np.asarray(part)
        for name, several in parts.items()
        for key, part in zip(keys, several, strict=True)
    }


def verdicts(results: Results) -> dict[str, list[Verdict]]:
    """By the log: one of those that need no training, one for each run of a kind."""
    found: dict[str, list[Verdict]] = {}
    for one, result in results.items():
        for name, arrays in result.items() if one.mode == LOG else ():
            found.setdefault(name, []).append(_verdict(arrays))
    return found


def _verdict(arrays: Arrays) -> Verdict:
    names = [key.removesuffix("/mean") for key in arrays if key.endswith("/mean")]
    return {
        name: Judged(float(arrays[f"{name}/mean"]), float(arrays[f"{name}/half"]), arrays[f"{name}/values"])
        for name in names
    }


def episodes_of(results: Results, mode: str) -> Iterator[tuple[str, Arrays]]:
    """All users' episodes of every policy, one after another for each draw, seed and run."""
    whole: dict[tuple[int | None, int], list[Result]] = {}
    for one, result in results.items():
        if one.mode == mode:
            whole.setdefault((one.run, one.seed), []).append(result)
    for pieces in whole.values():
        for name, first in pieces[0].items():
            joined = {key: np.concatenate([piece[name][key] for piece in pieces], axis=1) for key in first}
            for draw in range(len(joined["items"])):
                yield name, {key: several[draw] for key, several in joined.items()}


def streams_of(results: Results) -> dict[str, list[dict[str, float]]]:
    """What every policy got from users one after another, for each order and run."""
    found: dict[str, list[dict[str, float]]] = {}
    for one, result in results.items():
        for name, got in result.items() if one.mode == STREAMED else ():
            found.setdefault(name, []).append({key: float(value) for key, value in got.items()})
    return found
