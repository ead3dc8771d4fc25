"""Policies paid for taking and rating: on what users did next and in simulated episodes, beside EASE and own heads.

python benchmarks/recsys_recall.py RUN ... --out=benchmarks/results/recsys/recsys_recall
Each user's last rating is hidden (`env_args.split=last`), items rated before are left out. Lists of one run are those
of its policy, and of the heads of its user model (`recommend --by=taken`, `--by=rating`). EASE and item-kNN are fitted
here to the same log, with the settings that are best on the ratings before the hidden ones; the difference to EASE is
over the same users; simulated episodes are beside the greedy user model. A last table asks for the same users as
strangers: without their name, after a history of their newest ratings; what of a history counts (`strangers.NEWEST`,
`BY_RATING`) is chosen on the ratings before, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twofold.recsys.asking import Question
from twofold.recsys.baselines import ByClosePairs, Greedy, expected_before, expected_now
from twofold.recsys.config import UsersConfig
from twofold.recsys.data import Array, Dataset, Ratings
from twofold.recsys.judge import difference, judge, of_scores
from twofold.recsys.labels import Labels
from twofold.recsys.menu import By
from twofold.recsys.metrics import over_seeds, play
from twofold.recsys.peers import Scores, at_random, ease, item_knn, popularity_by_count, sasrec
from twofold.recsys.prepare import prepare
from twofold.recsys.recommend import Recommender
from twofold.recsys.strangers import Strangers
from twofold.recsys.taking import both
from twofold.recsys.worlds import assumed_close, make
from twofold.settings.config import own_settings
from twofold.store.policy_file import LoadedPolicy, load_policy
from twofold.store.provenance import provenance

Result = dict[str, Any]
NEIGHBOURS, RIDGES = (20, 50, 100, 200, 400), (50.0, 100.0, 200.0, 300.0, 500.0, 1000.0)
ROWS: dict[By, str] = {
    "policy": "td3_rec, reward=both",
    "taken": "EASE and SASRec together, their second head (--by=taken)",
    "rating": "greedy user model (--by=rating)",
}
STRANGE: dict[By, str] = {
    "taken": "what others took with the items of the history (--by=taken)",
    "count": "popularity by count (--by=count)",
}
TRAINED = "td3_rec, reward=both, after the last step"  # whichever policy of the run was chosen
MODES = ("FB", "NX_0", "NX_10")
TOLD = (10, 29)  # ratings of a history
COUNTS = (3, 5, 10, 20, 29)  # newest items of a history that may count


def lists(policy: Recommender, data: Dataset, by: By, k: int = 10) -> Array:
    """Lists for all users of whom something is hidden, without what they rated before."""
    log = data.train
    assert data.test is not None
    order = np.argsort(log.users, kind="stable")
    edges = np.searchsorted(log.users[order], np.arange(data.users + 1))
    own = [
        [log.item_names[i] for i in log.items[order[a:b]]] for a, b in zip(edges[:-1], edges[1:], strict=True)
    ]
    asked = [Question(log.user_names[u], rated=True, without=own[u]) for u in np.unique(data.test.users)]
    return policy.answers(asked, k, by).items


def as_strangers(policy: Recommender, data: Dataset, by: By, told: int, k: int = 10) -> Array:
    """Lists for the same users, asked for without a name after their newest `told` ratings; hidden ones are unknown."""
    log = data.train
    assert data.test is not None
    ends, rated = _rated_in(log)
    policy.labels = replace(policy.labels, rated_ends=ends, rated_items=rated)
    asked = []
    for user, own in _in_time(log).items():
        if user not in data.test.users:
            continue
        names = [log.item_names[item] for item in log.items[own]]
        history = list(zip(names[-told:], log.values[own][-told:].tolist(), strict=True))
        asked.append(Question(None, history, without=names))
    return policy.answers(asked, k, by).items


def _in_time(log: Ratings) -> dict[int, Array]:
    """The rows of each user's ratings, oldest first."""
    times = np.arange(len(log)) if log.times is None else np.nan_to_num(log.times)
    order = np.lexsort((np.arange(len(log)), times, log.users))
    edges = np.searchsorted(log.users[order], np.arange(len(log.user_names) + 1))
    return {user: order[edges[user] : edges[user + 1]] for user in range(len(log.user_names))}


def _rated_in(log: Ratings) -> tuple[Array, Array]:
    """What users rated by this log alone, as labels keep it."""
    ends = np.cumsum(np.bincount(log.users, minlength=len(log.user_names)))
    return ends.astype(np.int64), log.items[np.lexsort((log.items, log.users))].astype(np.int32)


def strangers(data: Dataset, runs: list[LoadedPolicy]) -> dict[str, Result]:
    """Recall and NDCG of each kind of list for users without a name, by the first run."""
    found: dict[str, Result] = {}
    for by, name in (ROWS | STRANGE).items():
        for told in TOLD:
            means = []
            for run in runs[:1]:
                verdict = judge(
                    lambda users, k, r=run, b=by, t=told: as_strangers(Recommender(r), data, b, t, k), data
                )
                means.append({key: verdict[key].mean for key in ("recall@10", "ndcg@10", "coverage")})
            found.setdefault(name, {})[str(told)] = {"seeds": means, **over_seeds(means)}
    return found


def tuned_strangers(data: Dataset) -> dict[str, float]:
    """Recall@10 of what a history tells on the ratings before, by how many of its newest items count and how."""
    earlier = before(data)
    log = earlier.train
    ends, rated = _rated_in(log)
    labels = Labels(low=data.low, high=data.high, rated_ends=ends, rated_items=rated)
    rows = _in_time(log)
    told = [
        (log.items[own].tolist(), log.values[own].tolist()) for own in (r[-TOLD[-1] :] for r in rows.values())
    ]
    found = {}
    for count in COUNTS:
        for by_rating in (True, False):
            of = Strangers(labels, data.items, count, by_rating)
            scores = of_scores(lambda users, o=of: np.stack([o.scores(*told[u]) for u in users]), log)
            name = f"{count} newest, " + ("by rating" if by_rating else "all alike")
            found[name] = judge(scores, earlier)["recall@10"].mean
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def before(data: Dataset) -> Dataset:
    """The same users with what they took last before the hidden rating hidden in its place: to choose settings on."""
    log, test = data.train.without_last()
    return replace(data, train=log, test=test)


def tuned(
    data: Dataset, fit: Callable[[Ratings, Any], Scores], values: tuple[float, ...]
) -> dict[float, float]:
    """Recall@10 with each setting, the best one first."""
    log = data.train
    found = {value: judge(of_scores(fit(log, value), log), data)["recall@10"].mean for value in values}
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def chosen(data: Dataset) -> tuple[dict[str, float], dict[str, float]]:
    """The best settings of peers, and recall@10 of the two heads and of both together, on the ratings before."""
    earlier = before(data)
    log = earlier.train
    sizes, ridges = tuned(earlier, item_knn, NEIGHBOURS), tuned(earlier, ease, RIDGES)
    after = sasrec(log)
    found = {f"EASE, ridge {ridge:g}": recall for ridge, recall in ridges.items()}
    heads = {"SASRec": after}
    heads |= {f"both, ridge {ridge:g}": both(ease(log, ridge), after) for ridge in (100.0, 300.0)}
    found |= {name: judge(of_scores(head, log), earlier)["recall@10"].mean for name, head in heads.items()}
    return {"item-kNN neighbours": next(iter(sizes)), "EASE ridge": next(iter(ridges))}, found


def after_training(run: Path) -> LoadedPolicy:
    """The policy of a run's last evaluation."""
    steps = json.loads((run / "finalists.json").read_text())["return"]
    return load_policy(run / f"finalist_{max(map(int, steps))}.safetensors")


def recalled(data: Dataset, runs: list[LoadedPolicy], trained: list[LoadedPolicy]) -> dict[str, Result]:
    """Recall and NDCG of peers, and of each kind of list of the runs."""
    log = data.train
    settings, earlier = chosen(data)
    size, ridge = settings.values()
    peers = {"random": at_random(log), "popularity by count": popularity_by_count(log)}
    peers |= {"item-kNN": item_knn(log, int(size)), "EASE": ease(log, ridge), "EASE, ridge 300": ease(log)}
    peers["SASRec"] = sasrec(log)
    judged = {name: [judge(of_scores(scores, log), data)] for name, scores in peers.items()}
    for by, name in ROWS.items():
        judged[name] = [
            judge(lambda users, k, r=run, b=by: lists(Recommender(r), data, b, k), data)
            for run in (runs if by == "policy" else runs[:1])  # the heads are the same in all runs
        ]
    judged[TRAINED] = [
        judge(lambda users, k, r=run: lists(Recommender(r), data, "policy", k), data) for run in trained
    ]
    base = judged["EASE"][0]["recall@10"].values
    found: dict[str, Result] = {"settings": settings, "before": earlier}
    for name, verdicts in judged.items():
        means = [
            {key: verdict[key].mean for key in ("recall@10", "ndcg@10", "coverage")} for verdict in verdicts
        ]
        own = np.mean([verdict["recall@10"].values for verdict in verdicts], axis=0)
        middle, half = difference(own, base)
        found[name] = {
            "seeds": means,
            **over_seeds(means),
            "less EASE": [middle - half, middle, middle + half],
        }
    return found


def simulated(
    cfg: UsersConfig, runs: list[LoadedPolicy], trained: list[LoadedPolicy], mode: str
) -> dict[str, Result]:
    """Mean return and length of all users' episodes."""
    prepared = prepare(cfg)
    users, close = prepared.data.users, assumed_close(cfg, prepared)
    world = make(cfg, rows=users, purpose=mode)
    players: list[tuple[str, Any]] = [
        ("greedy user model", Greedy(world, expected_before)),
        ("greedy user model with belief", Greedy(world, expected_now)),
    ]
    if close is not None:
        players.append(("Bayes planner, assumed close pairs", Greedy(world, ByClosePairs(close))))
    players += [
        (name, run.learner.policy(explore=False, rows=users, rng=np.random.default_rng(0)))
        for name, several in ((ROWS["policy"], runs), (TRAINED, trained))
        for run in several
    ]
    found: dict[str, list[dict[str, float]]] = {}
    for name, policy in players:
        episodes = play(world, policy, list(range(users)))
        length = float((episodes["items"] >= 0).sum(axis=1).mean())
        found.setdefault(name, []).append(
            {"return": float(episodes["ratings"].sum(axis=1).mean()), "length": length}
        )
    return {name: {"seeds": rows, **over_seeds(rows)} for name, rows in found.items()}


def text(real: dict[str, Result], runs: int) -> str:
    lines = [
        f"### What users took next: recall@10 of the hidden last rating ({runs} runs, one seed each)",
        "",
    ]
    lines += [
        "| lists | recall@10 | ndcg@10 | coverage | recall less EASE's, 95 % over users |",
        "|---|---|---|---|---|",
    ]
    settings = real["settings"]
    for name, row in sorted(
        ((name, row) for name, row in real.items() if "seeds" in row),
        key=lambda pair: -pair[1]["recall@10"]["mean"],
    ):
        cells = [_cell(row[key], 4) for key in ("recall@10", "ndcg@10", "coverage")]
        low, middle, high = row["less EASE"]
        less = "" if name == "EASE" else f"{middle:+.3f} [{low:+.3f}, {high:+.3f}]"
        lines.append(f"| {name} | {' | '.join(cells)} | {less} |")
    lines += [
        "",
        "Settings that found most of the ratings before the hidden ones: "
        + ", ".join(f"{name} {value:g}" for name, value in settings.items())
        + ".",
    ]
    return "\n".join([*lines, *_before(real["before"])])


def text_of_episodes(mode: str, played: dict[str, Result]) -> str:
    lines = [f"### Simulated episodes, {mode}", "", "| policy | return | length |", "|---|---|---|"]
    for name, row in sorted(played.items(), key=lambda pair: -pair[1]["return"]["mean"]):
        lines.append(f"| {name} | {_cell(row['return'], 1)} | {_cell(row['length'], 1)} |")
    return "\n".join(lines)


WHERE = "Where the second head was chosen: recall@10 of the rating before the hidden one"
WHERE_STRANGERS = (
    f"Which items of a stranger's history count, and how: the same, after a history of {TOLD[-1]} ratings"
)


def _before(found: dict[str, float], title: str = WHERE) -> list[str]:
    lines = ["", f"### {title}", ""]
    lines += ["| lists | recall@10 |", "|---|---|"]
    ranked = sorted(found.items(), key=lambda pair: -pair[1])
    return [*lines, *(f"| {name} | {recall:.4f} |" for name, recall in ranked)]


def text_of_strangers(found: dict[str, Result]) -> str:
    lines = [
        "### The same users as strangers: recall@10 after their newest ratings as a history (the first run)",
        "",
    ]
    lines += [
        "| lists | " + " | ".join(f"{told} ratings" for told in TOLD) + " |",
        "|---" * (1 + len(TOLD)) + "|",
    ]
    for name, row in sorted(found.items(), key=lambda pair: -pair[1]["10"]["recall@10"]["mean"]):
        lines.append(f"| {name} | " + " | ".join(_cell(row[str(n)]["recall@10"], 4) for n in TOLD) + " |")
    return "\n".join(lines)


def _cell(value: dict[str, float], digits: int) -> str:
    half = f" ± {value['half']:.{digits}f}" if value["half"] else ""
    return f"{value['mean']:.{digits}f}{half}"


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("runs", nargs="+")
    typed.add_argument("--note", default="", help="a sentence for the page")
    typed.add_argument("--out", type=Path)
    typed.add_argument("--strangers", action="store_true", help="only make the last table of OUT.json again")
    options = typed.parse_args()
    torch.set_num_threads(1)
    runs = [load_policy(run) for run in options.runs]
    cfg = own_settings(UsersConfig, runs[0].config.env_args)
    if options.strangers:
        about = json.loads(options.out.with_suffix(".json").read_text())
    else:
        command = " ".join(["python benchmarks/recsys_recall.py", *options.runs])
        about = {"provenance": provenance(command), "note": options.note, "runs": len(runs)}
        trained = [after_training(Path(run)) for run in options.runs]
        about |= {"real": recalled(prepare(cfg).data, runs, trained)}
        about |= {mode: simulated(cfg, runs, trained, mode) for mode in MODES}
    about |= told_by_strangers(prepare(cfg).data, runs, options)
    record = json.loads(json.dumps(about))
    print(page(record))
    if options.out:
        options.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(page(record))


def told_by_strangers(data: Dataset, runs: list[LoadedPolicy], options: Any) -> Result:
    """The last tables, and what made them where they are made by themselves."""
    found: Result = {"strangers": strangers(data, runs), "strangers before": tuned_strangers(data)}
    if options.strangers:
        command = f"python benchmarks/recsys_recall.py {' '.join(options.runs)} --strangers"
        found["strangers provenance"] = provenance(command)
    return found


def page(record: Result) -> str:
    """What a person read out of the tables, then the tables."""
    tables = [text(record["real"], record["runs"]), *(text_of_episodes(mode, record[mode]) for mode in MODES)]
    tables.append(text_of_strangers(record["strangers"]))
    if again := record.get("strangers provenance"):
        tables.append(
            f"`{again['command']}` made the table above and the one below later, at {again['commit'][:7]}."
        )
    tables.append("\n".join(_before(record["strangers before"], WHERE_STRANGERS)).strip())
    return "\n\n".join([record["note"], f"`{record['provenance']['command']}`", *tables]).strip() + "\n"


if __name__ == "__main__":
    main()
