"""Whether a second thread pays at the moment: one that waits long for its core is slower than none."""

from __future__ import annotations

BLOCK = 32  # updates that are judged together
LONGEST = 16  # blocks alone before two are tried again; fewer at first, because most disturbances are short
SUSPICIOUS = 1.25  # times the best block of two threads: then one is tried
_FORGET = 1.002  # the best block is forgotten slowly, because a machine's speed changes


class Pace:
    """Chooses between one thread and two by the time of the last updates; what is computed does not depend on it."""

    def __init__(self) -> None:
        self.two = True
        self._best = float("inf")  # seconds of a block of two threads
        self._last = {True: float("inf"), False: float("inf")}  # seconds of the last block of each
        self._seconds, self._updates = 0.0, 0
        self._alone, self._rest = 0, 1  # blocks alone still to come, and how many after the next failure

    def took(self, seconds: float) -> None:
        """A part of the present update took so long."""
        self._seconds += seconds

    def next(self) -> None:
        """A new update begins."""
        self._updates += 1
        if self._updates > BLOCK:
            self._judge(self._seconds)
            self._seconds, self._updates = 0.0, 1

    def _judge(self, seconds: float) -> None:
        """Decide on the next block after one that took so long."""
        self._last[self.two] = seconds
        if self.two:
            self._best = min(self._best * _FORGET, seconds)
            if seconds > SUSPICIOUS * self._best:
                self.two, self._alone, self._rest = False, self._rest, min(2 * self._rest, LONGEST)
            else:
                self._rest = 1
            return
        self._alone -= 1
        if self._last[True] <= seconds:  # slower than it was, but it pays: that is what to expect from now on
            self.two, self._best = True, self._last[True]
        elif self._alone <= 0:
            self.two = True
