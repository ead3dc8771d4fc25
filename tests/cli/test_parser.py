"""Words, options and settings of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from twofold.base.command import Command, asks, needed, option, place, settings_given
from twofold.base.errors import UserError
from twofold.cli.finding import find
from twofold.cli.menu import COMMANDS, TRAIN, Train
from twofold.cli.parser import parse


@asks
class Everything:
    first: Path = needed("a file", "FILE", type=Path)
    rest: tuple[str, ...] = place("words", "WORD ...", default=())
    count: int = option("how many", default=3, least=1)
    share: float | None = option("a share", default=None, short="-s")
    colour: Literal["red", "blue"] = option("one of two", default="red")
    quick: bool = option("a switch", default=False)
    import_: tuple[str, ...] = option("files", default=())
    words: tuple[str, ...] = option("up to the next option", default=(), many=True)
    explain: str | None = option("with or without a value", default=None, bare="all")


@asks
class Free:
    env_config: str | None = option("a name", default=None)
    settings: dict[str, Any] = settings_given(factory=dict)


@asks
class FreeWithPlaces:
    runs: tuple[Path, ...] = place("runs", "RUN ...", default=())
    settings: dict[str, Any] = settings_given(factory=dict)


EVERYTHING = Command("all", "everything", Everything, "nowhere:all")
FREE = Command("free", "settings", Free, "nowhere:free")
PLACES = Command("places", "both", FreeWithPlaces, "nowhere:places")


def test_places_and_options_stand_in_any_order() -> None:
    asked = parse(
        EVERYTHING, ["--count", "5", "a.txt", "--import=x.py", "b", "--import", "y.py", "-s", "0.5", "c"]
    )
    assert asked.first == Path("a.txt") and asked.rest == ("b", "c")
    assert (asked.count, asked.share, asked.import_) == (5, 0.5, ("x.py", "y.py"))


def test_a_switch_leaves_the_next_word_alone() -> None:
    asked = parse(EVERYTHING, ["--quick", "a.txt", "--explain", "b"])
    assert asked.quick and asked.explain == "all" and asked.rest == ("b",)
    assert parse(EVERYTHING, ["a.txt", "--explain=learner"]).explain == "learner"


def test_an_option_of_many_words_ends_at_the_next_option() -> None:
    assert parse(EVERYTHING, ["a.txt", "--words", "12=5", "40", "--quick"]).words == ("12=5", "40")


def test_numbers_are_read_as_settings_read_them() -> None:
    assert parse(EVERYTHING, ["a", "--count=300_000"]).count == 300_000
    assert parse(EVERYTHING, ["a", "--count=25e3"]).count == 25_000


def test_behind_two_dashes_everything_is_a_place() -> None:
    assert parse(EVERYTHING, ["a", "--", "--count=5"]).rest == ("--count=5",)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["a", "--count"], "--count needs a value"),
        (["a", "--count="], "--count must be a whole number, got ''"),
        (["a", "--count=2.5"], "--count must be a whole number, got '2.5'"),
        (["a", "--count=1e400"], "--count must be a whole number"),
        (["a", "--count=0"], "--count must be at least 1, got 0"),
        (["a", "--share=inf"], "--share must be a finite number"),
        (["a", "--colour=green"], "--colour must be one of red, blue, got 'green'"),
        (["a", "--colur=red"], "unknown option '--colur' of twofold all; did you mean '--colour'?"),
        (["a", "--nonsense"], "unknown option '--nonsense' of twofold all; twofold all --help shows"),
        (["a", "-x"], "unknown option '-x'"),
        (["a", "--quick=yes"], "--quick is a switch and takes no value"),
        ([], "twofold all needs FILE: a file"),
    ],
)
def test_what_cannot_be_taken_is_said(argv: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(EVERYTHING, argv)
    assert message in str(raised.value)


def test_settings_take_flags_pairs_and_the_word_with() -> None:
    words = ["--env_config=x", "--debug", "with", "a.b=3", "--actor-lr", "1e-4", "--flag"]
    asked = parse(FREE, words)
    assert asked.env_config == "x"
    assert asked.settings == {"debug": True, "a.b": 3, "actor-lr": 1e-4, "flag": True}


def test_a_path_with_an_equals_sign_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "td3_gamma=0.9").mkdir()
    asked = parse(PLACES, ["runs/td3_gamma=0.9", "td3_gamma=0.9", "gamma=0.9"])
    assert asked.runs == (Path("runs/td3_gamma=0.9"), Path("td3_gamma=0.9"))
    assert asked.settings == {"gamma": 0.9}


def test_a_command_of_two_words_is_found() -> None:
    known = [Command("set make", "", Free, "x:y"), Command("set show", "", Free, "x:y")]
    assert find(["set", "show", "a"], known) == (known[1], ["a"])
    assert find(["set"], known) == (None, [])


def test_an_option_chooses_among_commands_of_one_name() -> None:
    known = [Command("eval", "", Free, "x:y"), Command("eval", "", Free, "x:z", when="env-config")]
    assert find(["eval", "a=1"], known)[0] is known[0]
    assert find(["eval", "--env_config=1"], known)[0] is known[1]


def test_the_home_folder_is_meant_where_the_shell_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = parse(TRAIN, ["--run=~/runs/first"])
    assert isinstance(found, Train) and found.run == tmp_path / "runs" / "first"


@pytest.mark.parametrize(("theirs", "ours"), [("evaluate", "eval"), ("enjoy", "play"), ("Learn", "train")])
def test_a_command_of_another_code_names_ours(theirs: str, ours: str) -> None:
    with pytest.raises(UserError, match=f"no command '{theirs}'; did you mean '{ours}'"):
        find([theirs, "runs/first"], COMMANDS)
