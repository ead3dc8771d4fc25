"""Threads that share work."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from twofold.nets.crew import Crew


def test_all_jobs_run_at_once_in_threads_of_their_own():
    meeting, names = threading.Barrier(3, timeout=10), set()

    def job():
        meeting.wait()  # passes only when all three are running
        names.add(threading.current_thread())

    Crew(2).run([job] * 3)
    assert len(names) == 3
    assert threading.current_thread() in names


def test_an_error_in_a_helper_is_raised_and_the_crew_goes_on():
    crew, done = Crew(1), []

    def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        crew.run([lambda: None, fail])
    with pytest.raises(KeyError, match="lost"):
        crew.run([fail, lambda: done.append(1)])
    crew.run([lambda: done.append(2), lambda: done.append(3)])
    assert sorted(done) == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not place threads")
def test_helpers_have_cpus_of_their_own_only_when_the_crew_fills_the_machine():
    mine = os.sched_getaffinity(0)
    places = {}

    def helper():
        places["helper"] = os.sched_getaffinity(0)

    Crew(len(mine)).run([lambda: None] + [helper] * len(mine))
    assert places["helper"] == mine  # one thread more than CPUs: the scheduler chooses
    if len(mine) > 1:
        Crew(len(mine) - 1).run([lambda: None] + [helper] * (len(mine) - 1))
        assert len(places["helper"]) == 1
        assert places["helper"] != {min(mine)}
    assert os.sched_getaffinity(0) == mine


def test_dropping_the_crew_ends_its_threads():
    before = threading.active_count()
    crew = Crew(3)
    assert threading.active_count() == before + 3
    del crew
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
