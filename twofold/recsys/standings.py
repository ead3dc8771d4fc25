"""Policies side by side: on what users really did, and in simulated episodes; the answer comes first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from twofold.assemble import fits
from twofold.base.progress import task, tracked
from twofold.recsys.baselines import baselines
from twofold.recsys.completed import JudgeErrors, judge_errors
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array, Dataset
from twofold.recsys.judge import Verdict, difference, errors, judge, of_policy, of_scores
from twofold.recsys.metrics import Chooses, measure, over_seeds, play
from twofold.recsys.peers import peers
from twofold.recsys.prepare import Prepared, Source, dataset, prepare
from twofold.recsys.ranking import item_means
from twofold.recsys.reach import reach_of
from twofold.recsys.recommend import Recommender, parts_of
from twofold.recsys.streamed import PLANNER, stream_world, streamed
from twofold.recsys.users import Users
from twofold.recsys.worlds import assumed_close, make
from twofold.settings.config import own_settings
from twofold.show import style
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy, load_policy
from twofold.store.provenance import provenance

MODES = ("FB", "NX_0", "NX_10")
COLUMNS = (
    "return",
    "length",
    "reward_per_turn",
    "coverage",
    "diversity",
    "novelty",
    "dominant_categories",
)
STREAM = ("return", "length", "first tenth", "second half")
REAL = ("recall@10", "ndcg@10", "coverage", "novelty", "rmse", "calibration")
Rows = dict[str, dict[str, dict[str, float]]]  # policy -> metric -> mean, half
Table = dict[str, Rows]  # mode -> rows


@dataclass
class Standings:
    """Everything that is said of some runs and of those that need no run."""

    runs: tuple[str, ...]  # the kinds of runs
    real: Rows = field(default_factory=dict)  # on hidden ratings; empty where nothing is hidden
    simulated: Table = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    reached: dict[str, float] = field(
        default_factory=dict
    )  # share of the catalogue that each kind can choose
    stream: Rows = field(default_factory=dict)  # users one after another, with a memory that they share
    judge: JudgeErrors | None = None  # of the users who were completed from the log


def standings(cfg: UsersConfig, runs: list[Path], seeds: int) -> Standings:
    """Every baseline, every peer and every run (seeds of one kind together)."""
    with task("preparing the users"):
        prepared = prepare(cfg)
    loaded = [(kind_of(run), load_policy(run)) for run in runs]
    found = Standings(tuple(dict.fromkeys(kind for kind, _ in loaded)))
    with task("judging by what users did"):
        _judge_by_log(prepared, loaded, found)
        _judge_the_judge(cfg, prepared, found)
    in_stream, alone = (
        [(kind, run) for kind, run in loaded if _settings(run).stream is shared] for shared in (True, False)
    )
    for mode in MODES:
        _play_mode(replace(cfg, stream=False), prepared, mode, alone, seeds, found)
    if in_stream or cfg.stream:
        _serve_in_stream(cfg, prepared, in_stream, seeds, found)
    found.reached = {kind: reach_of(parts_of(policy)[1]).share for kind, policy in loaded}
    return found


# ---- what really happened ----


def _judge_by_log(prepared: Prepared, loaded: list[tuple[str, LoadedPolicy]], found: Standings) -> None:
    """The real table, and how each kind of run stands beside the best of the others by recall."""
    data, model, _ = prepared
    if data.test is None or not len(data.test):
        return
    verdicts: dict[str, list[Verdict]] = {
        name: [judge(of_scores(scores, data.train), data)] for name, scores in peers(data.train).items()
    }
    expected = errors(model.mean, data)
    greedy = judge(of_scores(lambda users: model.mean.rows(users), data.train), data)
    verdicts["greedy user model"] = [greedy | expected]
    verdicts["item means"] = [errors(item_means(data), data)]
    for kind, policy in loaded:
        lists = of_policy(Recommender(policy), data.train)
        verdicts.setdefault(kind, []).append(judge(lists, data) | expected)
    found.real = {name: _over_runs(several) for name, several in verdicts.items()}
    others = {name: several[0] for name, several in verdicts.items() if name not in found.runs}
    best = max((n for n in others if "recall@10" in others[n]), key=lambda n: others[n]["recall@10"].mean)
    for kind in found.runs:
        own, peer = (
            np.mean([v["recall@10"].values for v in verdicts[name]], axis=0) for name in (kind, best)
        )
        found.answers.append(f"on what users really did (recall@10): {said(kind, best, own, peer, 3)}")


def _judge_the_judge(cfg: UsersConfig, prepared: Prepared, found: Standings) -> None:
    """Whether those who act in simulated episodes know tastes better than the model that trains with them."""
    data, model, _ = prepared
    if dataset(Source.of(cfg)).truth is None and data.test is not None and len(data.test) > 1:
        found.judge = judge_errors(data, cfg.model, model.mean)


def _over_runs(several: list[Verdict]) -> dict[str, dict[str, float]]:
    """Means over runs of one kind; the interval is that over users."""
    return {
        name: {"mean": float(np.mean([v[name].mean for v in several])), "half": several[0][name].half}
        for name in several[0]
    }


def said(kind: str, other: str, own: Array, peer: Array, digits: int) -> str:
    """A difference between two policies over the same users, in words."""
    middle, half = difference(own, peer)
    low, high = middle - half, middle + half
    mean, theirs = (f"{values.mean():.{digits}f}" for values in (own, peer))
    if low <= 0 <= high:
        return (
            f"{kind} {mean} is level with the best other, {other} {theirs} (difference {middle:+.{digits}f})"
        )
    word = "above" if middle > 0 else "below"
    small, large = sorted((abs(low), abs(high)))
    return (
        f"{kind} {mean} is {word} the best other, {other} {theirs}, by {abs(middle):.{digits}f} "
        f"[{small:.{digits}f}, {large:.{digits}f}]"
    )


# ---- simulated episodes ----


def _play_mode(
    cfg: UsersConfig,
    prepared: Prepared,
    mode: str,
    loaded: list[tuple[str, LoadedPolicy]],
    seeds: int,
    found: Standings,
) -> None:
    """One mode: everyone plays the same users; how each kind of run stands beside the best that sees no truth."""
    data = prepared.data
    users = list(range(min(data.users, 2000)))
    world = make(cfg, rows=len(users), purpose=mode)
    rows: dict[str, list[dict[str, float]]] = {}
    returns: dict[str, list[Array]] = {}
    close = assumed_close(cfg, prepared)
    players = [
        *_baselines(world, data, seeds, close),
        *(_player(cfg, mode, len(users), *run) for run in loaded),
    ]
    for name, own, policy in tracked(players, f"playing {mode}", len(players)):
        episodes = play(own, policy, users)
        rows.setdefault(name, []).append(measured(episodes, prepared))
        returns.setdefault(name, []).append(episodes["ratings"].sum(axis=1))
    found.simulated[mode] = {name: over_seeds(results) for name, results in rows.items()}
    means = {name: np.mean(several, axis=0) for name, several in returns.items()}
    fair = [name for name in means if "*" not in name and name not in found.runs]
    best = max(fair, key=lambda name: float(means[name].mean()))
    found.answers += [
        f"in simulated episodes ({mode}): {said(kind, best, means[kind], means[best], 1)}"
        for kind in found.runs
        if kind in means
    ]
    if mode == "FB":
        found.warnings += _quits(found.simulated[mode], cfg)


def _baselines(
    world: Users, data: Dataset, seeds: int, close: Array | None
) -> Iterator[tuple[str, Users, Chooses]]:
    """All that need no training, with a world; those that draw something over some seeds, the others once."""
    for seed in range(seeds):
        for name, policy in baselines(world, data, np.random.default_rng(seed), close).items():
            if seed and not any(word in name for word in ("random", "epsilon")):
                continue
            yield re.sub(r" \(\d\)$", "", name), world, policy


def _player(
    cfg: UsersConfig, mode: str, rows: int, kind: str, run: LoadedPolicy
) -> tuple[str, Users, Chooses]:
    """A trained policy in the same world, which also tells it what users take if it was trained with that."""
    own = _settings(run)
    told = replace(
        cfg, reward=own.reward, take_by=own.take_by, take_list=own.take_list, take_ridge=own.take_ridge
    )
    world = make(told, rows=rows, purpose=mode)
    fits(run, world)
    return kind, world, run.learner.policy(explore=False, rows=rows, rng=np.random.default_rng(0))


def _settings(run: LoadedPolicy) -> UsersConfig:
    return own_settings(UsersConfig, run.config.env_args)


def _serve_in_stream(
    cfg: UsersConfig, prepared: Prepared, runs: list[tuple[str, LoadedPolicy]], seeds: int, found: Standings
) -> None:
    """The table of users who come one after another, and how runs stand beside the planner with the same memory."""
    found.stream = streamed(stream_world(cfg), prepared.data, runs, seeds)
    plan = found.stream[PLANNER]["return"]
    for kind in dict.fromkeys(kind for kind, _ in runs):
        own = found.stream[kind]["return"]
        found.answers.append(
            f"users one after another (FB_stream, orders: {seeds}): {kind} {own['mean']:.1f}, {PLANNER} "
            f"{plan['mean']:.1f}, popularity {found.stream['popularity']['return']['mean']:.1f}"
        )


def measured(episodes: dict[str, Array], prepared: Prepared) -> dict[str, float]:
    data = prepared.data
    liked = data.low + 0.75 * (data.high - data.low)
    return measure(episodes, data, prepared.catalogue.item_vectors, liked)


def _quits(rows: Rows, cfg: UsersConfig) -> list[str]:
    """Simulated users who never or always quit tell nothing about a policy's length."""
    lengths = [metrics["length"]["mean"] for name, metrics in rows.items() if "*" not in name]
    if min(lengths) >= cfg.max_turn - 0.05:
        return ["simulated users never quit: all episodes are as long as they can be (env_args.leave_share)"]
    if max(lengths) <= 2.5:
        return ["simulated users quit at once: no episode goes on for three turns (env_args.leave_share)"]
    return []


def kind_of(run: Path) -> str:
    """The name of a run without its seed and date."""
    return re.sub(r"[_-]?seed[_-]?\d+.*$", "", run.name) or run.name


# ---- showing ----


def text(found: Standings) -> str:
    """Answers first; then the tables, best first, runs marked by >."""
    parts = (
        ["\n".join([*found.answers, *(f"warning: {one}" for one in found.warnings)])] if found.answers else []
    )
    if found.real:
        title = "### What users really did: ratings hidden from everyone in this table"
        parts.append(f"{title}\n\n{aligned(found.real, REAL, found.runs)}")
    if found.judge is not None:
        parts.append(found.judge.text())
    for mode, rows in found.simulated.items():
        title = f"### Simulated episodes, {mode} (a star looks at the truth)"
        parts.append(f"{title}\n\n{aligned(rows, COLUMNS, found.runs)}")
    if found.stream:
        title = "### Simulated users one after another, FB_stream: what was seen of quits is shared by all"
        parts.append(f"{title}\n\n{aligned(found.stream, STREAM, found.runs)}")
    if found.reached:
        lines = [f"{kind}: {100 * share:.1f} % of the catalogue" for kind, share in found.reached.items()]
        parts.append("### What the actors can choose at all\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def aligned(rows: Rows, columns: tuple[str, ...], runs: tuple[str, ...]) -> str:
    """A Markdown table whose columns line up, sorted by its first column, runs marked."""
    used = [column for column in columns if any(column in metrics for metrics in rows.values())]
    order = sorted(rows, key=lambda name: -rows[name].get(used[0], {"mean": -np.inf})["mean"])
    lines = [["policy", *used]]
    for name in order:
        cells = [_cell(column, rows[name].get(column)) for column in used]
        lines.append([f"> {name}" if name in runs else name, *cells])
    widths = [max(len(line[place]) for line in lines) for place in range(len(used) + 1)]
    padded = [
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])


def _cell(column: str, value: dict[str, float] | None) -> str:
    if value is None:
        return ""
    digits = 3 if column in REAL else 2
    half = f" ± {value['half']:.{digits}f}" if value["half"] > 1e-9 else ""
    return f"{value['mean']:.{digits}f}{half}"


def write(found: Standings, out: Path) -> None:
    """OUT.md and OUT.json, with where the numbers come from."""
    out.parent.mkdir(parents=True, exist_ok=True)
    record = {"provenance": provenance("standings"), "answers": found.answers, "warnings": found.warnings}
    record |= {"real": found.real, "table": found.simulated, "reachable": found.reached}
    record |= {"stream": found.stream} if found.stream else {}
    record |= {"judge": asdict(found.judge)} if found.judge else {}
    files.replace_bytes(out.with_suffix(".md"), (text(found) + "\n").encode())
    files.replace_bytes(out.with_suffix(".json"), files.to_json(record))


def draw(found: Table, path: Path) -> None:
    """Bars of the mean return with intervals, one panel per mode."""
    figure, panels = style.new_figure(6 * len(found), 6, (1, len(found)))
    for axes, (mode, rows) in zip(panels[0], found.items(), strict=True):
        names = sorted(rows, key=lambda name: rows[name]["return"]["mean"])
        means = [rows[name]["return"]["mean"] for name in names]
        halves = [rows[name]["return"]["half"] for name in names]
        colours = [style.GRID if "*" in name else style.colour(0) for name in names]
        axes.barh([style.literal(n) for n in names], means, xerr=halves, color=colours, ecolor=style.MUTED)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("mean cumulative rating")
        style.title(axes, mode, "grey: looks at the truth")
    style.write_figure(figure, path)
