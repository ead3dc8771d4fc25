"""YAML files of settings: the presets of every domain, and the user's own."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from twofold.base.errors import CheckpointError, ConfigError, UserError
from twofold.base.regular import is_file, is_there, read_text
from twofold.base.values import Values
from twofold.settings.domains import domains
from twofold.settings.schema import nearest

Kind = Literal["algs", "envs"]
DEFAULT = Path(__file__).resolve().parent / "default.yaml"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)?$")
_MAX_CONFIG_BYTES = 32_000  # parses in under a second whatever is in it
_MAX_EXTENDS = 10
_MAX_BRACKETS = 50
_MAX_BITS = 63
_NOTES = ("extends", "worlds")  # what a preset says of itself; no settings


@dataclass(frozen=True)
class Preset:
    """A named file of settings, and what it says of itself."""

    name: str
    path: Path
    domain: str
    about: str  # its first comment
    worlds: tuple[str, ...]  # presets of worlds that it is made for; empty: any of its domain


_REDEFINED = ("timestamp", "int", "float")


class _PlainLoader(yaml.SafeLoader):
    """YAML of texts, numbers, truth values, null, lists and names: what JSON can hold. A date is a text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """As ever, but a name that comes twice is a mistake, not a choice of the last one."""
        found: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in found:
                raise yaml.YAMLError(f"'{key.value}' comes twice")
            found.add(str(key.value))
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] not in _REDEFINED]
    for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# YAML 1.1 also takes 1:30 for ninety and 010 for eight.
for _tag, _pattern in (
    ("int", r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)\Z"),
    (
        "float",
        r"[-+]?([0-9][0-9_]*\.[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z",
    ),
):
    _PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), list("-+.0123456789")
    )
_PlainLoader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if str(tag).rpartition(":")[2] not in ("timestamp", "binary", "set", "omap", "pairs")
}


def _loaded(text: str) -> object:
    loader = _PlainLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def parse_value(text: str) -> object:
    """A command-line value by YAML's rules, plus 1e-3 as a number; 'a,b' is a list."""
    if "," in text and text[:1] not in "[{\"'":
        return [parse_value(part) for part in text.split(",") if part]
    try:
        return numbers_of(_loaded(text)) if _brackets(text) <= _MAX_BRACKETS else text
    except (yaml.YAMLError, RecursionError, ValueError):
        return text


def typed(value: object) -> str:
    """A value as the command line must have it to be read as this value again."""
    text = str(value)
    if isinstance(value, str) and value and not value.startswith("-") and parse_value(value) == value:
        return value
    text = json.dumps(value)
    if parse_value(text) != value:
        raise UserError(f"{text[:80]} cannot be given on a command line")
    return text


def numbers_of(value: object) -> object:
    """YAML 1.1 reads 1e-3 as a string: make it the number it looks like, everywhere inside `value`."""
    if isinstance(value, str):
        return float(value) if _NUMBER.match(value) else _whole_letters(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ConfigError(f"a number of {value.bit_length() * 0.30103:.0f} digits: no setting is that large")
    if isinstance(value, dict):
        return {k: numbers_of(v) for k, v in value.items()}
    return [numbers_of(v) for v in value] if isinstance(value, list) else value


def _whole_letters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"'{text[:80]}' holds a letter that is none: give plain text") from None
    return text


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
    if not is_there(path):
        raise ConfigError(f"no config file {path}")
    try:
        text = read_text(path, _MAX_CONFIG_BYTES)
        if _brackets(text) > _MAX_BRACKETS:
            raise ConfigError(f"{path} is not a valid config: lists in lists without end")
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"{path}: aliases (*name) can expand without end; write the values out")
        loaded = _loaded(text) or {}
    except CheckpointError as error:
        raise ConfigError(f"{error}: not a config file") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path} is not a valid config: {str(error).splitlines()[0]}") from None
    try:
        content = numbers_of(loaded)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, found {type(content).__name__}")
    return content


def _base(path: Path, name: str) -> Path:
    """The file that `extends` names: a neighbour, or a preset of the same kind."""
    beside = path.parent / f"{name}.yaml"
    if is_file(beside) or "/" in name:
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
    first = read_text(path).partition("\n")[0]
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
