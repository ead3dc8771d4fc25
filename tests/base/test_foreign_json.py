"""JSON of strangers: one line that says what is wrong, at little cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from twofold.base import foreign_json as foreign
from twofold.base.errors import CheckpointError, ConfigError
from twofold.base.setting import setting, settings

WRONG = {
    "nothing": (b"", "not valid JSON"),
    "binary": (bytes(range(256)), "not valid JSON"),
    "a name twice": (b'{"a": 1, "a": 2}', "'a' comes twice"),
    "400 digits": (b'{"a": ' + b"9" * 400 + b"}", "a number of 400 digits"),
    "5000 digits": (b'{"a": ' + b"9" * 5000 + b"}", "a number of 5000 digits"),
    "NaN": (b'{"a": NaN}', "NaN where a number belongs"),
    "minus infinity": (b'{"a": -Infinity}', "-Infinity where"),
    "a number beyond numbers": (b'{"a": 1e999}', "1e999 is too large"),
    "lists in lists": (b"[" * 101 + b"]" * 101, "nested more than 100 deep"),
    "a hundred thousand lists": (b"[" * 100_000, "nested more than 100 deep"),
    "half a letter": (b'"\\ud800"', "not valid JSON"),
    "a byte that is no letter": (b'"\xff"', "not valid JSON"),
    "text behind": (b"{} {}", "not valid JSON"),
}


@pytest.mark.parametrize("content, words", WRONG.values(), ids=WRONG.keys())
def test_what_is_not_our_json_is_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as refused:
        foreign.read_json(tmp_path / "x.json")
    assert str(tmp_path / "x.json") in str(refused.value) and "\n" not in str(refused.value)


def test_brackets_inside_of_texts_do_not_count_as_depth() -> None:
    assert foreign.parse_json(b'["' + b"[" * 500 + b'"]', "x") == ["[" * 500]


@pytest.mark.parametrize(
    "content", [b'"' + b'\\"' * 400_000, b'"' + b'\\"' * 400_000 + b"\\", b'"' * 100_001]
)
def test_texts_without_an_end_are_looked_through_once(content: bytes) -> None:
    """A search that began anew at every quote would take minutes."""
    with pytest.raises(CheckpointError):
        foreign.parse_json(b"[" * 101 + content, "x")


def test_states_of_generators_and_infinite_bounds_of_settings_are_read_where_they_belong() -> None:
    state = 2**128 - 1
    assert foreign.parse_json(f'{{"a": {state}}}', "x") == {"a": state}
    assert foreign.parse_json("[Infinity]", "x", finite=False) == [float("inf")]


def test_letters_of_two_halves_are_whole() -> None:
    assert foreign.parse_json(b'"\\ud83d\\ude00"', "x") == "\U0001f600"


LOGS = {
    "a list": b"[]\n",
    "a number": b"5\n",
    "two records": b'{"a": 1}, {"b": 2}\n',
    "a record over two lines": b'{"a":\n1}\n',
    "no JSON": b"x\n",
    "400 digits": b'{"step": ' + b"9" * 400 + b"}\n",
    "half a letter": b'{"a": "\\ud800"}\n',
    "too deep": b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}\n",
    "many names": b"{" + b",".join(b'"%d": 1' % n for n in range(300)) + b"}\n",
}


@pytest.mark.parametrize("content", LOGS.values(), ids=LOGS.keys())
def test_a_log_of_anything_else_than_records_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"step": 1}\n' + content)
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        list(foreign.log_records(tmp_path / "log"))


def test_a_log_is_read_piece_by_piece(tmp_path: Path) -> None:
    line = b'{"step": %d, "filler": "' + b"x" * 1_000 + b'"}\n'
    (tmp_path / "log").write_bytes(b"".join(line % n for n in range(300)) + b"damaged\n")
    records = foreign.log_records(tmp_path / "log")
    assert [next(records)["step"] for _ in range(200)] == list(range(200))  # before the damage is met
    with pytest.raises(CheckpointError):
        list(records)


@pytest.mark.parametrize("value", ["1", None, True, [], {}, float("nan"), float("inf"), 10**400, -1e301])
def test_what_is_no_number_is_said(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"x\.json"):
        foreign.number(value, Path("x.json"))


@pytest.mark.parametrize("value", [-1, 1.5, 1e16, 10**400, "1", False])
def test_what_is_no_count_is_said(value: object) -> None:
    with pytest.raises(CheckpointError, match=r"x\.json"):
        foreign.whole(value, Path("x.json"))


@settings
class Point:
    """A place."""

    x: float = setting("across", ge=0, le=10)


@pytest.mark.parametrize("value", [[], 5, None, {"x": "1"}, {"x": 11}, {"x": 1, "y": 2}, {}])
def test_records_are_read_as_the_settings_that_they_must_be(value: object) -> None:
    with pytest.raises(ConfigError):
        foreign.checked_as(Point, value)
    assert foreign.checked_as(Point, {"x": 1.0}).x == 1.0


def test_a_name_that_comes_twice_among_very_many_is_found_at_once(tmp_path: Path) -> None:
    names = ",".join(
        f'"{n}":0' for n in [*range(200_000), 199_999]
    )  # an hour if each were looked for among all
    (tmp_path / "many.json").write_text(f"{{{names}}}")
    with pytest.raises(CheckpointError, match="'199999' comes twice"):
        foreign.read_json(tmp_path / "many.json")
