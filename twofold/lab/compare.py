"""Groups of runs side by side: what differs, a table over seeds, and a verdict for each against the first."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack

import numpy as np

from twofold.base.errors import UserError
from twofold.lab import statistics
from twofold.lab.groups import Difference, Group, differences, group_runs
from twofold.lab.runs import Problem, RunRecord, is_off, read_runs
from twofold.lab.statistics import FEW, Estimate, Values
from twofold.lab.verdict import Verdict, corrected, judge, waiting

Score = Literal["test", "last", "area"]
MEANING: dict[Score, str] = {
    "test": "the policy chosen on validation seeds, on test seeds",
    "last": "the last policy, on validation seeds",
    "area": "the mean over the whole learning curve, on validation seeds",
}


def score_named(name: str) -> Score:
    """The score of this name."""
    for known in MEANING:
        if known == name:
            return known
    raise UserError(f"score must be one of {', '.join(MEANING)}, got '{name[:40]}'")


References = Mapping[str, tuple[float, float]]  # world -> (score that counts as 0, score that counts as 1)


@dataclass(frozen=True)
class Row:
    """One group: the score of every seed and what they say together."""

    name: str
    seeds: tuple[int, ...]
    scores: tuple[float, ...]  # in the order of the seeds
    mean: Estimate
    iqm: Estimate | None  # from five seeds on
    worst: tuple[int, float]  # seed and score
    reaching: Estimate | None  # share of seeds at or above the threshold, if one was given
    gap: Estimate | None  # optimality gap, where the world has reference scores
    failed: tuple[int, ...]  # seeds that ended in an error: they count with their last evaluation
    unfinished: tuple[int, ...]  # seeds that are left out until they have ended
    group: Group


@dataclass(frozen=True)
class Table:
    """The groups that may be compared: one world, one number of steps, one version of the physics."""

    world: str
    steps: int
    physics: Mapping[str, str]
    rows: tuple[Row, ...]
    verdicts: tuple[Verdict, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything `compare` knows."""

    score: Score
    metric: str
    threshold: float | None
    tables: tuple[Table, ...]
    overall: tuple[Verdict, ...]  # over all worlds, for variants that are in each
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    variants: int  # how many were tried: the more, the better the best of them looks by chance


class Asked(TypedDict, total=False):
    """What can be asked of a comparison; everything has a default."""

    score: Score  # which number a run counts with: see MEANING
    metric: str  # "return"; "WORLD: METRIC" for another evaluation world than the one that chooses the best policy
    threshold: float | None  # also tell the share of seeds at or above
    baseline: str | None  # the name of the group that the others are compared with; the first
    references: References | None  # for normalised scores
    names: Mapping[Path, str] | None  # of groups, by their run directories


def compare(places: Sequence[Path], **asked: Unpack[Asked]) -> Comparison:
    """Read all runs below the places and compare their groups with the first, or with the one named `baseline`."""
    score, metric, threshold = (
        asked.get("score", "test"),
        asked.get("metric", "return"),
        asked.get("threshold"),
    )
    if score not in MEANING:
        raise UserError(f"no score '{score}': give one of {', '.join(MEANING)}")
    found = read_runs(places)
    groups = _renamed(group_runs(found.runs), asked.get("names") or {})
    if not groups:
        why = f" ({found.problems[0].message})" if found.problems else ""
        raise UserError(f"no run below {', '.join(map(str, places))}: nothing to compare{why}")
    options = _Options(score, metric, threshold, asked.get("references") or {})
    baseline = asked.get("baseline")
    tables = _judged([_table(same, options, baseline) for same in _comparable(groups)])
    notes = [*_apart(tables), *_no_baseline(tables, baseline)]
    return Comparison(
        score,
        metric,
        threshold,
        tuple(t for t in tables if t.rows),
        tuple(_overall(tables, options)),
        found.problems,
        (*notes, *(note for t in tables if not t.rows for note in t.notes)),
        len({variant_key(group) for group in groups}),
    )


@dataclass(frozen=True)
class _Options:
    score: Score
    metric: str
    threshold: float | None
    references: References


def _renamed(groups: list[Group], names: Mapping[Path, str]) -> list[Group]:
    """Names that somebody chose go before names made of settings."""
    renamed = []
    for group in groups:
        chosen = {names.get(run.folder) for run in group.runs}
        name = chosen.pop() if len(chosen) == 1 else None
        renamed.append(replace(group, name=name) if name else group)
    return renamed


# ---- what may be compared -----------------------------------------------------------------------------------------


def _comparable(groups: list[Group]) -> list[list[Group]]:
    """Groups of the same world, steps and versions of the physics together."""
    found: dict[tuple[str, int, str], list[Group]] = {}
    for group in groups:
        same = [g for g in groups if (g.world, g.steps) == (group.world, group.steps)]
        everywhere = sorted(set.intersection(*(set(g.physics) for g in same)))
        versions = json.dumps({p: group.physics[p] for p in everywhere})
        found.setdefault((group.world, group.steps, versions), []).append(group)
    return list(found.values())


def _apart(tables: list[Table]) -> list[str]:
    """Why groups of one world are in different tables."""
    notes = []
    for world in dict.fromkeys(t.world for t in tables):
        same = [t for t in tables if t.world == world]
        steps = sorted({t.steps for t in same})
        if len(steps) > 1:
            shown = " and ".join(f"{s:,}" for s in steps)
            notes.append(f"{world}: runs of {shown} steps are not compared with each other")
        if len(same) > len(steps):
            names = sorted({p for t in same for p in t.physics if len({o.physics.get(p) for o in same}) > 1})
            notes.append(f"{world}: runs with other versions of {', '.join(names)} are not compared")
    return notes


def _no_baseline(tables: list[Table], baseline: str | None) -> list[str]:
    if baseline is None or any(row.name == baseline for t in tables for row in t.rows):
        return []
    known = ", ".join(dict.fromkeys(row.name for t in tables for row in t.rows))
    return [f"no group is named '{baseline}' ({known}): the first is the baseline"]


# ---- one table ------------------------------------------------------------------------------------------------------


def _table(groups: list[Group], options: _Options, baseline: str | None) -> Table:
    first = groups[0]
    groups = sorted(groups, key=lambda g: g.name != baseline)
    made = [(group, _row(group, options)) for group in groups]
    rows = tuple(row for _, row in made if row)
    notes = [f"{g.name}: no finished run with a score, left out" for g, row in made if row is None]
    notes += [note for group in groups for note in _group_notes(group)]
    different = differences([row.group for row in rows]) if rows else []
    if any(d.setting.startswith("env") for d in different):
        notes.append("the settings of the world differ: make sure that scores mean the same")
    physics = {p: v for p, v in first.physics.items() if all(g.physics.get(p) == v for g in groups)}
    return Table(first.world, first.steps, physics, rows, (), tuple(different), tuple(notes))


def _group_notes(group: Group) -> list[str]:
    notes = []
    if group.copies:
        seeds = ", ".join(str(seed) for seed in sorted({run.seed for run in group.copies}))
        notes.append(f"{group.name}: seed {seeds} was run more than once and counts once")
    commits = sorted({run.provenance.commit for run in group.runs if run.provenance.commit})
    if len(commits) > 1:
        notes.append(f"{group.name}: runs of several commits ({', '.join(commits)})")
    return notes


def _row(group: Group, options: _Options) -> Row | None:
    scored = [(run, value) for run in group.runs if (value := score_of(run, options)) is not None]
    if not scored:
        return None
    seeds, values = [run.seed for run, _ in scored], np.array([value for _, value in scored])
    worst = int(values.argmin())
    reaching = None
    if options.threshold is not None:
        reaching = statistics.share_interval(int((values >= options.threshold).sum()), len(values))
    return Row(
        group.name,
        tuple(seeds),
        tuple(map(float, values)),
        statistics.mean_interval(values),
        statistics.bootstrap(statistics.iqm, [values]) if len(values) >= FEW else None,
        (seeds[worst], float(values[worst])),
        reaching,
        _gap(group.world, values, options.references),
        tuple(run.seed for run, _ in scored if run.state == "failed"),
        tuple(run.seed for run in group.runs if run.seed not in seeds),
        group,
    )


def _gap(world: str, values: Values, references: References) -> Estimate | None:
    if world not in references or len(values) < FEW:
        return None
    return statistics.bootstrap(statistics.optimality_gap, [normalised(world, values, references)])


def normalised(world: str, values: Sequence[float] | Values, references: References) -> Values:
    """Scores on the scale where the world's references are 0 and 1."""
    low, high = references[world]
    if not high > low:
        raise UserError(
            f"references of {world}: the upper score must be above the lower, got {low} and {high}"
        )
    return (np.asarray(values, float) - low) / (high - low)


def score_of(run: RunRecord, options: _Options) -> float | None:
    """The score of one run, None if it has none yet; a failed run counts as its last evaluation, never as absent."""
    if run.state not in ("finished", "failed"):
        return None
    tested = run.tested(options.metric)
    if options.score == "test" and tested is not None:
        return tested.mean
    curve = run.curve(options.metric)
    if curve is None or (options.score == "test" and run.state != "failed"):
        return None
    if options.score == "area":
        steps = np.append(curve.steps, max(run.steps, int(curve.steps[-1])))
        values = np.append(curve.mean, curve.mean[-1])  # what a failed run did not learn it never has
        span = float(steps[-1] - steps[0])
        return float(np.trapezoid(values, steps) / span) if span else float(values[-1])
    return float(curve.mean[-1])


def _judged(tables: list[Table]) -> list[Table]:
    """Every other group of a table against its first; the more comparisons in all tables, the surer each must be."""
    raw = [(table, row) for table in tables for row in table.rows[1:]]
    verdicts = corrected([_against(row, table.rows[0]) for table, row in raw])
    waited = [
        _postponed(verdict, row, table.rows[0]) for verdict, (table, row) in zip(verdicts, raw, strict=True)
    ]
    by_table = {id(t): tuple(v for v, (own, _) in zip(waited, raw, strict=True) if own is t) for t in tables}
    return [replace(table, verdicts=by_table[id(table)]) for table in tables]


def _against(row: Row, base: Row) -> Verdict:
    return judge(row.name, base.name, [np.array(row.scores)], [np.array(base.scores)])


def _postponed(verdict: Verdict, row: Row, base: Row) -> Verdict:
    missing = [f"{r.name} seed {s}" for r in (row, base) for s in r.unfinished]
    return waiting(verdict, missing) if missing else verdict


# ---- over worlds ----------------------------------------------------------------------------------------------------


def variant_key(group: Group) -> str:
    """What makes a variant in any world: what its algorithm and the command line set, but not the world's own file."""
    chosen = {
        key: value
        for key, value in group.settings.items()
        if group.origin.get(key, "command line").startswith(("algs/", "command line"))
        and key.split(".")[0] not in ("env", "env_args")
        and key != "trainer.steps"
        and not is_off(value)
    }
    return json.dumps(chosen, sort_keys=True, default=str)


def _overall(tables: Sequence[Table], options: _Options) -> list[Verdict]:
    """The chance to be better in a world drawn at random, for variants that ran in every world."""
    tables = [t for t in tables if len(t.rows) > 1]
    if len(tables) < 2:
        return []
    by_variant = [{variant_key(row.group): row for row in t.rows} for t in tables]
    common = [k for k in by_variant[0] if all(k in rows for rows in by_variant)]
    base = variant_key(tables[0].rows[0].group)
    if base not in common or any(row.unfinished for rows in by_variant for row in rows.values()):
        return []
    scores = {key: [np.array(rows[key].scores) for rows in by_variant] for key in common}
    name = {key: by_variant[0][key].name for key in common}
    return corrected([judge(name[k], name[base], scores[k], scores[base]) for k in common if k != base])


# ---- as data --------------------------------------------------------------------------------------------------------


def to_data(comparison: Comparison) -> dict[str, object]:
    """What --json prints: every number of the table with the runs behind it."""
    return {
        "score": comparison.score,
        "meaning": MEANING[comparison.score],
        "metric": comparison.metric,
        "threshold": comparison.threshold,
        "variants": comparison.variants,
        "tables": [_table_data(table) for table in comparison.tables],
        "overall": [dataclasses.asdict(v) for v in comparison.overall],
        "problems": [{"place": str(p.place), "message": p.message} for p in comparison.problems],
        "notes": list(comparison.notes),
    }


def _table_data(table: Table) -> dict[str, object]:
    rows = []
    for row in table.rows:
        kept = {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if f.name != "group"}
        plain = {k: dataclasses.asdict(v) if isinstance(v, Estimate) else v for k, v in kept.items()}
        rows.append(
            {
                **plain,
                "runs": [str(run.folder) for run in row.group.runs],
                "command": row.group.runs[0].provenance.command,
            }
        )
    return {
        "world": table.world,
        "steps": table.steps,
        "physics": dict(table.physics),
        "rows": rows,
        "verdicts": [dataclasses.asdict(v) for v in table.verdicts],
        "differences": [dataclasses.asdict(d) for d in table.differences],
        "notes": list(table.notes),
    }
