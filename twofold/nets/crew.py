"""A few threads that do the same work on different rows."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue

Job = Callable[[], object]


class Crew:
    """Runs a list of jobs at once: the first here, each other one in a thread of its own."""

    def __init__(self, helpers: int) -> None:
        self._jobs: list[SimpleQueue[Job | None]] = [SimpleQueue() for _ in range(helpers)]
        self._results: list[SimpleQueue[BaseException | None]] = [SimpleQueue() for _ in range(helpers)]
        for arguments in zip(_cpus(helpers), self._jobs, self._results, strict=True):
            threading.Thread(target=_serve, args=arguments, daemon=True, name="twofold-crew").start()
        # The threads hold only the queues, so that dropping the crew ends them.
        weakref.finalize(self, _dismiss, self._jobs)

    def run(self, jobs: Sequence[Job]) -> None:
        """Do all jobs and return when the last is done; the first error of a job is raised here."""
        first, *others = jobs
        for queue, job in zip(self._jobs, others, strict=True):
            queue.put(job)
        try:
            first()
        finally:
            errors = [results.get() for results in self._results]
        for error in errors:
            if error is not None:
                raise error


def _cpus(helpers: int) -> list[int | None]:
    """A CPU for each helper when the crew fills the machine; with CPUs to spare the scheduler chooses."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    # A helper is woken by its caller, and the scheduler then tends to put both on the caller's CPU.
    return [*allowed[1:]] if len(allowed) == helpers + 1 else [None] * helpers


def _serve(
    cpu: int | None, jobs: SimpleQueue[Job | None], results: SimpleQueue[BaseException | None]
) -> None:
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})  # of this thread alone
    while (job := jobs.get()) is not None:
        try:
            job()
        except Exception as error:
            results.put(error)
        else:
            results.put(None)
        del job


def _dismiss(queues: Sequence[SimpleQueue[Job | None]]) -> None:
    for queue in queues:
        queue.put(None)
