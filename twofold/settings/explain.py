"""Settings that explain themselves: as text, as data for the documentation, as a JSON schema for editors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import get_args

from pydantic import TypeAdapter

from twofold.base.errors import ConfigError
from twofold.base.values import Values
from twofold.settings.config import Config, RunSettings, sections
from twofold.settings.schema import REQUIRED, Setting, group_of, is_dict, nearest, schema_of, type_name


def declared(config: Config) -> dict[str, list[Setting]]:
    """Every setting of a config by section, in the order of declaration; the section '' is the run's own."""
    chosen = {"env": config.env, "learner.name": config.learner_name, "networks.name": config.networks_name}
    found = {"": list(schema_of(RunSettings).leaves.values())}
    for section, cls in sections(chosen).items():
        schema = schema_of(cls, f"{section}.")
        found[section] = [
            s for path in _in_order(schema.all) for s in (schema.all[path], *_inside(schema.all[path]))
        ]
    return found


def _inside(setting: Setting) -> list[Setting]:
    """The settings of each entry of a dictionary of settings."""
    inner = get_args(setting.type)
    group = group_of(inner[1]) if is_dict(setting.type) and inner else None
    return [] if group is None else list(schema_of(group, f"{setting.path}.NAME.").leaves.values())


def _in_order(paths: Iterable[str]) -> list[str]:
    """Groups directly before what they hold."""
    known = list(paths)
    places = {path: float(place) for place, path in enumerate(known)}

    def place(path: str) -> float:
        inside = [places[p] for p in known if p.startswith(f"{path}.")]
        return min(inside) - 0.5 if inside else places[path]

    return sorted(known, key=place)


def explained(config: Config, section: str = "true") -> str:
    """What the settings of one section, of all, or of those with a word in their names mean."""
    found = declared(config)
    if section in found:
        found = {section: found[section]}
    elif section != "true":
        found = {"": [s for settings in found.values() for s in settings if _is_about(s, section)]}
        if not found[""]:
            hint = nearest(section, declared(config))
            did = f"; did you mean '{hint}'?" if hint else ""
            sections = ", ".join(filter(None, declared(config)))
            raise ConfigError(
                f"no section '{section}', and no setting with it in its name: there are {sections}{did}"
            )
    return "\n".join(_lines(setting) for settings in found.values() for setting in settings)


def _is_about(setting: Setting, word: str) -> bool:
    return any(word in name for name in (setting.path, *setting.aliases))


def _lines(setting: Setting) -> str:
    default = "required" if setting.default is REQUIRED else f"default {_shown(setting.default)}"
    about = [type_name(setting.type), default, setting.bounds, setting.unit and f"in {setting.unit}"]
    if setting.aliases:
        about.append(f"also {', '.join(setting.aliases)}")
    return (
        f"{setting.path}\n    {setting.meaning or '(no description)'}\n    {'; '.join(filter(None, about))}"
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(map(str, value))}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        blank = type(value)()
        return str({k: v for k, v in given.items() if v != getattr(blank, k)} or "as listed")
    words: dict[object, str] = {None: "null", True: "true", False: "false"}
    return words.get(value, str(value)) if _hashable(value) else str(value)


def _hashable(value: object) -> bool:
    return isinstance(value, (bool, str)) or value is None


def json_schema(config: Config) -> Values:
    """A schema of the YAML files for these parts: editors complete names and check values with it."""
    chosen = {"env": config.env, "learner.name": config.learner_name, "networks.name": config.networks_name}
    whole = TypeAdapter(RunSettings).json_schema()
    properties, shared = whole["properties"], whole.pop("$defs", {})
    for section, cls in sections(chosen).items():
        own = TypeAdapter(cls).json_schema()
        shared |= own.pop("$defs", {})
        if section in ("learner", "networks"):
            own["properties"] = {"name": {"type": "string"}} | own["properties"]
        properties[section] = own
    properties |= {"extends": {"type": "string"}, "worlds": {"type": "array", "items": {"type": "string"}}}
    whole |= {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "twofold", "$defs": shared}
    return whole
