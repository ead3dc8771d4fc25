from __future__ import annotations

import pytest

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.settings.config import Config, load, settings_from
from twofold.settings.domains import domains
from twofold.settings.explain import declared, explained, json_schema
from twofold.settings.presets import Kind, config_names
from twofold.settings.registry import learners, networks, worlds
from twofold.settings.schema import Schema, edit_distance, nearest, resolve_name, schema_of


@settings
class Inner:
    users: int = setting("how many", default=3, ge=1)


@settings
class Outer:
    """For tests."""

    gamma: float = setting("discount", default=0.9, ge=0, le=1, unit="per step", aliases=("discount",))
    sizes: tuple[int, ...] = setting("widths", default=(4,))
    inner: Inner = setting("a group", default=Inner(5))
    free: dict[str, int] = setting("anything", factory=dict)


def schema() -> Schema:
    return schema_of(Outer, "learner.")


def test_edit_distance_counts_swaps_as_one() -> None:
    assert edit_distance("gamma", "gamma") == 0
    assert edit_distance("gmama", "gamma") == 1
    assert edit_distance("gama", "gamma") == 1
    assert nearest("zzzzzz", ["gamma", "tau"]) is None


def test_everything_that_was_declared_of_a_setting_is_in_the_schema() -> None:
    found = schema().leaves["learner.gamma"]
    assert (found.default, found.meaning, found.unit, found.aliases) == (
        0.9,
        "discount",
        "per step",
        ("discount",),
    )
    assert found.bounds == "at least 0, at most 1"


def test_a_group_has_the_defaults_of_its_setting_and_not_of_its_class() -> None:
    assert schema().leaves["learner.inner.users"].default == 5


@pytest.mark.parametrize("name", ["learner.gamma", "gamma", "discount", "learner.discount"])
def test_a_setting_is_found_whole_bare_or_by_an_alias(name: str) -> None:
    assert resolve_name(name, schema()) == "learner.gamma"


def test_names_below_a_dictionary_are_free_and_others_are_not() -> None:
    assert resolve_name("learner.free.any", schema()) == "learner.free.any"
    with pytest.raises(ConfigError, match=r"unknown setting 'gama'; did you mean 'gamma'"):
        resolve_name("gama", schema())


def test_a_class_of_settings_checks_itself_wherever_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"gamma must be at most 1, got 2\.0"):
        Outer(gamma=2.0)
    with pytest.raises(ConfigError, match="users must be at least 1, got 0"):
        Inner(0)


def test_what_people_write_is_understood() -> None:
    resolved = load("td3", "pendulum", replay={"batch_size": 64.0}, networks={"actor_hidden": 32.0})
    assert resolved.config.replay.batch_size == 64 and isinstance(resolved.config.replay.batch_size, int)
    assert resolved.config.networks.actor_hidden == (32,)


def test_whole_numbers_may_not_be_a_half_and_choices_not_a_slip() -> None:
    with pytest.raises(ConfigError, match=r"replay\.batch_size must be a whole number, got 2\.5"):
        load("td3", "pendulum", replay={"batch_size": 2.5})
    with pytest.raises(
        ConfigError, match=r"one of relu, tanh, elu, gelu, silu, got 'rleu'; did you mean 'relu'"
    ):
        load("td3", "pendulum", networks={"actor_activation": "rleu"})


def config() -> Config:
    return load("td3", "pendulum").config


def test_every_setting_of_everything_registered_has_a_meaning() -> None:
    for registry in (worlds, learners, networks):
        for name in (n for n in registry.names() if "/" not in n or n.split("/")[0] in domains()):
            for path, found in schema_of(registry.get(name).config).all.items():
                assert found.meaning, f"{registry.kind} {name}: {path}"
    assert all(found.meaning for section in declared(config()).values() for found in section)


def test_settings_are_explained_with_type_default_bounds_and_aliases() -> None:
    text = explained(config(), "learner")
    assert "learner.gamma\n    discount of a reward one step later\n" in text
    assert "number; default 0.99; at least 0, at most 1; also discount" in text
    with pytest.raises(ConfigError, match=r"no section 'lerner'.*did you mean 'learner'"):
        explained(config(), "lerner")


def test_the_json_schema_names_all_sections_with_their_descriptions() -> None:
    found = json_schema(config())["properties"]
    assert found["learner"]["properties"]["gamma"]["description"] == "discount of a reward one step later"
    assert found["learner"]["properties"]["gamma"]["maximum"] == 1
    assert {"seed", "env", "env_args", "learner", "networks", "replay", "trainer"} <= found.keys()


@pytest.mark.parametrize("kind", ["algs", "envs"])
def test_presets_have_names_of_their_own_in_all_domains(kind: Kind) -> None:
    assert len(config_names(kind)) == len(set(config_names(kind))) > 20


def test_td3_has_at_most_twenty_settings() -> None:
    found = schema_of(learners.get("td3").config)
    assert len([path for path in found.all if "." not in path]) <= 20


def test_a_dictionary_of_settings_is_explained_entry_by_entry() -> None:
    pytest.importorskip("ase")
    text = explained(load("td3_crystal", "crystal").config, "env_args")
    assert "dictionary of StructureSet" in text and "env_args.sets.NAME.rattle" in text


def test_a_list_that_is_too_short_says_so() -> None:
    @settings
    class Pair:
        pair: tuple[float, float] = setting("two numbers", default=(0.0, 1.0))

    with pytest.raises(
        ConfigError, match=r"env_args\.pair needs more values than it was given: number 2 is missing"
    ):
        settings_from(Pair, {"pair": [0.1]}, "env_args.")
