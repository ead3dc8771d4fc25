"""The index of all results, and what the README says of them: `python benchmarks/index.py` writes both.

A result stands in the folder of its domain. Its page is prose and tables beside its data; what the index and the README
say is read from the data alone, and a test says when they disagree.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DOMAINS = {  # folder -> its title, and how the names of its learning results begin
    "core": ("Core and speed", ("speed", "step", "neighbour", "faults", "fuzz")),
    "control": ("Control", ("td3", "hardcore", "walker")),
    "recsys": ("Recommendation", ("recsys",)),
    "crystal": ("Crystals", ("crystal",)),
    "team": ("Teams", ("team",)),
    "lab": ("Lab", ("scale", "sweep", "page")),
}
SCRIPTS = {  # which script makes the results whose names begin so; the longest beginning counts
    "speed": "bench.py",
    "step": "step.py",
    "neighbour": "neighbour.py",
    "scale": "scale.py",
    "faults": "faults.py",
    "fuzz": "../tests/fuzz/run.py",
    "td3": "learning.py",
    "td3_plus_cost": "plus_cost.py",
    "hardcore": "learning.py",
    "hardcore_ablations": "hardcore_ablations.py",
    "hardcore_average": "hardcore_average.py",
    "walker": "walker.py",
    "recsys": "recsys.py",
    "recsys_ablations": "recsys_ablations.py",
    "recsys_graphs": "recsys_graphs.py",
    "recsys_stream": "recsys_graphs.py",
    "recsys_memory": "recsys_memory.py",
    "recsys_recall": "recsys_recall.py",
    "recsys_reference": "recsys_reference.py",
    "recsys_serving": "recsys_serving.py",
    "recsys_speed": "recsys_speed.py",
    "crystal": "crystal.py",
    "crystal_chemistry": "crystal_chemistry.py",
    "crystal_policy": "crystal_policy.py",
    "crystal_training": "crystal_policy.py",
    "crystal_reference": "crystal_reference.py",
    "team": "team.py",
    "team_goals": "team_goals.py",
    "team_peers": "team_peers.py",
    "team_scripts": "team_scripts.py",
    "team_speed": "team_speed.py",
    "team_spread_scale": "team_spread_scale.py",
    "team_updates": "team_updates.py",
}


def folder_of(name: str) -> Path:
    """Where a result of this name stands."""
    found = [folder for folder, (_, begins) in DOMAINS.items() if name.startswith(begins)]
    if not found:
        known = ", ".join(begin for _, begins in DOMAINS.values() for begin in begins)
        raise ValueError(f"no domain for a result named {name!r}: let its name begin with one of {known}")
    return RESULTS / found[0]


def script_of(name: str) -> str:
    """The script that makes a result."""
    known = [begin for begin in SCRIPTS if name.startswith(begin)]
    return SCRIPTS[max(known, key=len)]


def title_of(page: Path) -> str:
    """What a page is about: its heading, or its first sentence where the heading is only its name."""
    text = page.read_text()
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    if heading and heading[1] != page.stem:
        return heading[1]
    prose = (line for line in text.splitlines() if line and line[0] not in "#|`<!")
    first = next(prose, page.stem).partition(". ")[0].rstrip(".")
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", first)  # a link of the page leads nowhere from here


def results_index() -> str:
    """One page that leads to every result, by domain."""
    lines = [
        "# Results",
        "",
        "Every page stands beside its data; numbers carry seeds, intervals, commands and versions. A result that "
        "missed its mark is written down as it is. This index is made by `python benchmarks/index.py`; recipes that "
        "were given up are in `benchmarks/archive`.",
        "",
    ]
    for folder, (title, _) in DOMAINS.items():
        if pages := sorted((RESULTS / folder).glob("*.md")):
            lines += [f"## {title}", "", "| result | about | made by | data |", "|---|---|---|---|"]
            lines += [*map(_line, pages), ""]
    return "\n".join(lines)


def _line(page: Path) -> str:
    beside = [p.name for p in sorted(page.parent.glob(f"{page.stem}.*")) if p.suffix in (".json", ".csv")]
    data = ", ".join(f"`{name}`" for name in beside) or "in the page"
    return f"| [{page.stem}]({page.parent.name}/{page.name}) | {title_of(page)} | `{script_of(page.stem)}` | {data} |"


# ---- what the README says ------------------------------------------------------------------------------------------


def record_of(name: str) -> Any:
    return json.loads((folder_of(name) / f"{name}.json").read_text())


def last_returns(name: str) -> list[float]:
    """The last validation return of every seed of a learning result."""
    with open(folder_of(name) / f"{name}.csv") as file:
        last = {row["seed"]: float(row["return_mean"]) for row in csv.DictReader(file)}
    return list(last.values())


def speed_sentence() -> str:
    """How many times as fast as its peers, end to end on two threads."""
    systems = record_of("speed")["summary"]["2"]["systems"]
    order = sorted((s for s in systems if s != "twofold"), key=lambda s: systems[s]["ours_over_it"]["median"])
    ratios = ", ".join(f"{systems[name]['ours_over_it']['median']:.2f} times {name}" for name in order)
    own = systems["twofold"]["median"]
    return (
        f"TD3 on HalfCheetah-v5, two threads, end to end: {own:.0f} steps/s, which is {ratios} "
        "([measured in turns](benchmarks/results/core/speed.md))."
    )


def learning_sentence() -> str:
    """Where the shown curves end."""
    parts = []
    for name, what in (
        ("td3_halfcheetah", "HalfCheetah"),
        ("td3_walker2d", "Walker2d"),
        ("td3_hopper", "Hopper"),
    ):
        found = last_returns(name)
        parts.append(f"{what} {sum(found) / len(found):.0f} ({min(found):.0f} to {max(found):.0f})")
    return (
        f"TD3 after 300k steps, mean of {len(found)} seeds and the lowest and highest of them: {', '.join(parts)} "
        f"([results](benchmarks/results/README.md)).{plus_sentence()}"
    )


def plus_sentence() -> str:
    """What td3_plus learns from a third of these steps; nothing before every body has three seeds."""
    with open(folder_of("td3_plus") / "td3_plus_seeds.csv") as file:
        rows = list(csv.DictReader(file))
    parts = []
    for body in ("HalfCheetah", "Walker2d", "Hopper"):
        found = [float(row["return"]) for row in rows if row["world"].startswith(body)]
        if len(found) < 3:
            return ""
        spread = f"{len(found)} seeds, {min(found):.0f} to {max(found):.0f}"
        parts.append(f"{body} {sum(found) / len(found):.0f} ({spread})")
    page = "[page](benchmarks/results/control/td3_plus.md)"
    return f" `--config=td3_plus` after 100k steps: {', '.join(parts)} ({page})."


def recommendation_sentence() -> str:
    """Where recommenders that were trained without the truth stand, beside the best that needs no training."""
    parts = []
    for what, table in (
        ("Coat", record_of("recsys_coat_model")["standings"]),
        ("MovieLens-100k", record_of("recsys_recall")),
    ):
        for mode in ("FB", "NX_10"):
            returns = {
                policy: row["return"]["mean"] for policy, row in table[mode].items() if "*" not in policy
            }
            own = returns.pop("td3_rec" if what == "Coat" else "td3_rec, reward=both")
            best = max(_others(returns), key=lambda policy: returns[policy])
            parts.append(f"{what} {mode} {own:.1f} (best baseline: {best} {returns[best]:.1f})")
    recall = {
        name: row["recall@10"]["mean"]
        for name, row in record_of("recsys_recall")["real"].items()
        if "seeds" in row
    }
    own = recall.pop("td3_rec, reward=both")
    found = ", ".join(
        f"{name} {recall[name]:.3f}" for name in sorted(_others(recall), key=lambda n: -recall[n])[:3]
    )
    parts.append(f"what users rated next (MovieLens-100k, real, recall@10) {own:.3f}, beside {found}")
    return (
        f"Recommendation, simulated return, nothing of the truth in training: {'; '.join(parts)}. `recommend --by=` "
        "serves the user model's, its second head's or popularity's ranking instead ([what TD3 adds](docs/recsys.md))."
    )


def _others(names: Iterable[str]) -> list[str]:
    """Those that were not trained."""
    return [name for name in names if not name.startswith("td3_rec")]


SENTENCES = {
    "speed": speed_sentence,
    "learning": learning_sentence,
    "recommendation": recommendation_sentence,
}


def with_sentences(readme: str) -> str:
    """The README with what the data says between its markers."""
    for name, sentence in SENTENCES.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)"
        readme = re.sub(
            pattern, lambda found, s=sentence: f"{found[1]}{s()}{found[2]}", readme, flags=re.DOTALL
        )
    return readme


def draw_learning(out: Path) -> Path:
    """The curves of the README: every seed thin, their mean thick."""
    import numpy as np

    from twofold.show import style

    names = {"td3_halfcheetah": "HalfCheetah-v5", "td3_walker2d": "Walker2d-v5", "td3_hopper": "Hopper-v5"}
    figure, panels = style.new_figure(9.6, 2.9, (1, 3))
    for index, (name, title) in enumerate(names.items()):
        with open(folder_of(name) / f"{name}.csv") as file:
            rows = [
                (row["seed"], int(row["step"]), float(row["return_mean"])) for row in csv.DictReader(file)
            ]
        seeds = [
            np.array([(s, v) for seed, s, v in rows if seed == one])
            for one in dict.fromkeys(r[0] for r in rows)
        ]
        axes, colour = panels[0, index], style.colour(index)
        for seed in seeds:
            axes.plot(seed[:, 0], seed[:, 1], color=colour, linewidth=0.8, alpha=0.4)
        axes.plot(
            seeds[0][:, 0], np.mean([seed[:, 1] for seed in seeds], axis=0), color=colour, linewidth=2.2
        )
        style.title(axes, title)
        style.steps_axis(axes)
    panels[0, 0].set_ylabel("return on validation seeds")
    return style.write_figure(figure, out)


def main() -> None:
    (RESULTS / "README.md").write_text(results_index())
    readme = ROOT / "README.md"
    readme.write_text(with_sentences(readme.read_text()))
    draw_learning(RESULTS / "control" / "learning.png")


if __name__ == "__main__":
    main()
