"""Serving that learns: users come one after another, and what was seen of quits and pairs is shared by all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twofold.base.errors import ConfigError
from twofold.core.protocols import State
from twofold.recsys.data import Array

MOST_ITEMS = 10_000  # a table of all pairs of more takes gigabytes
_SURE = 0.999  # a pair that must be close, as far as the quits tell


class PairMemory:
    """How likely two items bore together, by every user served so far.

    A pair that was shown together and nobody quit is safe for everybody. A quit puts Bayes' suspicion on those pairs of
    its window that are not known to be safe; whenever one of them turns out to be safe, the others become more suspect.
    """

    def __init__(self, items: int, prior: float) -> None:
        if items > MOST_ITEMS:
            raise ConfigError(
                f"env_args.stream remembers all pairs of items: at most {MOST_ITEMS} items, there are {items}"
            )
        self.items, self.prior = items, prior
        self.clear()

    def clear(self) -> None:
        """Nothing is known of any pair."""
        self.safe = np.zeros((self.items + 1, self.items + 1), bool)
        self.safe[self.items] = self.safe[:, self.items] = True  # the pad is no item
        self.close = self._unknown()
        self.quits: list[Array] = []  # for each quit the pairs that may have caused it [n, 2]

    def _unknown(self) -> Array:
        """The chances before any quit: nothing for safe pairs, an item beside itself for sure, else the prior."""
        close = np.where(self.safe, np.float32(0), np.float32(self.prior))
        np.fill_diagonal(close[: self.items, : self.items], np.float32(_SURE))
        return close

    def risk(self, window: Array) -> Array:
        """The chance that each item ends the episode after these windows [N, w] (-1 pads): float32 [N, items]."""
        stays = np.ones((len(window), self.items + 1), np.float32)
        for place in range(window.shape[1]):
            stays *= 1.0 - self.close[window[:, place]]
        return 1.0 - stays[:, : self.items]

    def chance(self, items: Array, window: Array) -> Array:
        """The chance that these items [N] end the episodes after their windows [N, w]: float32 [N]."""
        return np.asarray(1.0 - np.prod(1.0 - self.close[items[:, None], window], axis=1))

    def see(self, items: Array, window: Array, quits: Array) -> None:
        """Learn from items [N] shown after windows [N, w], and from who quit then."""
        there = window >= 0
        stayed = there & ~quits[:, None]
        new, old = np.broadcast_to(items[:, None], window.shape)[stayed], window[stayed]
        news = bool((self.close[new, old] > np.float32(self.prior)).any())
        for one, other in ((new, old), (old, new)):
            self.safe[one, other] = True
            self.close[one, other] = 0.0
        for row in np.flatnonzero(quits):
            own = window[row][there[row]]
            self.quits.append(np.column_stack([np.full(len(own), items[row]), own]))
        if news:
            self._suspect_again()
        elif quits.any():
            for pairs in self.quits[-int(quits.sum()) :]:
                self._suspect(pairs)

    def _suspect_again(self) -> None:
        """All suspicion anew, from every quit and what is safe by now."""
        self.close = self._unknown()
        for pairs in self.quits:
            self._suspect(pairs)

    def _suspect(self, pairs: Array) -> None:
        """Bayes: each pair is close with its chance before, given that at least one of them is."""
        one, other = pairs[~self.safe[pairs[:, 0], pairs[:, 1]]].T
        before = self.close[one, other].astype(np.float64)
        some = 1.0 - np.prod(1.0 - before)
        if some > 0:
            self.close[one, other] = self.close[other, one] = np.minimum(before / some, _SURE)

    def state_dict(self) -> State:
        ends = np.cumsum([len(pairs) for pairs in self.quits], dtype=np.int64)
        pairs = np.concatenate([np.zeros((0, 2), np.int64), *self.quits])
        return {"safe": self.safe.copy(), "close": self.close.copy(), "pairs": pairs, "ends": ends}

    def load_state_dict(self, state: State) -> None:
        self.safe, self.close = np.array(state["safe"]), np.array(state["close"])
        self.quits = np.split(np.array(state["pairs"]), np.array(state["ends"]))[:-1]


class Stream:
    """Which users share a memory: all of one stream, whose close pairs are the same for everybody.

    Simulated users live in many possible graphs of close pairs: after `block` episodes the next graph begins, with an
    empty memory; who is still there lives on with the graph and the memory of before. With block 0 a stream never ends.
    """

    def __init__(self, memory: PairMemory, rows: int, block: int, first: int = 0) -> None:
        self.memories, self.block, self.first = {first: memory}, block, first
        self.number = np.full(
            rows, first, np.int64
        )  # the graph that each row's user lives with; -1: nobody there
        self.now, self.begun, self._opening = first, 0, -1

    @property
    def memory(self) -> PairMemory:
        """What is known of the graph that users who come now live with."""
        return self.memories[self.now]

    def begin(self, rows: Array, seeds: Array) -> None:
        """Users come in these rows; who opened the stream opens it again, with an empty memory."""
        everyone = len(rows) == len(self.number)
        if everyone and self._opening in (-1, int(seeds[0])):
            self.restart()
            self._opening = int(seeds[0])
        elif self.block and self.begun >= self.block:
            fresh = PairMemory(self.memory.items, self.memory.prior)
            self.now, self.begun = self.now + 1, 0
            self.memories[self.now] = fresh
        self.begun += len(rows)
        self.number[rows] = self.now
        self.memories = {n: m for n, m in self.memories.items() if n == self.now or n in self.number}

    def restart(self) -> None:
        """The first graph, and nothing known."""
        self.memories = {self.first: self.memory}
        self.now, self.begun, self._opening = self.first, 0, -1
        self.memory.clear()

    def risk(self, window: Array) -> Array:
        """The chance that each item ends the episode of each row, by its own graph's memory: float32 [N, items]."""
        found = np.empty((len(window), self.memory.items), np.float32)
        for memory, rows in self._memory_of_rows():
            found[rows] = memory.risk(window[rows])
        return found

    def chance(self, items: Array, window: Array) -> Array:
        """The chance that these items [N] end the episodes, by each row's own memory: float32 [N]."""
        found = np.empty(len(items), np.float32)
        for memory, rows in self._memory_of_rows():
            found[rows] = memory.chance(items[rows], window[rows])
        return found

    def _memory_of_rows(self) -> Iterator[tuple[PairMemory, Array]]:
        """Each memory and whose it is: bool [N]; rows without a user count to the present graph."""
        older = [(number, self.number == number) for number in self.memories if number != self.now]
        yield from ((self.memories[number], rows) for number, rows in older)
        yield self.memory, ~np.any([np.zeros(len(self.number), bool), *(rows for _, rows in older)], axis=0)

    def see(self, items: Array, window: Array, quits: Array, ended: Array) -> None:
        """What users did tells about their own graph. Some are done now."""
        for number, memory in self.memories.items():
            own = self.number == number
            memory.see(items[own], window[own], quits[own])
        self.leave(ended)

    def leave(self, rows: Array) -> None:
        """Nobody is in these rows until users come again: what is shown there teaches nothing."""
        self.number[rows] = -1

    def state_dict(self) -> State:
        own = {"number": self.number.copy(), "now": self.now, "begun": self.begun, "opening": self._opening}
        return own | {"memories": {str(n): memory.state_dict() for n, memory in self.memories.items()}}

    def load_state_dict(self, state: State) -> None:
        self.number, self.now = np.array(state["number"]), int(state["now"])
        self.begun, self._opening = int(state["begun"]), int(state["opening"])
        some = next(iter(self.memories.values()))
        self.memories = {int(number): PairMemory(some.items, some.prior) for number in state["memories"]}
        for number, memory in self.memories.items():
            memory.load_state_dict(state["memories"][str(number)])
