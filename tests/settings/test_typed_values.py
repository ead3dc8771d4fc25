"""Values as people type them: what YAML would take for something else is taken as it stands, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from twofold.base.errors import ConfigError, UserError
from twofold.settings.config import load
from twofold.settings.presets import parse_value, read_yaml

AS_TYPED = {
    "2024-01-01": "2024-01-01",
    "2024-13-45": "2024-13-45",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "1:30": "1:30",
    "010": 10,
    "0x10": 16,
    "1_000": 1000,
    "1e-3": 0.001,
    ".inf": float("inf"),
    "!!binary aGVsbG8=": "!!binary aGVsbG8=",
    "!!set {a}": "!!set {a}",
    "!!python/name:os.system": "!!python/name:os.system",
    "[" * 60: "[" * 60,
}


@pytest.mark.parametrize("text", AS_TYPED)
def test_a_value_is_what_it_looks_like(text: str) -> None:
    assert parse_value(text) == AS_TYPED[text]


@pytest.mark.parametrize("text", ["9" * 400, "-" + "9" * 30])
def test_numbers_that_no_setting_can_have_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="digits: no setting is that large"):
        parse_value(text)


FILES = {
    "a name twice": ("seed: 1\nseed: 2\n", "'seed' comes twice"),
    "an inner name twice": ("learner:\n  gamma: 1\n  gamma: 2\n", "'gamma' comes twice"),
    "bytes": ("seed: !!binary aGk=\n", "not a valid config"),
    "a set": ("seed: !!set {a, b}\n", "not a valid config"),
    "400 digits": ("seed: " + "9" * 400, "400 digits"),
    "a control character": ("seed: \x1b[2J", "not a valid config"),
    "a text": ("hello", "must hold `key: value` lines"),
    "too much": ("# " + "x" * 100_000, "more than 32,000"),
}


@pytest.mark.parametrize("text, words", FILES.values(), ids=FILES.keys())
def test_a_file_that_says_something_impossible_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words) as refused:
        read_yaml(tmp_path / "c.yaml")
    assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)


def test_a_mark_at_the_beginning_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfseed: 3\n")
    assert read_yaml(tmp_path / "c.yaml") == {"seed": 3}


@pytest.mark.parametrize(
    "name", ["x" * 300, "x" * 300 + ".yaml", "a\0b.yaml", "/dev/zero/x.yaml", "/dev/null.yaml"]
)
def test_names_of_files_that_cannot_be_are_one_line(name: str) -> None:
    with pytest.raises(UserError):
        load(name)


def test_extends_of_thousands_of_letters_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("extends: " + "x" * 5_000)
    with pytest.raises(UserError):
        read_yaml(tmp_path / "c.yaml")


WRONG = {
    "threads": 10**19,
    "trainer.hang_limit": 1e300,
    "trainer.steps": 1e300,
    "trainer.updates_per_item": 1e17,  # a debt that paying one by one never lessens
    "networks.actor_hidden": [1] * 9_000,
    "networks.critic_hidden": [10**7],
    "env_args.history": 10**9,
    "env_args.repeat": 10**18,
    "env_args.kwargs": {"max_episode_steps": -1},
    "seed": -1,
}


@pytest.mark.parametrize("name", WRONG)
def test_absurd_sizes_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        load("td3", "pendulum", **{name: WRONG[name]})


def test_a_text_where_a_group_belongs_is_one_line() -> None:
    with pytest.raises(ConfigError):
        load("td3", "pendulum", learner="td3")
