"""Runs that differ in nothing but their seed, named by what sets them apart from the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twofold.base.values import Json, number
from twofold.lab.runs import RunRecord, is_off, variant_settings

_COMPUTING = ("torch", "numpy")  # every other package that a run notes is part of its world
_MAX_NAMED = 4


@dataclass(frozen=True)
class Group:
    """The runs of one variant in one world, one for each seed."""

    name: str
    world: str
    settings: Mapping[str, Json]
    origin: Mapping[str, str]
    physics: Mapping[str, str]  # versions that the world depends on
    runs: tuple[RunRecord, ...]
    copies: tuple[RunRecord, ...] = ()  # runs whose seed is there already: the same bytes, no new evidence

    @property
    def label(self) -> str:
        return f"{self.name}, {len(self.runs)} seed{'s' if len(self.runs) != 1 else ''}"

    @property
    def steps(self) -> int:
        return int(number(self.settings.get("trainer.steps", 0)))


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same everywhere: its value and the layer that set it, by group."""

    setting: str
    values: tuple[tuple[str, str, str], ...]  # (group, value, layer)


def group_runs(runs: Iterable[RunRecord]) -> list[Group]:
    """Groups of equal settings, world and physics, in the order of their first run."""
    by_settings: dict[str, list[RunRecord]] = {}
    for run in runs:
        by_settings.setdefault(run.variant, []).append(run)
    groups = [group for same in by_settings.values() for group in _by_physics(same)]
    return named(groups)


def _by_physics(runs: list[RunRecord]) -> list[Group]:
    """Runs of equal settings apart by versions; a package that one of them did without cannot matter to any."""
    everywhere = set.intersection(*(set(run.provenance.packages) for run in runs)) - set(_COMPUTING)
    found: dict[tuple[tuple[str, str], ...], list[RunRecord]] = {}
    for run in runs:
        versions = {name: run.provenance.packages[name] for name in sorted(everywhere)}
        found.setdefault(tuple(versions.items()), []).append(run)
    return [_group(same, dict(versions)) for versions, same in found.items()]


def _group(runs: list[RunRecord], physics: dict[str, str]) -> Group:
    first = runs[0]
    kept: dict[int, RunRecord] = {}
    for run in sorted(runs, key=lambda r: (r.state != "finished", -r.step)):
        kept.setdefault(run.seed, run)
    chosen = tuple(sorted(kept.values(), key=lambda r: r.seed))
    copies = tuple(run for run in runs if run is not kept[run.seed])
    return Group(
        "",
        world_name(first.settings, first.origin),
        variant_settings(first.settings),
        first.origin,
        physics,
        chosen,
        copies,
    )


def world_name(settings: Mapping[str, object], origin: Mapping[str, str]) -> str:
    """What people call the world: its id or map, or the file that chose it, or its registered name."""
    for key in ("env_args.id", "env_args.map_name", "env_args.map", "env_args.name"):
        if isinstance(name := settings.get(key), str) and name:
            return name
    layer = origin.get("env", "")
    return Path(layer).stem if layer.startswith("envs/") else str(settings.get("env", "unknown"))


# ---- names ----------------------------------------------------------------------------------------------------------


def named(groups: Sequence[Group]) -> list[Group]:
    """Each group named by what sets it apart from those of the same world and steps, with which it can be compared."""
    names: dict[int, str] = {}
    for place in dict.fromkeys((group.world, group.steps) for group in groups):
        same = [group for group in groups if (group.world, group.steps) == place]
        names |= {id(group): name for group, name in zip(same, _names(same), strict=True)}
    return [replace(group, name=names[id(group)]) for group in groups]


def _names(groups: list[Group]) -> list[str]:
    presets = [_preset(group) for group in groups]
    keys = [d.setting for d in differences(groups)]
    if len(set(presets)) > 1:  # two algorithms differ in many settings: their name says it
        chosen = [[k for k in keys if not _from_file(g, k)] for g in groups]
        names = [_name(g, c, keys, p) for g, c, p in zip(groups, chosen, presets, strict=True)]
    else:
        names = [_name(g, keys, keys, "" if keys else presets[0]) for g in groups]
    names = [_with_versions(g, groups, n) for g, n in zip(groups, names, strict=True)]
    counts: Counter[str] = Counter()
    for i, name in enumerate(names):
        counts[name] += 1
        if counts[name] > 1:
            names[i] = f"{name} ({counts[name]})"
    return names


def _name(group: Group, keys: list[str], among: list[str], preset: str) -> str:
    shown = [f"{short(k, among)}={show(group.settings.get(k))}" for k in keys[:_MAX_NAMED]]
    more = [f"+{len(keys) - _MAX_NAMED} more"] if len(keys) > _MAX_NAMED else []
    return " ".join([*([preset] if preset else []), *shown, *more]) or "default"


def _with_versions(group: Group, groups: list[Group], name: str) -> str:
    """Versions belong to the name where equal settings ran on different ones."""
    same = [g for g in groups if g.settings == group.settings]
    apart = sorted(p for p in group.physics if len({g.physics.get(p) for g in same}) > 1)
    return " ".join([name, *(f"{p} {group.physics[p]}" for p in apart)])


def _preset(group: Group) -> str:
    """The algorithm's file, or the learner's name where none was given."""
    layers = [layer for layer in group.origin.values() if layer.startswith("algs/")]
    return Path(layers[0]).stem if layers else str(group.settings.get("learner.name", "default"))


def _from_file(group: Group, key: str) -> bool:
    return group.origin.get(key, "").endswith((".yaml", ".yml", "built in"))


def short(key: str, among: Sequence[str]) -> str:
    """The setting without its section (`expl_noise.start`), if no other of these is left the same."""
    inner = key.partition(".")[2] or key
    return inner if sum((k.partition(".")[2] or k) == inner for k in among) == 1 else key


def show(value: object) -> str:
    """A value as a person writes it, never long."""
    if isinstance(value, bool) or value is None:
        text = str(value).lower()
    elif isinstance(value, float):
        text = f"{value:g}"
    elif isinstance(value, list):
        text = ",".join(map(show, value))
    else:
        text = str(value)
    return text if len(text) <= 28 else f"{text[:27]}…"


def differences(groups: Sequence[Group]) -> list[Difference]:
    """Every setting that is not the same in all groups, with the layer that set it in each."""
    keys = sorted(set().union(*(g.settings for g in groups)))
    found = []
    for key in keys:
        found_here = [g.settings.get(key) for g in groups]
        if len({json.dumps(None if is_off(v) else v, sort_keys=True, default=str) for v in found_here}) > 1:
            values = tuple((g.name, show(g.settings.get(key)), g.origin.get(key, "")) for g in groups)
            found.append(Difference(key, values))
    return found
