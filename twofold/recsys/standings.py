"""Policies side by side on the true users, in all modes, over seeds: as numbers, as a table, as a plot."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from twofold.assemble import fits
from twofold.recsys.baselines import baselines
from twofold.recsys.config import UsersConfig
from twofold.recsys.metrics import markdown, measure, over_seeds, play
from twofold.recsys.prepare import prepare
from twofold.recsys.reach import reach_of
from twofold.recsys.recommend import parts_of
from twofold.recsys.worlds import make
from twofold.show import style
from twofold.store import files
from twofold.store.policy_file import load_policy
from twofold.store.run import provenance

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
Table = dict[str, dict[str, dict[str, dict[str, float]]]]  # mode -> policy -> metric -> mean, half, std


def table(cfg: UsersConfig, runs: list[Path], seeds: int) -> Table:
    """Every baseline and every run (seeds of one kind together) in every mode."""
    data, _, known = prepare(cfg)
    users = list(range(min(data.users, 2000)))
    liked = data.low + 0.75 * (data.high - data.low)
    found: Table = {}
    for mode in MODES:
        world = make(cfg, rows=len(users), purpose=mode)
        rows: dict[str, list[dict[str, float]]] = {}
        for seed in range(seeds):
            for name, policy in baselines(world, data, np.random.default_rng(seed)).items():
                kind = re.sub(r" \(\d\)$", "", name)
                rows.setdefault(kind, []).append(
                    measure(play(world, policy, users), data, known.item_vectors, liked)
                )
        for run in runs:
            loaded = load_policy(run)
            fits(loaded, world)
            trained = loaded.learner.policy(explore=False, rows=len(users), rng=np.random.default_rng(0))
            rows.setdefault(kind_of(run), []).append(
                measure(play(world, trained, users), data, known.item_vectors, liked)
            )
        found[mode] = {name: over_seeds(results) for name, results in rows.items()}
    return found


def kind_of(run: Path) -> str:
    """The name of a run without its seed and date."""
    return re.sub(r"[_-]?seed[_-]?\d+.*$", "", run.name) or run.name


def reaches(runs: list[Path]) -> dict[str, float]:
    """The share of the catalogue that the actor of each kind of run can choose at all."""
    return {kind_of(run): reach_of(parts_of(load_policy(run))[1]).share for run in runs}


def text(found: Table, columns: tuple[str, ...], reached: dict[str, float] | None = None) -> str:
    tables = [f"### {mode}\n\n{markdown(rows, columns)}" for mode, rows in found.items()]
    lines = [f"{kind}: {100 * share:.1f} % of the catalogue" for kind, share in (reached or {}).items()]
    within = ["### What the actors can choose at all\n\n" + "\n".join(lines)] if lines else []
    return "\n\n".join(tables + within)


def write(found: Table, reached: dict[str, float], out: Path) -> None:
    """OUT.md and OUT.json, with where the numbers come from."""
    out.parent.mkdir(parents=True, exist_ok=True)
    record = {"provenance": provenance("standings"), "table": found, "reachable": reached}
    files.replace_bytes(out.with_suffix(".md"), (text(found, COLUMNS, reached) + "\n").encode())
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
