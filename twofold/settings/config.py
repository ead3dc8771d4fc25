"""Layers default < env-config < config < command line -> frozen settings; strict, and it says who set what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from twofold.base.device import DeviceName
from twofold.base.errors import ConfigError, UnknownSetting
from twofold.base.setting import setting, settings
from twofold.base.values import Values
from twofold.core.replay import ReplayConfig
from twofold.core.trainer import TrainerConfig
from twofold.settings.check import checked, flat
from twofold.settings.presets import DEFAULT, Kind, find_config, flatten, read_yaml
from twofold.settings.registry import learners, networks, worlds
from twofold.settings.schema import REQUIRED, Schema, Setting, resolve_names, schema_of

# Settings that choose a part, with their defaults, and the section that belongs to the part.
_CHOICES = {"env": "control/gym", "learner.name": "td3", "networks.name": "vector"}
_SECTION = {"env": "env_args", "learner.name": "learner", "networks.name": "networks"}


@settings
class RunSettings:
    """What belongs to no part."""

    seed: int = setting("of everything random in the run", default=0, ge=0)
    threads: int = setting("of torch; more than one pays only on idle cores", default=1, ge=1, le=1_024)
    device: DeviceName = setting("where learning computes; auto: a GPU if there is one", default="cpu")
    debug: bool = setting("tracebacks for every error, more log", default=False, neutral=True)
    env: str = setting("a registered world", default="control/gym")


@dataclass(frozen=True)
class Agent:
    """What learns and acts: a learner and its networks, by name and settings."""

    learner_name: str
    learner: object  # an instance of the learner's settings
    networks_name: str
    networks: object  # an instance of the networks' settings


@dataclass(frozen=True)
class Config(Agent):
    """A whole run: what `twofold train` resolves its layers to."""

    seed: int
    threads: int
    device: DeviceName
    debug: bool
    env: str
    env_args: object  # an instance of the world's settings
    replay: ReplayConfig
    trainer: TrainerConfig


@dataclass(frozen=True)
class Layer:
    """Settings from one place, as dotted names."""

    name: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class Resolved:
    """The config, its values as dotted names, and the layer that set each."""

    config: Config
    values: Values
    origin: dict[str, str]


@cache
def neutral() -> frozenset[str]:
    """The settings that cannot change the bytes of a run: free to change in a resume, and no other variant."""
    declared = (
        schema_of(RunSettings) | schema_of(TrainerConfig, "trainer.") | schema_of(ReplayConfig, "replay.")
    )
    return frozenset(path for path, setting in declared.leaves.items() if setting.neutral)


Own = TypeVar("Own")


def own_settings(cls: type[Own], given: object) -> Own:
    """The settings of a part as the class that the part declared."""
    if not isinstance(given, cls):
        raise ConfigError(
            f"these are settings of another environment or part ({type(given).__name__}; {cls.__name__} is needed): "
            "name a run or a preset that fits"
        )
    return given


def settings_from(cls: type[Own], values: Mapping[str, object], prefix: str) -> Own:
    """Settings of a part from values that no layer held, checked like those of a config file."""
    schema = schema_of(cls, prefix)
    tree, _ = _overlaid(
        [Layer(prefix.rstrip("."), {f"{prefix}{k}": v for k, v in flatten(values).items()})], schema
    )
    for part in prefix.rstrip(".").split("."):
        inner = tree.get(part)
        tree = inner if isinstance(inner, dict) else {}
    return checked(cls, tree, prefix, schema)


def layers_for(config: str | None, env_config: str | None, overrides: Mapping[str, object]) -> list[Layer]:
    """The four layers, lowest first."""
    found = [Layer("default.yaml", flatten(read_yaml(DEFAULT)))]
    named: tuple[tuple[Kind, str | None], ...] = (("envs", env_config), ("algs", config))
    for kind, name in named:
        if name:
            path = find_config(kind, name)
            found.append(Layer(f"{kind}/{path.name}", flatten(read_yaml(path))))
    return [*found, Layer("command line", overrides)]


def load(config: str | None = None, env_config: str | None = None, **overrides: object) -> Resolved:
    """Resolve a config by preset names and overrides, as the command line does."""
    return resolve(layers_for(config, env_config, flatten(overrides)))


def from_values(values: Mapping[str, object], source: str) -> Resolved:
    """Rebuild a config from the dotted values that a run directory keeps."""
    return resolve([Layer(source, values)])


def agent_of(values: Mapping[str, object]) -> Agent:
    """The part of a config that acting needs; its world is not looked at."""
    chosen = _CHOICES | {name: str(values[name]) for name in ("learner.name", "networks.name")}
    classes = {
        "learner": learners.get(chosen["learner.name"]).config,
        "networks": networks.get(chosen["networks.name"]).config,
    }
    schema = schema_for(classes)
    own = {k: v for k, v in values.items() if k.startswith(tuple(f"{part}." for part in classes))}
    tree, _ = _overlaid([Layer("the policy", own)], schema)
    made: Values = {
        part: checked(cls, _unnamed(tree, part), f"{part}.", schema) for part, cls in classes.items()
    }
    return Agent(chosen["learner.name"], made["learner"], chosen["networks.name"], made["networks"])


def _unnamed(tree: Values, part: str) -> Values:
    group = tree.get(part)
    return {k: v for k, v in group.items() if k != "name"} if isinstance(group, dict) else {}


def plain(values: Values) -> Values:
    """Dotted values as JSON can hold them."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


# ---- which settings there are -----------------------------------------------------------------------------------


def _chosen(layers: list[Layer]) -> dict[str, str]:
    """The parts that the layers choose."""
    found = dict(_CHOICES)
    for layer in layers:
        found |= {name: str(layer.values[name]) for name in _CHOICES if name in layer.values}
    return found


def _without_replaced(layers: list[Layer]) -> list[Layer]:
    """Drop a layer's settings of a part (world, learner, networks) that a layer above replaced by another."""
    chosen, current, kept = _chosen(layers), dict(_CHOICES), []
    for layer in layers:
        current |= {name: str(layer.values[name]) for name in _CHOICES if name in layer.values}
        gone = tuple(f"{_SECTION[name]}." for name in _CHOICES if current[name] != chosen[name])
        values = {k: v for k, v in layer.values.items() if not k.startswith(gone) or k in _CHOICES}
        kept.append(Layer(layer.name, values))
    return kept


def sections(chosen: dict[str, str]) -> dict[str, type]:
    """The class of every section of settings."""
    return {
        "env_args": worlds.get(chosen["env"]).config,
        "learner": learners.get(chosen["learner.name"]).config,
        "networks": networks.get(chosen["networks.name"]).config,
        "replay": ReplayConfig,
        "trainer": TrainerConfig,
    }


def schema_for(classes: dict[str, type]) -> Schema:
    """All settings of a run with these sections."""
    schema = schema_of(RunSettings)
    for section, cls in classes.items():
        schema |= schema_of(cls, f"{section}.")
    names = [(f"{part}.name", _CHOICES[f"{part}.name"]) for part in ("learner", "networks")]
    chosen = {path: Setting(path, str, default, "a registered part") for path, default in names}
    return schema | Schema(chosen, {})


# ---- resolving --------------------------------------------------------------------------------------------------


def resolve(layers: list[Layer]) -> Resolved:
    """Overlay the layers and build the config; any unknown or ill-typed setting is an error."""
    layers = _without_replaced(
        [Layer(n.name, {k.replace("-", "_"): v for k, v in n.values.items()}) for n in layers]
    )
    chosen = _chosen(layers)
    classes = sections(chosen)
    schema = schema_for(classes)
    tree, origin = _overlaid(layers, schema)
    made: Values = {
        name: checked(cls, _unnamed(tree, name), f"{name}.", schema) for name, cls in classes.items()
    }
    run = checked(RunSettings, {k: v for k, v in tree.items() if k not in classes}, "", schema)
    config = Config(
        learner_name=chosen["learner.name"],
        learner=made["learner"],
        networks_name=chosen["networks.name"],
        networks=made["networks"],
        seed=run.seed,
        threads=run.threads,
        device=run.device,
        debug=run.debug,
        env=run.env,
        env_args=made["env_args"],
        replay=own_settings(ReplayConfig, made["replay"]),
        trainer=own_settings(TrainerConfig, made["trainer"]),
    )
    values = flat(run) | {k: v for name, part in made.items() for k, v in flat(part, f"{name}.").items()}
    values |= {name: chosen[name] for name in ("learner.name", "networks.name")}
    return Resolved(config, values, {path: _set_by(path, origin) for path in values})


def _overlaid(layers: list[Layer], schema: Schema) -> tuple[Values, dict[str, str]]:
    """All layers as one nested dict, and which layer set each name."""
    tree: Values = {}
    origin: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            for path in _paths(layer, key, schema):
                _put(tree, path.split("."), value)
                _forget_below(origin, path)
                origin[path] = layer.name
    for group in schema.groups:
        _complete(tree, group, schema)
    return tree, origin


def _paths(layer: Layer, key: str, schema: Schema) -> tuple[str, ...]:
    """The settings that a key of a layer stands for; the error names the layer."""
    try:
        return resolve_names(key, schema)
    except UnknownSetting as error:
        raise UnknownSetting(f"{layer.name}: {error}", error.key, sure=error.sure) from None
    except ConfigError as error:
        raise ConfigError(f"{layer.name}: {error}") from None


def _complete(tree: Values, group: str, schema: Schema) -> None:
    """Give a group that is partly set the defaults of this setting, which may differ from those of its class."""
    *above, last = group.split(".")
    for part in above:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            return
        tree = inner
    given, default = tree.get(last), schema.groups[group].default
    if not isinstance(given, dict) or default in (None, REQUIRED):
        return
    for path, leaf in schema.leaves.items():
        name = path.removeprefix(f"{group}.")
        if path.startswith(f"{group}.") and "." not in name and leaf.default is not REQUIRED:
            given.setdefault(name, leaf.default)


def _put(tree: Values, parts: list[str], value: object) -> None:
    """Set a value below nested dicts; a bare number where a group is opened becomes the group's start."""
    *above, last = parts
    for part in above:
        inner = tree.get(part)
        if not isinstance(inner, dict):
            tree[part] = inner = {} if inner is None else {"start": inner}
        tree = inner
    tree[last] = value


def _forget_below(origin: dict[str, str], path: str) -> None:
    for known in [known for known in origin if known.startswith(f"{path}.")]:
        del origin[known]


def _set_by(path: str, origin: dict[str, str]) -> str:
    """The layer that set a value, its group or something inside of it."""
    parts = path.split(".")
    above = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    inside = [known for known in origin if known.startswith(f"{path}.")]
    return next((origin[known] for known in [*above, *inside] if known in origin), "built in")
