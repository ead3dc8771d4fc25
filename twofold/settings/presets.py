"""YAML files of settings: the presets of every domain, and the user's own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from twofold.base.errors import ConfigError
from twofold.base.values import Values
from twofold.settings.domains import domains
from twofold.settings.schema import nearest

Kind = Literal["algs", "envs"]
DEFAULT = Path(__file__).resolve().parent / "default.yaml"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)?$")
_MAX_CONFIG_BYTES = 32_000  # parses in under a second whatever is in it
_MAX_EXTENDS = 10
_MAX_BRACKETS = 50
_NOTES = ("extends", "worlds")  # what a preset says of itself; no settings


@dataclass(frozen=True)
class Preset:
    """A named file of settings, and what it says of itself."""

    name: str
    path: Path
    domain: str
    about: str  # its first comment
    worlds: tuple[str, ...]  # presets of worlds that it is made for; empty: any of its domain


def parse_value(text: str) -> object:
    """A command-line value by YAML's rules, plus 1e-3 as a number; 'a,b' is a list."""
    if "," in text and text[:1] not in "[{\"'":
        return [parse_value(part) for part in text.split(",") if part]
    try:
        return numbers_of(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError, ValueError):
        return text


def numbers_of(value: object) -> object:
    """YAML 1.1 reads 1e-3 as a string: make it the number it looks like, everywhere inside `value`."""
    if isinstance(value, str) and _NUMBER.match(value):
        return float(value)
    if isinstance(value, dict):
        return {k: numbers_of(v) for k, v in value.items()}
    return [numbers_of(v) for v in value] if isinstance(value, list) else value


def read_yaml(path: Path, depth: int = 0) -> Values:
    """The file as nested dicts; its `extends` is read first and overlaid."""
    content = _parsed(path)
    base = content.get("extends")
    content = {key: value for key, value in content.items() if key not in _NOTES}
    if base is None:
        return content
    if depth > _MAX_EXTENDS:
        raise ConfigError(f"{path}: `extends` goes round in a circle, or is nested too deeply")
    return overlay(read_yaml(_base(path, str(base)), depth + 1), content)


def _parsed(path: Path) -> Values:
    if not path.is_file():
        raise ConfigError(f"no config file {path}")
    if path.stat().st_size > _MAX_CONFIG_BYTES:
        raise ConfigError(f"{path} is larger than {_MAX_CONFIG_BYTES} bytes: not a config file")
    try:
        text = path.read_text()
        if _brackets(text) > _MAX_BRACKETS:
            raise ConfigError(f"{path} is not a valid config: lists in lists without end")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"{path}: aliases (*name) can expand without end; write the values out")
        content = numbers_of(yaml.safe_load(text) or {})
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path} is not a valid config: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, found {type(content).__name__}")
    return content


def _base(path: Path, name: str) -> Path:
    """The file that `extends` names: a neighbour, or a preset of the same kind."""
    beside = path.parent / f"{name}.yaml"
    if beside.is_file() or "/" in name:
        return beside
    kind: Kind = "envs" if path.parent.name == "envs" else "algs"
    return find_config(kind, name)


def _brackets(text: str) -> int:
    """How deep brackets are nested: PyYAML takes minutes over thousands of them."""
    steps = [1 if c in "[{" else -1 for c in text if c in "[]{}"]
    return max(itertools.accumulate(steps), default=0)


def overlay(below: Mapping[str, object], above: Mapping[str, object]) -> Values:
    """Nested dicts merged, `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def flatten(nested: Mapping[str, object], prefix: str = "") -> Values:
    """Nested dicts as dotted names."""
    flat: Values = {}
    for key, value in nested.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat


# ---- finding them -----------------------------------------------------------------------------------------------


def preset_paths(kind: Kind) -> dict[str, Path]:
    """Every preset of a kind by name."""
    folders = [domain.presets for domain in domains().values() if domain.presets is not None]
    return {path.stem: path for folder in folders for path in sorted((folder / kind).glob("*.yaml"))}


def presets(kind: Kind) -> list[Preset]:
    """The presets of a kind, domain by domain."""
    return [
        _described(path, domain.name)
        for domain in domains().values()
        if domain.presets is not None
        for path in sorted((domain.presets / kind).glob("*.yaml"))
    ]


def _described(path: Path, domain: str) -> Preset:
    first = path.read_text().partition("\n")[0]
    named = _parsed(path).get("worlds")
    made_for = tuple(map(str, named)) if isinstance(named, list) else ()
    return Preset(
        path.stem, path, domain, first.removeprefix("# ") if first.startswith("# ") else "", made_for
    )


def find_config(kind: Kind, name: str) -> Path:
    """A preset by name, or a path to the user's own file."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = preset_paths(kind)
    if name not in known:
        raise ConfigError(_no_preset(kind, name, known))
    return known[name]


def _no_preset(kind: Kind, name: str, known: Iterable[str]) -> str:
    """What is not here is said where it is asked for; a slip gets the nearest name."""
    option = {"algs": "--config", "envs": "--env-config"}[kind]
    why = [domain.absent[name.lower()] for domain in domains().values() if name.lower() in domain.absent]
    if kind == "algs" and why:
        return f"{option}={name} is not here: {why[0]}"
    hint = nearest(name, known)
    did = f"did you mean '{hint}'?" if hint else "a path to a .yaml file works too"
    return f"no {option} named '{name}'; {did} (twofold list shows all)"


def config_names(kind: Kind) -> list[str]:
    return sorted(preset_paths(kind))
