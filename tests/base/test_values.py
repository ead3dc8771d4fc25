"""Values of JSON are asked for by their type."""

from __future__ import annotations

import json

import pytest

from twofold.base.values import Json, inside, listed, number, table, text

RECORD: Json = json.loads(
    '{"step": 7, "world": "eval", "return": {"mean": 1.5, "each": [1, 2]}, "note": null}'
)


def test_a_value_is_found_below_names() -> None:
    assert number(RECORD, "return", "mean") == 1.5
    assert text(RECORD, "world") == "eval"
    assert listed(RECORD, "return", "each") == [1, 2]
    assert table(RECORD, "return").keys() == {"mean", "each"}
    assert inside(RECORD, "note") is None


def test_a_whole_number_stays_whole() -> None:
    assert isinstance(number(RECORD, "step"), int)


@pytest.mark.parametrize(
    ("ask", "path", "said"),
    [
        (number, ("world",), "a number was expected, found 'eval'"),
        (text, ("step",), "a text was expected, found '7'"),
        (listed, ("return",), "a list was expected"),
        (table, ("note",), "values by name were expected, found 'None'"),
        (number, ("step", "mean"), "values by name were expected, found '7'"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(ask, path, said) -> None:
    with pytest.raises(TypeError, match=said):
        ask(RECORD, *path)


def test_an_absent_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="median"):
        number(RECORD, "return", "median")
