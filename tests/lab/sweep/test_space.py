"""What a sweep searches, as people type it."""

from __future__ import annotations

import pytest

from twofold.base.errors import ConfigError, UserError
from twofold.lab.sweep.space import Choice, Span, make_space, parse_axis


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("log 1e-5..1e-2", Span(1e-5, 1e-2, "log")),
        ("0.9..0.999", Span(0.9, 0.999, "linear")),
        ("-1..2", Span(-1.0, 2.0, "linear")),
        ("int 1..8", Span(1.0, 8.0, "int")),
        ("int 1_000..8_000", Span(1000.0, 8000.0, "int")),
        ("relu|elu", Choice(("relu", "elu"))),
        ("256,256 | 512,512", Choice(("256,256", "512,512"))),
        ("0.9", None),
        ("256,256", None),
    ],
)
def test_ranges_and_choices(text: str, wanted: object) -> None:
    assert parse_axis("key", text) == wanted


@pytest.mark.parametrize(
    "text", ["2..1", "1..1", "log 0..1", "log -1..1", "int 0.5..2", "a..b", "1..", "x|x", "x|", "lin 1..2"]
)
def test_what_cannot_be_searched_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="key="):
        parse_axis("key", text)


def test_choices_are_the_values_that_the_command_line_would_make_of_them() -> None:
    assert Choice(("256,256", "null", "1e-3")).ends() == ([256, 256], None, 1e-3)


def test_ends_that_no_run_could_have_are_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"learner\.gamma reaches a value that is refused.*at most 1"):
        make_space("td3", "pendulum", {"learner.gamma": "0.9..1.5"})
    with pytest.raises(ConfigError, match="unknown setting 'nonsense'"):
        make_space("td3", "pendulum", {"nonsense": "1..2"})


def test_a_sweep_needs_a_range_and_no_seed() -> None:
    with pytest.raises(UserError, match="nothing to search"):
        make_space("td3", "pendulum", {"learner.gamma": "0.9"})
    with pytest.raises(UserError, match="chooses the seeds"):
        make_space("td3", "pendulum", {"learner.gamma": "0.9..0.99", "seed": "3"})


def test_plain_values_are_fixed_for_all_trials() -> None:
    space = make_space("td3", "pendulum", {"learner.gamma": "0.9..0.99", "trainer.steps": "5000"})
    assert space.fixed == {"trainer.steps": 5000}
    assert space.resolved({"learner.gamma": 0.95}).config.trainer.steps == 5000
