"""What a result on Coat owes to Coat's own graph of close pairs: the same policies with redrawn graphs.

python benchmarks/recsys_graphs.py RUN ... --out=benchmarks/results/recsys/recsys_graphs
python benchmarks/recsys_graphs.py RUN ... --stream --orders=20 --out=benchmarks/results/recsys/recsys_stream
A redrawn graph has as many close pairs as the true one: anywhere (`uniform`), or the true graph with items renamed
among those of the same tenth of mean ratings (`alike`). Ratings stay the true ones. With --stream users come one after
another, each once, in random orders, and share what was seen of quits and pairs (runs of `--config=td3_rec_stream`).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twofold.recsys.baselines import Greedy, expected_before, expected_now, popularity
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array
from twofold.recsys.metrics import Chooses, over_seeds, play
from twofold.recsys.prepare import prepare
from twofold.recsys.quit import CloseTable, QuitRule, redrawn
from twofold.recsys.stream import PairMemory, Stream
from twofold.recsys.streamed import planners, player, served, stream_world
from twofold.recsys.users import Feelings, Users
from twofold.recsys.worlds import make
from twofold.settings.config import load, own_settings
from twofold.store.policy_file import LoadedPolicy, load_policy
from twofold.store.provenance import provenance

Scores = dict[str, list[dict[str, float]]]  # policy -> one result for each draw
BATCHES = (1, 10, 29)


def graphs(cfg: UsersConfig, kind: str, count: int) -> list[QuitRule]:
    """So many redrawn graphs of close pairs."""
    world = make(cfg, rows=1, purpose="FB")
    rule = world.feelings.quit_rule
    assert isinstance(rule, CloseTable)
    levels = None if kind == "uniform" else prepare(cfg).data.truth.item_vectors().mean(axis=1)  # type: ignore[union-attr]
    return [redrawn(rule, np.random.default_rng(seed), levels) for seed in range(count)]


def players(world: Users, data: Any, runs: list[tuple[str, LoadedPolicy]]) -> dict[str, Any]:
    """Everyone who plays in this world; those without training as in the standings."""
    if world.stream is not None:
        found = planners(world, data)
    else:
        liked = popularity(data)
        found = {"popularity": Greedy(world, lambda w: np.tile(liked, (w.num_envs, 1)))}
        found |= {"greedy user model": Greedy(world, expected_before)}
        found |= {"greedy user model with belief": Greedy(world, expected_now)}
    return found | {name: player(world, run) for name, run in runs}


class Streams(Stream):
    """Several streams beside each other in one world, each with a memory of its own: `rows` of them each."""

    def __init__(self, memories: list[PairMemory], rows: int) -> None:
        super().__init__(memories[0], rows * len(memories), 0)
        self.beside = memories
        self.memories = {self.first: Beside(memories)}

    def see(self, items: Array, window: Array, quits: Array, ended: Array) -> None:
        told = (np.split(leaf, len(self.beside)) for leaf in (items, window, quits, self.number == self.now))
        for memory, item, before, quit, own in zip(self.beside, *told, strict=True):
            memory.see(item[own], before[own], quit[own])
        self.leave(ended)


class Beside(PairMemory):
    """Memories that know nothing of each other; rows are split evenly between them."""

    def __init__(self, memories: list[PairMemory]) -> None:
        self.memories = memories
        super().__init__(memories[0].items, memories[0].prior)

    def clear(self) -> None:
        for memory in self.memories:
            memory.clear()

    def risk(self, window: Array) -> Array:
        parts = zip(self.memories, np.split(window, len(self.memories)), strict=True)
        return np.concatenate([memory.risk(some) for memory, some in parts])

    def chance(self, items: Array, window: Array) -> Array:
        parts = (np.split(leaf, len(self.memories)) for leaf in (items, window))
        return np.concatenate([m.chance(*some) for m, *some in zip(self.memories, *parts, strict=True)])


def play_streams(world: Users, policy: Chooses, orders: list[Array], batch: int) -> list[dict[str, Array]]:
    """Each order as `play_stream` serves it, `batch` users at a time, all orders beside each other."""
    assert world.stream is not None
    world.stream.restart()
    parts = []
    for start in range(0, world.users, batch):
        some = [order[start : start + batch] for order in orders]
        count = len(some[0])
        users = np.concatenate([np.resize(own, batch) for own in some]).tolist()
        played = play(world, policy, users, np.tile(np.arange(batch) >= count, len(orders)))
        parts.append({name: np.split(leaf, len(orders)) for name, leaf in played.items()})
        parts[-1] = {name: [leaf[:count] for leaf in leaves] for name, leaves in parts[-1].items()}
    found = []
    for number in range(len(orders)):
        items, ratings = (
            np.concatenate([part[name][number] for part in parts]) for name in ("items", "ratings")
        )
        length = (items >= 0).sum(axis=1).astype(float)
        found.append({"return": ratings.sum(axis=1, dtype=np.float64), "length": length})
    return found


def in_stream(
    cfg: UsersConfig,
    runs: Any,
    rules: list[QuitRule | None],
    orders: int,
    batch: int,
    without: tuple[str, ...] = (),
) -> Scores:
    """For each graph, the mean over random orders; for one graph, each order by itself."""
    data = prepare(cfg).data
    found: Scores = {}
    for rule in rules:
        world = stream_world(cfg, batch * orders, rule)
        memories = [PairMemory(world.items, cfg.close_share) for _ in range(orders)]
        world.stream = Streams(memories, batch)
        served_to = [np.random.default_rng(seed).permutation(world.users) for seed in range(orders)]
        for name, policy in players(world, data, runs).items():
            if name in without:
                continue
            results = [served(one) for one in play_streams(world, policy, served_to, batch)]
            mean = {key: float(np.mean([result[key] for result in results])) for key in results[0]}
            found.setdefault(name, []).extend(results if len(rules) == 1 else [mean])
    return found


def all_at_once(cfg: UsersConfig, runs: Any, rules: list[QuitRule]) -> Scores:
    """FB with each graph."""
    prepared = prepare(cfg)
    found: Scores = {}
    world = make(cfg, rows=prepared.data.users, purpose="FB")
    for rule in rules:
        world.feelings = Feelings(world.feelings.tables, rule, 1)
        for name, policy in players(world, prepared.data, runs).items():
            episodes = play(world, policy, list(range(world.users)))
            length = float((episodes["items"] >= 0).sum(axis=1).mean())
            found.setdefault(name, []).append(
                {"return": float(episodes["ratings"].sum(axis=1).mean()), "length": length}
            )
    return found


def pooled(scores: Scores, runs: dict[str, list[str]]) -> dict[str, Any]:
    """Mean, spread and interval over draws; each kind of runs also together: for each draw the mean over runs."""
    for kind, names in runs.items():
        if len(names) > 1:
            draws = zip(*(scores[name] for name in names), strict=True)
            means = [{key: float(np.mean([one[key] for one in draw])) for key in draw[0]} for draw in draws]
            scores = scores | {f"mean of {len(names)} runs{kind}": means}
    return {name: over_seeds(results) for name, results in scores.items()}


def table(title: str, found: dict[str, Any]) -> str:
    columns = [*next(iter(found.values()))]
    lines = [f"### {title}", "", "| policy | " + " | ".join(f"{c} (sd)" for c in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for name, metrics in sorted(found.items(), key=lambda pair: -pair[1]["return"]["mean"]):
        cells = [
            f"{metrics[c]['mean']:.1f} ± {metrics[c]['half']:.1f} ({metrics[c]['std']:.1f})" for c in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


Named = tuple[str, LoadedPolicy]


def evaluated(runs: list[Path]) -> tuple[list[Named], dict[str, float]]:
    """The policy of every evaluation of the runs but the start, which is the same in all; what chose among them."""
    found, scores = [], {}
    for run in runs:
        record = json.loads((run / "finalists.json").read_text())
        for step, score in record["return"].items():
            if step == "0":
                continue
            name = run.name if int(step) == record["chosen"] else f"{run.name}, step {step}"
            found.append((name, load_policy(run / f"finalist_{step}.safetensors")))
            scores[name] = score["mean"]
    return found, scores


def ranked_alike(one: list[float], other: list[float]) -> float:
    """Spearman's rank correlation."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def choice_of(scores: dict[str, float], tables: dict[str, Scores], runs: list[str]) -> dict[str, Any]:
    """How what chose the policies goes with each table, over all that were evaluated; and what the choice was worth."""
    names = [*scores]
    returns = {
        title: {name: float(np.mean([draw["return"] for draw in found[name]])) for name in names}
        for title, found in tables.items()
    }
    redrawn_ones = [rows for title, rows in returns.items() if "redrawn" in title]
    returns["FB, all redrawn graphs"] = {
        name: float(np.mean([r[name] for r in redrawn_ones])) for name in names
    }
    found: dict[str, Any] = {"policies": len(names), "scores": scores, "returns": returns, "tables": {}}
    for title, rows in returns.items():
        each = {run: [rows[name] for name in names if name.split(",")[0] == run] for run in runs}
        found["tables"][title] = {
            "rank correlation": ranked_alike(
                [scores[name] for name in names], [rows[name] for name in names]
            ),
            "chosen": float(np.mean([rows[run] for run in runs])),
            "all evaluations": float(np.mean([np.mean(own) for own in each.values()])),
            "best in hindsight": float(np.mean([max(own) for own in each.values()])),
        }
    return found


def said_of(choice: dict[str, Any]) -> str:
    """The correlations as a table."""
    columns = ["rank correlation", "chosen", "all evaluations", "best in hindsight"]
    lines = [
        f"### What chose the policies beside what they got ({choice['policies']} policies, all evaluations)",
        "",
        "| | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for title, row in choice["tables"].items():
        cells = [f"{row[columns[0]]:+.2f}", *(f"{row[column]:.1f}" for column in columns[1:])]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    kinds = [[*rows.values()] for title, rows in choice["returns"].items() if "redrawn graphs (" in title]
    both = (
        f"Rank correlation of the two kinds of redrawn graphs with each other: {ranked_alike(*kinds):+.2f}."
    )
    return "\n".join([*lines, "", both])


def over_graphs(cfg: UsersConfig, runs: list[Path], count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """FB of the chosen policies with each kind of graph; and what chose them beside it."""
    policies, scores = evaluated(runs)
    own = make(cfg, rows=1, purpose="FB").feelings.quit_rule
    rules = {"FB, Coat's own graph": [own]}
    rules |= {
        f"FB, {count} redrawn graphs ({kind})": graphs(cfg, kind, count) for kind in ("uniform", "alike")
    }
    found = {title: all_at_once(cfg, policies, several) for title, several in rules.items()}
    chosen = [run.name for run in runs]
    tables = {
        title: pooled({name: rows for name, rows in table.items() if ", step " not in name}, {"": chosen})
        for title, table in found.items()
    }
    return tables, choice_of(scores, found, chosen)


CHOSEN, LAST = ", chosen", ", after the last step"


def chosen_and_last(runs: list[Path]) -> tuple[list[Named], dict[str, Any]]:
    """The policy that was chosen in each run and that of its last step, once if they are the same; and what chose."""
    found: list[Named] = []
    choices = {}
    for run in runs:
        record = json.loads((run / "finalists.json").read_text())
        last = max(map(int, record["return"]))
        if record["chosen"] == last:
            found.append((f"{run.name}{CHOSEN}{LAST}", load_policy(run)))
        else:
            found.append((f"{run.name}{CHOSEN} (step {record['chosen']:,})", load_policy(run)))
            found.append((f"{run.name}{LAST}", load_policy(run / f"finalist_{last}.safetensors")))
        choices[run.name] = record
    return found, choices


def in_streams(cfg: UsersConfig, runs: list[Named], options: Any) -> dict[str, dict[str, Any]]:
    """FB_stream with the true graph in random orders, and with redrawn ones; tables by their titles."""
    without = tuple(options.without)
    kinds = {kind: [name for name, _ in runs if kind in name] for kind in (CHOSEN, LAST)}
    found = {
        f"FB_stream, true graph, {options.orders} orders, {batch} at a time": pooled(
            in_stream(cfg, runs, [None], options.orders, batch, without), kinds
        )
        for batch in options.batches
    }
    for kind in ("uniform", "alike") if options.graphs else ():
        redrawn_ones: list[QuitRule | None] = [*graphs(replace(cfg, stream=False), kind, options.graphs)]
        title = f"FB_stream, {options.graphs} redrawn graphs ({kind}), one order each, 10 at a time"
        found[title] = pooled(in_stream(cfg, runs, redrawn_ones, 1, 10, without), kinds)
    return found


def said_by_simulated(choices: dict[str, Any]) -> str:
    """What chose: mean return of simulated users to every evaluated policy."""
    steps = [*next(iter(choices.values()))["return"]]
    lines = [
        "### What chose: return of simulated users that were never trained on; no truth is read",
        "",
        "| run | " + " | ".join(f"step {int(step):,}" for step in steps) + " | chosen |",
        "|---" * (len(steps) + 2) + "|",
    ]
    for name, record in choices.items():
        scores = [record["return"][step] for step in steps]
        cells = [f"{score['mean']:.1f} ± {score['high'] - score['mean']:.1f}" for score in scores]
        lines.append(f"| {name} | {' | '.join(cells)} | {record['chosen']:,} |")
    return "\n".join(lines)


def command_of(options: Any) -> str:
    """The command that makes this result."""
    words = ["python benchmarks/recsys_graphs.py", *options.runs]
    if options.stream:
        words += ["--stream", f"--orders={options.orders}", "--batches", *map(str, options.batches)]
    words.append(f"--graphs={options.graphs}")
    if options.without:
        words += ["--without", *(f'"{name}"' for name in options.without)]
    return " ".join(words)


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("runs", nargs="*")
    typed.add_argument("--path", help="folder of Coat, if it is not in $TWOFOLD_DATA")
    typed.add_argument("--stream", action="store_true")
    typed.add_argument("--orders", type=int, default=20)
    typed.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    typed.add_argument("--graphs", type=int, default=12)
    typed.add_argument("--without", nargs="+", default=[], help="baselines that are left out")
    typed.add_argument("--note", default="", help="what a person read out of the tables")
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
    torch.set_num_threads(1)
    options.data = {"env_args.path": options.path} if options.path else {}
    preset = "td3_rec_stream" if options.stream else "td3_rec"
    cfg = own_settings(UsersConfig, load(preset, "coat", **options.data).config.env_args)
    runs = [Path(run) for run in options.runs]
    record: dict[str, Any] = {"provenance": provenance(command_of(options)), "note": options.note}
    if options.stream:
        policies, record["simulated"] = chosen_and_last(runs)
        record["tables"] = in_streams(cfg, policies, options)
    else:
        record["tables"], record["choice"] = over_graphs(cfg, runs, options.graphs)
    print(page(record))
    if options.out:
        options.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(page(record))


def page(record: dict[str, Any]) -> str:
    """What a person read out of the tables, then the tables."""
    tables = [table(title, rows) for title, rows in record["tables"].items()]
    tables += [said_of(record["choice"])] if "choice" in record else []
    tables += [said_by_simulated(record["simulated"])] if "simulated" in record else []
    return "\n\n".join([record["note"], f"`{record['provenance']['command']}`", *tables]).strip() + "\n"


if __name__ == "__main__":
    main()
