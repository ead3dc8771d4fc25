"""Policies side by side: on what users really did, and in simulated episodes; the answer comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from twofold.base.progress import tracked
from twofold.recsys.baselines import PRIVILEGED
from twofold.recsys.completed import JudgeErrors
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array
from twofold.recsys.evaluations import (
    JUDGE,
    MODES,
    Evaluation,
    Evaluator,
    Results,
    episodes_of,
    streams_of,
    verdicts,
)
from twofold.recsys.judge import Verdict, difference
from twofold.recsys.metrics import measure, over_seeds
from twofold.recsys.prepare import Prepared
from twofold.recsys.reach import reach_of
from twofold.recsys.recommend import parts_of
from twofold.recsys.streamed import PLANNER
from twofold.show import style
from twofold.store import files
from twofold.store.provenance import provenance

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


Evaluate = Callable[[Evaluator], Results]


def in_this_process(evaluator: Evaluator) -> Results:
    """One evaluation after another."""
    plan = evaluator.plan
    return {one: evaluator.made(one) for one in tracked(plan, "evaluating", len(plan))}


def standings(
    cfg: UsersConfig, runs: list[Path], seeds: int, evaluate: Evaluate = in_this_process
) -> Standings:
    """Every baseline, every peer and every run (seeds of one kind together)."""
    evaluator = Evaluator(cfg, runs, seeds)
    results = evaluate(evaluator)
    found = Standings(tuple(dict.fromkeys(kind for kind, _ in evaluator.loaded)))
    _judge_by_log(results, found)
    for mode in MODES:
        _compare_in_mode(evaluator, results, mode, found)
    _compare_in_stream(evaluator, results, found)
    found.reached = {kind: reach_of(parts_of(policy)[1]).share for kind, policy in evaluator.loaded}
    return found


# ---- what really happened ----


def _judge_by_log(results: Results, found: Standings) -> None:
    """The real table, and how each kind of run stands beside the best of the others by recall."""
    judged = verdicts(results)
    found.real = {name: _over_runs(several) for name, several in judged.items()}
    others = {name: several[0] for name, several in judged.items() if name not in found.runs}
    ranked = [name for name in others if "recall@10" in others[name]]
    for kind in found.runs if ranked else ():
        best = max(ranked, key=lambda name: others[name]["recall@10"].mean)
        own, peer = (np.mean([v["recall@10"].values for v in judged[name]], axis=0) for name in (kind, best))
        found.answers.append(f"on what users really did (recall@10): {said(kind, best, own, peer, 3)}")
    if (missed := results.get(Evaluation(JUDGE))) is not None:
        of_judge, of_model, ratings = (missed[JUDGE][name] for name in ("judge", "model", "ratings"))
        found.judge = JudgeErrors(float(of_judge), float(of_model), int(ratings))


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


def _compare_in_mode(evaluator: Evaluator, results: Results, mode: str, found: Standings) -> None:
    """One mode: how each kind of run stands beside the best that sees no truth."""
    rows: dict[str, list[dict[str, float]]] = {}
    returns: dict[str, list[Array]] = {}
    for name, episodes in episodes_of(results, mode):
        rows.setdefault(name, []).append(measured(episodes, evaluator.prepared))
        returns.setdefault(name, []).append(episodes["ratings"].sum(axis=1))
    found.simulated[mode] = {name: over_seeds(several) for name, several in rows.items()}
    means = {name: np.mean(several, axis=0) for name, several in returns.items()}
    fair = [name for name in means if name not in PRIVILEGED and name not in found.runs]
    best = max(fair, key=lambda name: float(means[name].mean()))
    found.answers += [
        f"in simulated episodes ({mode}): {said(kind, best, means[kind], means[best], 1)}"
        for kind in found.runs
        if kind in means
    ]
    if mode == "FB":
        found.warnings += _quits(found.simulated[mode], evaluator.cfg)


def _compare_in_stream(evaluator: Evaluator, results: Results, found: Standings) -> None:
    """The table of users who come one after another, and how runs stand beside the planner with the same memory."""
    found.stream = {name: over_seeds(several) for name, several in streams_of(results).items()}
    for kind in found.runs:
        if kind in found.stream:
            own, plan, popular = (found.stream[n]["return"]["mean"] for n in (kind, PLANNER, "popularity"))
            found.answers.append(
                f"users one after another (FB_stream, orders: {evaluator.seeds}): {kind} {own:.1f}, {PLANNER} "
                f"{plan:.1f}, popularity {popular:.1f}"
            )


def measured(episodes: dict[str, Array], prepared: Prepared) -> dict[str, float]:
    data = prepared.data
    liked = data.low + 0.75 * (data.high - data.low)
    return measure(episodes, data, prepared.catalogue.item_vectors, liked)


def _quits(rows: Rows, cfg: UsersConfig) -> list[str]:
    """Simulated users who never or always quit tell nothing about a policy's length."""
    lengths = [metrics["length"]["mean"] for name, metrics in rows.items() if name not in PRIVILEGED]
    if min(lengths) >= cfg.max_turn - 0.05:
        return ["simulated users never quit: all episodes are as long as they can be (env_args.leave_share)"]
    if max(lengths) <= 2.5:
        return ["simulated users quit at once: no episode goes on for three turns (env_args.leave_share)"]
    return []


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
        colours = [style.GRID if name in PRIVILEGED else style.colour(0) for name in names]
        axes.barh([style.literal(n) for n in names], means, xerr=halves, color=colours, ecolor=style.MUTED)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("mean cumulative rating")
        style.title(axes, mode, "grey: looks at the truth")
    style.write_figure(figure, path)
