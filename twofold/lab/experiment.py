"""experiment.yaml: variants x worlds x seeds as a plan of `train` commands; the same file is always the same plan.

config: td3                      # an algorithm, or a file of one's own
env_config: [pendulum, hopper]   # worlds
seeds: 1..10                     # or [1, 2, 5]
set: {trainer.steps: 50000}      # for all
variants:
  default: {}
  patient: {learner.gamma: 0.999}
  ddpg: {config: ddpg}           # another algorithm
baseline: default                # what the others are compared with; the first if not said
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twofold.base.errors import ConfigError, UserError
from twofold.base.regular import is_there
from twofold.base.values import Values
from twofold.lab.compare import MEANING
from twofold.lab.groups import short, show, world_name
from twofold.lab.runs import read_run, variant_settings
from twofold.settings.config import Resolved, layers_for, plain, resolve
from twofold.settings.imports import import_user_code
from twofold.settings.presets import flatten, read_yaml, typed
from twofold.settings.schema import nearest
from twofold.store.records import last_step

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=+-]{0,59}")
_SEEDS = re.compile(r"(\d+)(?:\.\.(\d+))?")
_KEYS = (
    "title",
    "config",
    "env_config",
    "seeds",
    "set",
    "variants",
    "baseline",
    "score",
    "metric",
    "threshold",
    "references",
)
MAX_JOBS = 10_000
_MAX_SEED = 2**30


@dataclass(frozen=True)
class Job:
    """One run: a command that can be repeated until it is done, and then does nothing."""

    world: str
    variant: str
    seed: int
    folder: Path
    steps: int
    argv: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.world} {self.variant} seed {self.seed}"

    def reached(self) -> int:
        """World steps that are done."""
        return last_step(self.folder)

    def finished(self) -> bool:
        """True if the directory says that the run came to its end."""
        if not is_there(self.folder / "config.json"):
            return False
        try:
            record, _ = read_run(self.folder)
        except UserError:
            return False  # the command itself will say what is wrong
        return record.state == "finished" and record.steps == self.steps


@dataclass(frozen=True)
class Plan:
    """What an experiment file asks for."""

    title: str
    jobs: tuple[Job, ...]
    baseline: str
    score: str = "test"
    metric: str = "return"
    threshold: float | None = None
    references: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def names(self) -> dict[Path, str]:
        """The variant of every run directory."""
        return {job.folder: job.variant for job in self.jobs}


def read_plan(path: Path, folder: Path, imports: tuple[str, ...] = ()) -> Plan:
    """The plan of an experiment file, every setting of it checked before anything is run."""
    import_user_code(imports)
    try:
        return _plan(read_yaml(path), path, folder, imports)
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if message.startswith(str(path)) else f"{path}: {message}") from None


def plan_seeds(
    config: str,
    env_config: str,
    settings: Mapping[str, object],
    seeds: object,
    folder: Path,
    imports: tuple[str, ...] = (),
) -> Plan:
    """The plan of `train --seeds=1..10`: one variant, named after its algorithm and what was typed."""
    import_user_code(imports)
    name = _variant_name(config, settings)
    content: Values = {
        "config": config,
        "env_config": env_config,
        "set": dict(settings),
        "seeds": seeds,
        "variants": {name: {}},
    }
    return _plan({**content, "title": f"{name} {_stem(env_config)}"}, Path("command line"), folder, imports)


def _variant_name(config: str, settings: Mapping[str, object]) -> str:
    """A name for a folder that tells settings apart: those typed, and a checksum where they do not fit."""
    typed_in = "_".join(f"{short(key, list(settings))}={show(value)}" for key, value in settings.items())
    whole = "_".join(part for part in (Path(config).stem, typed_in) if part)
    name = re.sub(r"[^A-Za-z0-9_.=+-]", "-", whole)
    if name == whole and _NAME.fullmatch(name):
        return name
    content = json.dumps([config, dict(settings)], sort_keys=True, default=str).encode()
    return f"{name[:48]}_{hashlib.blake2b(content, digest_size=4).hexdigest()}"


def _plan(content: Values, path: Path, folder: Path, imports: tuple[str, ...]) -> Plan:
    if not content:
        raise ConfigError(f"nothing is asked for: give some of {', '.join(_KEYS)}")
    for key in content:
        if key not in _KEYS:
            hint = nearest(str(key), _KEYS)
            raise ConfigError(
                f"unknown key '{key}'" + (f"; did you mean '{hint}'?" if hint else f"; {', '.join(_KEYS)}")
            )
    worlds = {
        _stem(name): _where(name, path)
        for name in _texts(content.get("env_config", "pendulum"), "env_config")
    }
    variants = _variants(content, path)
    seeds = parse_seeds(content.get("seeds", 1))
    if len(worlds) * len(variants) * len(seeds) > MAX_JOBS:
        raise ConfigError(
            f"more than {MAX_JOBS:,} runs: {len(worlds)} worlds x {len(variants)} variants x {len(seeds)} seeds"
        )
    resolved = {(w, v): _resolved(worlds[w], variants[v]) for w in worlds for v in variants}
    _refuse_equal(resolved)
    jobs = tuple(
        make_job(folder, w, v, seed, worlds[w], variants[v], resolved[w, v], imports)
        for seed in seeds  # all variants of a seed before the next: what is there at any time is balanced
        for w in worlds
        for v in variants
    )
    return _asked(content, path, jobs, variants, resolved)


def _asked(
    content: Values,
    path: Path,
    jobs: tuple[Job, ...],
    variants: Mapping[str, Variant],
    resolved: Mapping[tuple[str, str], Resolved],
) -> Plan:
    baseline = str(content.get("baseline", next(iter(variants))))
    if baseline not in variants:
        raise ConfigError(f"baseline '{baseline}' is not a variant: {', '.join(variants)}")
    score = str(content.get("score", "test"))
    if score not in MEANING:
        raise ConfigError(f"score must be one of {', '.join(MEANING)}, got '{score}'")
    labels = {w: world_name(plain(found.values), found.origin) for (w, _), found in resolved.items()}
    return Plan(
        str(content.get("title", path.stem.replace("_", " "))),
        jobs,
        baseline,
        score,
        str(content.get("metric", "return")),
        _number(content["threshold"], "threshold") if "threshold" in content else None,
        _references(content.get("references", {}), labels),
    )


# ---- the parts of the file ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """An algorithm and what is changed in it."""

    config: str | None
    settings: Mapping[str, object]


def _variants(content: Values, path: Path) -> dict[str, Variant]:
    shared = flatten(_dict(content.get("set", {}), "set"))
    found = {}
    for name, changes in _dict(content.get("variants", {"default": {}}), "variants").items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigError(
                f"variant {str(name)[:60]!r}: names are letters, digits and _.=+-, for they name folders"
            )
        changed = dict(_dict(changes or {}, f"variants.{name}"))
        config = changed.pop("config", content.get("config", "td3"))
        settings = {**shared, **flatten(changed)}
        if "seed" in settings:
            raise ConfigError(f"variant '{name}' sets the seed: give seeds: 1..10 instead")
        found[name] = Variant(_where(str(config), path) if config else None, settings)
    if not found:
        raise ConfigError("variants must hold at least one, such as default: {}")
    return found


def _where(name: str, path: Path) -> str:
    """A name of a preset, or a file beside the experiment's."""
    return str((path.parent / name).resolve()) if name.endswith((".yaml", ".yml")) else name


def _stem(name: str) -> str:
    stem = Path(name).stem
    if not _NAME.fullmatch(stem):
        raise ConfigError(
            f"env_config {name[:60]!r}: names are letters, digits and _.=+-, for they name folders"
        )
    return stem


def _texts(value: object, key: str) -> list[str]:
    values = value if isinstance(value, list) else [value]
    texts = [v for v in values if isinstance(v, str)]
    if not values or len(texts) < len(values) or len({_stem(v) for v in texts}) < len(values):
        raise ConfigError(f"{key} must be a name or a list of different names, got {str(value)[:80]!r}")
    return texts


def parse_seeds(value: object) -> list[int]:
    """`1..10`, `3`, `1..3,7`, or a list of such."""
    parts = value if isinstance(value, list) else str(value).split(",")
    seeds: list[int] = []
    for part in parts:
        match = _SEEDS.fullmatch(str(part).strip())
        if match is None or isinstance(part, bool):
            raise ConfigError(f"seeds must be such as 1..10 or 1,2,5, got {str(value)[:80]!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last >= _MAX_SEED or last - first >= MAX_JOBS:
            raise ConfigError(
                f"seeds {part}: from a smaller to a larger number below 2^30, at most {MAX_JOBS:,}"
            )
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds {str(value)[:80]} hold one of them twice: the same seed is the same run")
    return seeds


def _references(value: object, labels: Mapping[str, str]) -> dict[str, tuple[float, float]]:
    """Scores that count as 0 and 1, by the name of the world or of its file."""
    found = {}
    for world, ends in _dict(value, "references").items():
        name = labels.get(str(world), str(world))
        if name not in labels.values() or not isinstance(ends, list) or len(ends) != 2:
            raise ConfigError(f"references.{world}: give [low, high] for one of {', '.join(labels)}")
        low, high = (_number(end, f"references.{world}") for end in ends)
        if not high > low:
            raise ConfigError(f"references.{world}: the second must be above the first")
        found[name] = (low, high)
    return found


def _dict(value: object, key: str) -> Values:
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must hold `name: value` lines, found {type(value).__name__}")
    return value


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{key} must be a finite number, got {str(value)[:40]!r}")
    return float(value)


# ---- jobs ---------------------------------------------------------------------------------------------------------


def _resolved(env_config: str, variant: Variant) -> Resolved:
    return resolve(layers_for(variant.config, env_config, dict(variant.settings)))


def _refuse_equal(resolved: Mapping[tuple[str, str], Resolved]) -> None:
    """Two variants of equal settings would be the same runs: comparing them says nothing."""
    seen: dict[str, tuple[str, str]] = {}
    for place, found in resolved.items():
        key = json.dumps(variant_settings(plain(found.values)), sort_keys=True, default=str)
        if key in seen:
            one, other = seen[key], place
            raise ConfigError(
                f"'{' '.join(one)}' and '{' '.join(other)}' have the same settings: they are the same runs"
            )
        seen[key] = place


def make_job(
    folder: Path,
    world: str,
    variant: str,
    seed: int,
    env_config: str,
    chosen: Variant,
    resolved: Resolved,
    imports: Sequence[str],
) -> Job:
    """The command of one run."""
    place = folder / world / variant / f"seed_{seed}"
    argv = [sys.executable, "-m", "twofold", "train"]
    argv += [f"--config={chosen.config}"] if chosen.config else []
    argv += [f"--env-config={env_config}", f"--run={place}", *(f"--import={name}" for name in imports)]
    argv += [f"seed={seed}", *(f"{key}={typed(value)}" for key, value in chosen.settings.items())]
    return Job(world, variant, seed, place, resolved.config.trainer.steps, tuple(argv))
