"""speed.json, speed.md and speed.png from one record of bench.py.

python benchmarks/bench_report.py benchmarks/results/core/speed.json    # draws and writes again from the JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

METHOD = """\
HalfCheetah-v5 end to end: 256-256 networks, batch 256, learning rate 3e-4, policy delay 2, one update for each step,
replay of a million, {warmup:,} random steps first, TensorBoard on, evaluation off; else every library's own defaults by
its own public interface, without Gymnasium's passive checks. The clock is in the environment: it starts {skip}
learning steps after the warm-up and runs for at least {steps:,} steps and {seconds:g} s. Each run is a process of its
own; libraries take turns within a round, and ratios are medians over rounds of ours / theirs in the same round (lowest
to highest in brackets). "1 thread" is one CPU for everything, JAX included. A run is disturbed when other processes
used more than 0.2 of a core; such runs were repeated while the allowance lasted. "By processor time" compares steps for
each second of processor time, which busy neighbours hardly change. These are short runs with a replay nearly empty:
throughput only. Tianshou looks through its whole replay for NaN at every step, so a long run of it is slower than here;
our checkpoints, one a minute, do not fall into the timed window."""


def write(record: dict[str, Any], folder: Path) -> None:
    """All three files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "speed.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / "speed.md").write_text(text_of(record))
    draw(record, folder / "speed.png")


def text_of(record: dict[str, Any]) -> str:
    """The record for people."""
    machine, window = record["machine"], record["plan"]["window"]
    sections = [
        "# Speed",
        f"`{record['command']}`, commit {record['commit']}, {record['started']}. {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}. "
        f"{versions_of(record)}.",
        "## Targets",
        table(["", "measured", "target", "aim", ""], [_target(row) for row in record["targets"]]),
    ]
    for threads, found in record["summary"].items():
        sections += [
            f"## Steps per second, {threads} thread(s)",
            f"{found['quiet_rounds']} of {found['rounds']} rounds were undisturbed.",
            _systems(found["systems"], by_cpu_time=threads == "1"),
        ]
    sections += ["## Updates per second", *_updates(record["updates"]), "## Method", METHOD.format(**window)]
    if record["waiting"]:
        ways = ", ".join(f"{name} threads: {way}" for name, way in record["waiting"].items())
        sections.append(
            f"How OpenMP threads wait (OMP_WAIT_POLICY), the fastest of three ways by trial: {ways}."
        )
    return "\n\n".join(sections) + "\n"


def versions_of(record: dict[str, Any]) -> str:
    """Every package that was measured, once; ours and the peers' venv must agree on the physics."""
    found: dict[str, set[str]] = {}
    for run in record["runs"]:
        for name, version in run.get("versions", {}).items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {'/'.join(sorted(versions))}" for name, versions in found.items())


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _target(row: dict[str, Any]) -> list[str]:
    aim = "" if row["aim"] is None else f"{row['aim']:g}"
    met = "met" if row["met"] else "**not met**"
    return [row["what"], f"{row['measured']:.3g}", f"{row['relation']} {row['target']:g}", aim, met]


def _systems(systems: dict[str, Any], *, by_cpu_time: bool) -> str:
    """Speeds and ratios; threads that wait by spinning use processor time, so with two it says nothing."""
    head, keys = ["", "steps/s", "ours / it"], ["ours_over_it"]
    if by_cpu_time:
        head, keys = [*head, "by processor time"], [*keys, "by_cpu_time"]
    rows = [
        [name, _spread(found, ".1f"), *(_spread(found[key], ".2f") for key in keys)]
        for name, found in systems.items()
    ]
    return table(head, rows)


def _spread(found: dict[str, Any], form: str) -> str:
    if found["median"] is None:
        return ""
    return f"{found['median']:{form}} ({found['low']:{form}} - {found['high']:{form}})"


def _updates(found: dict[str, dict[str, float]]) -> list[str]:
    """Updates by each engine against matrix products, and how quiet it was."""
    engines = ("native", "fused", "autograd")
    head = ["", "products", *engines, *(f"{name} / products" for name in engines), "quiet chunks"]
    rows = [
        [
            case,
            *(_number(one.get(f"{name}_per_second"), ".1f") for name in ("products", *engines)),
            *(_number(one.get(f"{name}_share_of_products"), ".2f") for name in engines),
            f"{one['quiet_chunks']:.0%}",
        ]
        for case, one in found.items()
    ]
    return [
        table(head, rows),
        "`products` are the matrix products of the same update and nothing else, with as many torch threads; an update "
        "is the learner's whole one as the trainer calls it.",
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def draw(record: dict[str, Any], path: Path) -> None:
    """Bars of steps/s for each library and thread count, lowest to highest round as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    summary = record["summary"]
    figure, axes = pyplot.subplots(
        1, len(summary), figsize=(5 * len(summary), 3.4), sharex=True, squeeze=False
    )
    for axis, (threads, found) in zip(axes[0], summary.items(), strict=True):
        systems = {name: one for name, one in found["systems"].items() if one["median"] is not None}
        ranked = dict(sorted(systems.items(), key=lambda pair: pair[1]["median"]))
        medians = [one["median"] for one in ranked.values()]
        below = [one["median"] - one["low"] for one in ranked.values()]
        above = [one["high"] - one["median"] for one in ranked.values()]
        colours = ["#2a6fbb" if name == "twofold" else "#b9bdc4" for name in ranked]
        bars = axis.barh(list(ranked), medians, xerr=[below, above], capsize=3, color=colours)
        axis.bar_label(bars, [f"{median:.0f}" for median in medians], padding=6)
        axis.set_title(f"{threads} thread{'s' if threads != '1' else ''}")
        axis.set_xlabel("environment steps per second")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.15)
    figure.suptitle("TD3 on HalfCheetah-v5, one update for each step")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> None:
    """Text and chart again, from a record."""
    path = Path(sys.argv[1])
    write(json.loads(path.read_text()), path.parent)


if __name__ == "__main__":
    main()
