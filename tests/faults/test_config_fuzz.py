"""9. A misspelt setting is always refused, and the right one is suggested."""

from __future__ import annotations

import string
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twofold.base.errors import ConfigError
from twofold.settings.config import load, schema_for, sections
from twofold.settings.schema import Schema, edit_distance, resolve_name

LETTERS = string.ascii_lowercase + string.digits + "_."


@cache
def schema() -> Schema:
    return schema_for(sections({"env": "control/gym", "learner.name": "td3", "networks.name": "vector"}))


@cache
def accepted() -> frozenset[str]:
    """Every way to write a setting: whole, bare, or by an alias, bare or whole."""
    names: set[str] = set()
    for setting in schema().all.values():
        *above, last = setting.path.split(".")
        for leaf in (last, *setting.aliases):
            names |= {".".join([*above[n:], leaf]) for n in range(len(above) + 1)}
    return frozenset(names)


@st.composite
def slips(draw: st.DrawFn, most: int = 1) -> tuple[str, str]:
    """(the setting that was meant, what was typed after one to `most` slips of the finger)."""
    meant = draw(st.sampled_from(sorted(schema().all)))
    typed = meant
    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from(["replace", "insert", "delete", "swap"]))
        at = draw(st.integers(0, len(typed) - 1))
        letter = draw(st.sampled_from(LETTERS))
        if kind == "replace":
            typed = typed[:at] + letter + typed[at + 1 :]
        elif kind == "insert":
            typed = typed[:at] + letter + typed[at:]
        elif kind == "delete" and len(typed) > 2:
            typed = typed[:at] + typed[at + 1 :]
        elif at + 1 < len(typed):
            typed = typed[:at] + typed[at + 1] + typed[at] + typed[at + 2 :]
    return meant, typed


def known(typed: str) -> bool:
    """Typed is a right name after all, or one below a free-form setting."""
    return typed in accepted() or typed.startswith("env_args.kwargs.")


SUGGESTED: list[bool] = []


@settings(max_examples=1000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(slips(most=3))
def refuse_one(slip: tuple[str, str]) -> None:
    meant, typed = slip
    if known(typed):
        return
    with pytest.raises(ConfigError, match=r"unknown setting|could be") as raised:
        resolve_name(typed, schema())
    if edit_distance(meant, typed) == 1:
        SUGGESTED.append(f"'{meant}'" in str(raised.value))


def test_a_thousand_misspelt_settings_are_refused_and_the_right_one_is_suggested() -> None:
    SUGGESTED.clear()
    refuse_one()
    assert len(SUGGESTED) > 300
    assert sum(SUGGESTED) / len(SUGGESTED) >= 0.95


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(slips())
def test_a_misspelt_setting_stops_before_anything_starts(slip: tuple[str, str]) -> None:
    _, typed = slip
    if not known(typed):
        with pytest.raises(ConfigError):
            load("td3", "pendulum", **{typed: 1})


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(
        ["trainer.steps", "trainer.rows", "learner.gamma", "replay.batch_size", "networks.actor_hidden"]
    ),
    st.one_of(
        st.none(),
        st.text(max_size=5),
        st.lists(st.text(max_size=3), min_size=1, max_size=3),
        st.dictionaries(st.text(max_size=3), st.none(), min_size=1, max_size=2),
        st.floats(allow_subnormal=False).filter(lambda x: not (x == x and abs(x) != float("inf") and x > 0)),
    ),
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object) -> None:
    if name == "learner.gamma" and value in (0.0, -0.0):
        return
    with pytest.raises(ConfigError):
        load("td3", "pendulum", **{name: value})
