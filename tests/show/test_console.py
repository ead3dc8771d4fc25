"""Bars and log lines share one console, and fit it."""

from __future__ import annotations

import io
import logging
import math
import time

import pytest
from rich.console import Console

from twofold.base.progress import Quiet, Standing, shown_on, task, tracked, training
from twofold.show.console import Bar, Line, Terminal, duration, returns, set_up_logging


def terminal(width: int = 80) -> tuple[Terminal, io.StringIO]:
    text = io.StringIO()
    return Terminal(Console(file=text, force_terminal=True, width=width, height=24)), text


def aged(line: Line, seconds: float = 10.0) -> Line:
    """A line that has been there for a while."""
    line.began -= seconds
    line._samples[0] = (line._samples[0][0] - seconds, line._samples[0][1])
    return line


@pytest.mark.parametrize("width", [200, 80, 60, 40, 20])
def test_a_line_never_is_wider_than_the_terminal(width: int) -> None:
    line = aged(Line("training", 3_000_000))
    line.at(1_234_567, "return -1234.5 (best -1000.0)")
    assert len(line.text(width)) <= width


def test_what_matters_least_is_left_out_first() -> None:
    line = aged(Line("training", 300_000))
    line.at(12_000, "return -142.1 (best -130.2)")
    assert line.text(120).endswith("  12,000/300,000  4 min left  return -142.1 (best -130.2)  1,200/s")
    assert line.text(76).endswith("  12,000/300,000  4 min left  return -142.1 (best -130.2)")
    assert line.text(50).endswith("  12,000/300,000  4 min left")


def test_work_of_unknown_length_shows_its_time() -> None:
    assert aged(Line("reading", 0), 65).text(80).endswith("  65 s")


def test_the_warm_up_promises_no_time() -> None:
    shown, _ = terminal()
    bar, now = Bar(shown), [Standing(0, False, math.nan, None)]
    bar.watch(lambda: now[0])
    bar.start(0, 10_000)
    aged(bar._line)
    now[0] = Standing(5_000, False, -3.0, -2.0)
    bar._refresh()
    text = bar._line.text(120)
    assert text.startswith("warm-up ") and "left" not in text and "return -3.0 (best -2.0)" in text
    now[0] = Standing(5_001, True, -3.0, -2.0)
    bar._refresh()
    aged(bar._line, 1.0)
    now[0] = Standing(5_101, True, -3.0, -2.0)
    bar._refresh()
    assert bar._line.text(120).startswith("training ") and 90 < bar._line.speed < 110
    bar.finish()


def test_a_progress_that_nobody_connected_still_moves() -> None:
    shown, _ = terminal()
    bar = Bar(shown)
    bar.start(0, 100)
    bar.update(50, 10.0, -7.0)
    assert "50/100" in bar._line.text(80) and "return -7.0" in bar._line.text(80)
    bar.finish()
    assert shown.lines == []


def test_log_lines_stand_above_the_bar_and_are_not_torn() -> None:
    shown, text = terminal()
    set_up_logging(shown)
    with shown_on(shown), task("testing", 100) as tell:
        tell(3)
        logging.getLogger("twofold").info("step %8d  eval  return %9.1f", 500, -1160.0)
        logging.getLogger("twofold").warning("mind the gap")
    lines = [line.strip() for line in text.getvalue().replace("\r", "\n").splitlines()]
    plain = [Console(file=io.StringIO()).render_str(line).plain for line in lines]
    assert any(line.endswith("step      500  eval  return   -1160.0") for line in map(unstyled, plain))
    assert any("warning: mind the gap" in line for line in map(unstyled, plain))
    set_up_logging(None)


def unstyled(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip()


def test_a_table_of_jobs_and_the_log_share_the_console() -> None:
    from twofold.jobs.watch import Board

    assert Board()._console is Terminal().console


def test_short_work_shows_nothing() -> None:
    shown, _ = terminal()
    with shown.task("quick", 10):
        assert shown._render().plain == ""
        aged(shown.lines[0], 1.0)
        assert shown._render().plain.startswith("quick ")


def test_nothing_is_shown_without_a_screen() -> None:
    assert isinstance(training(), Quiet)
    with task("anything", 3) as tell:
        tell(1)
    assert list(tracked("abc", "letters", 3)) == ["a", "b", "c"]


def test_work_that_fails_takes_its_line_away() -> None:
    shown, _ = terminal()
    with pytest.raises(ValueError), shown_on(shown), task("failing", 3):
        raise ValueError
    assert shown.lines == []


def test_returns_are_said_with_the_best() -> None:
    assert returns(Standing(0, True, math.nan, None)) == ""
    assert returns(Standing(0, True, -1.0, None)) == "return -1.0"
    assert returns(Standing(0, True, -1.0, 2.0)) == "return -1.0 (best 2.0)"


def test_durations_are_said_as_people_say_them() -> None:
    assert [duration(s) for s in (40, 840, 12_000)] == ["40 s", "14 min", "3 h 20 min"]


def test_a_file_gets_the_time_and_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(None)
    logging.getLogger("twofold").info("plain")
    logging.getLogger("twofold").error("broken")
    first, second = capsys.readouterr().err.splitlines()
    assert first[8:] == " plain" and second[8:] == " error: broken" and time.strptime(first[:8], "%H:%M:%S")
