"""Layers default < env-config < config < command line -> frozen dataclasses; strict, and it says who set what."""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from twofold.core.errors import ConfigError
from twofold.core.replay import ReplayConfig
from twofold.core.trainer import TrainerConfig
from twofold.settings.registry import learners, networks, worlds
from twofold.settings.schema import Setting, convert, nearest, resolve_name, schema_of

CONF = Path(__file__).resolve().parent.parent / "conf"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d+)([eE][-+]?\d+)?$")
_MAX_CONFIG_BYTES = 32_000  # parses in under a second whatever is in it
_MAX_EXTENDS = 10
_MAX_BRACKETS = 50
# Settings that choose a part, with their defaults, and the section that belongs to the part.
_CHOICES = {"env": "control/gym", "learner.name": "td3", "networks.name": "vector"}
_SECTION = {"env": "env_args.", "learner.name": "learner.", "networks.name": "networks."}


@dataclass(frozen=True)
class Config:
    """A whole run: what `twofold train` resolves its layers to."""

    seed: int = 0
    threads: int = 1  # torch threads
    debug: bool = False  # tracebacks for every error, more log
    env: str = "control/gym"  # a registered world
    env_args: Any = None  # the world's settings
    learner: Any = None  # the learner's settings
    networks: Any = None  # the networks' settings
    learner_name: str = "td3"  # chosen by learner.name
    networks_name: str = "vector"  # chosen by networks.name
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)

    def __post_init__(self) -> None:
        if self.seed < 0 or self.threads < 1:
            raise ConfigError(
                f"seed must be at least 0 and threads at least 1, got {self.seed}, {self.threads}"
            )


@dataclass(frozen=True)
class Layer:
    """Settings from one place, as dotted names."""

    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Resolved:
    """The config, its values as dotted names, and the layer that set each."""

    config: Config
    values: dict[str, Any]
    origin: dict[str, str]


# ---- reading layers ---------------------------------------------------------------------------------------------


def parse_value(text: str) -> Any:
    """A command-line value by YAML's rules, plus 1e-3 as a number; 'a,b' is a list."""
    if "," in text and text[:1] not in "[{\"'":
        return [parse_value(part) for part in text.split(",") if part]
    try:
        return numbers_of(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError):
        return text


def numbers_of(value: Any) -> Any:
    """YAML 1.1 reads 1e-3 as a string: make it the number it looks like, everywhere inside `value`."""
    if isinstance(value, str) and _NUMBER.match(value):
        return float(value)
    if isinstance(value, dict):
        return {k: numbers_of(v) for k, v in value.items()}
    return [numbers_of(v) for v in value] if isinstance(value, list) else value


def read_yaml(path: Path, depth: int = 0) -> dict[str, Any]:
    """The file as nested dicts; its `extends` is read first and overlaid."""
    if depth > _MAX_EXTENDS:
        raise ConfigError(f"{path}: `extends` goes round in a circle, or is nested too deeply")
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
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a valid config: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold `key: value` lines, found {type(content).__name__}")
    base = content.pop("extends", None)
    return overlay(read_yaml(path.parent / f"{base}.yaml", depth + 1), content) if base else content


def _brackets(text: str) -> int:
    """How deep brackets are nested: PyYAML takes minutes over thousands of them."""
    steps = [1 if c in "[{" else -1 for c in text if c in "[]{}"]
    return max(itertools.accumulate(steps), default=0)


def overlay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts merged, `above` wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def find_config(kind: Literal["algs", "envs"], name: str) -> Path:
    """A name of conf/algs or conf/envs, or a path to the user's own file."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    if not (CONF / kind / f"{name}.yaml").is_file() or "/" in name:
        option = {"algs": "--config", "envs": "--env-config"}[kind]
        hint = nearest(name, config_names(kind))
        did = f"did you mean '{hint}'?" if hint else "a path to a .yaml file works too"
        raise ConfigError(f"no {option} named '{name}'; {did} (twofold list shows all)")
    return CONF / kind / f"{name}.yaml"


def config_names(kind: str) -> list[str]:
    return sorted(path.stem for path in (CONF / kind).glob("*.yaml"))


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as dotted names."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def layers_for(config: str | None, env_config: str | None, overrides: dict[str, Any]) -> list[Layer]:
    """The four layers, lowest first."""
    found = [Layer("default.yaml", flatten(read_yaml(CONF / "default.yaml")))]
    for kind, name in (("envs", env_config), ("algs", config)):
        if name:
            path = find_config(kind, name)  # type: ignore[arg-type]
            found.append(Layer(f"{kind}/{path.name}", flatten(read_yaml(path))))
    return [*found, Layer("command line", overrides)]


# ---- schema -----------------------------------------------------------------------------------------------------


def _chosen(layers: list[Layer], name: str, *, default: str) -> str:
    """The value that the last layer gives to this name."""
    return next((str(layer.values[name]) for layer in reversed(layers) if name in layer.values), default)


def _without_replaced(layers: list[Layer]) -> list[Layer]:
    """Drop a layer's settings of a part (world, learner, networks) that a layer above replaced by another."""
    chosen = {name: _chosen(layers, name, default=default) for name, default in _CHOICES.items()}
    current, kept = dict(_CHOICES), []
    for layer in layers:
        current |= {name: str(layer.values[name]) for name in _CHOICES if name in layer.values}
        gone = tuple(_SECTION[name] for name in _CHOICES if current[name] != chosen[name])
        values = {k: v for k, v in layer.values.items() if not k.startswith(gone) or k in _CHOICES}
        kept.append(Layer(layer.name, values))
    return kept


def _sections(layers: list[Layer]) -> dict[str, type]:
    """The dataclass of each section that depends on a chosen name."""
    chosen = {name: _chosen(layers, name, default=default) for name, default in _CHOICES.items()}
    return {
        "env_args": worlds.get(chosen["env"]).config,
        "learner": learners.get(chosen["learner.name"]).config,
        "networks": networks.get(chosen["networks.name"]).config,
    }


def _schema(sections: dict[str, type]) -> dict[str, Setting]:
    schema = schema_of(Config)
    for section, cls in sections.items():
        del schema[section]
        schema |= schema_of(cls, f"{section}.")
    for section in ("learner", "networks"):
        default = schema.pop(f"{section}_name").default
        schema[f"{section}.name"] = Setting(f"{section}.name", str, default)
    return schema


# ---- resolving --------------------------------------------------------------------------------------------------


def resolve(layers: list[Layer]) -> Resolved:
    """Overlay the layers and build the config; any unknown or ill-typed setting is an error."""
    layers = [
        Layer(layer.name, {k.replace("-", "_"): v for k, v in layer.values.items()}) for layer in layers
    ]
    layers = _without_replaced(layers)
    sections = _sections(layers)
    schema = _schema(sections)
    values = {path: setting.default for path, setting in schema.items()}
    origin = dict.fromkeys(schema, "built in")
    for layer in layers:
        for key, value in layer.values.items():
            try:
                path = resolve_name(key, schema)
            except ConfigError as error:
                raise ConfigError(f"{layer.name}: {error}") from None
            _set(values, origin, path, value, layer.name, schema)
    typed = {p: convert(p, v, schema[p].type) if origin[p] != "built in" else v for p, v in values.items()}
    return Resolved(_build(typed, sections), typed, origin)


def _set(
    values: dict[str, Any], origin: dict[str, str], path: str, value: Any, layer: str, schema: Any
) -> None:
    """Put a value at its path; a path below a free-form dict goes into that dict."""
    if path in schema:
        values[path], origin[path] = value, layer
        return
    parts = path.split(".")
    owner = next(".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in schema)
    inner = ".".join(parts[len(owner.split(".")) :])
    values[owner], origin[owner] = {**(values[owner] or {}), inner: value}, layer


def _build(values: dict[str, Any], sections: dict[str, type]) -> Config:
    """Nested dataclasses from dotted names."""
    made = {section: _construct(cls, values, f"{section}.") for section, cls in sections.items()}
    made |= {f"{section}_name": values[f"{section}.name"] for section in ("learner", "networks")}
    return _construct(Config, values, "", made)  # type: ignore[no-any-return]


def _construct(cls: type, values: dict[str, Any], prefix: str, made: dict[str, Any] | None = None) -> Any:
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for entry in dataclasses.fields(cls):
        path = f"{prefix}{entry.name}"
        if made and entry.name in made:
            arguments[entry.name] = made[entry.name]
        elif dataclasses.is_dataclass(hints[entry.name]):
            arguments[entry.name] = _construct(hints[entry.name], values, f"{path}.")
        else:
            if values[path] is dataclasses.MISSING:
                raise ConfigError(f"the setting {path} has no default: give {path}=...")
            arguments[entry.name] = values[path]
    return cls(**arguments)


def load(config: str | None = None, env_config: str | None = None, **overrides: Any) -> Resolved:
    """Resolve a config by preset names and overrides, as the command line does."""
    return resolve(layers_for(config, env_config, flatten(overrides)))


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Dotted values as JSON can hold them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


def from_values(values: dict[str, Any], source: str) -> Resolved:
    """Rebuild a config from the dotted values that a run directory keeps."""
    return resolve([Layer(source, values)])
