"""Replay: a preallocated ring of items, uniform or prioritised sampling, segments for checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from twofold.core import tree
from twofold.core.errors import ConfigError
from twofold.core.experience import Array

_SEGMENT_BYTES = 4 << 20


@dataclass(frozen=True)
class ReplayConfig:
    buffer_size: int = field(default=1_000_000, metadata={"aliases": ("memory_size",)})  # items kept
    batch_size: int = 256
    sampling: Literal["uniform", "prioritised"] = (
        "uniform"  # prioritised = LAP: probability ~ max(|td|, 1)^alpha
    )
    alpha: float = 0.4  # exponent of prioritised sampling
    min_priority: float = 1.0  # LAP's floor; pair it with learner.huber = this value
    replace: bool = True  # False: the items of a batch are distinct
    recent_share: float = 0.0  # share of each batch from the newest `recent_items`
    recent_items: int = 300_000
    ending_share: float = (
        0.0  # share of each batch from the last `ending_steps` steps before real ends (falls)
    )
    ending_steps: int = 60
    ending_below: float | None = None  # only ends with a reward below this count: a goal reached is no fall
    endings_kept: int = 20_000  # how many of the latest ends count

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.buffer_size < self.batch_size:
            raise ConfigError(
                f"replay.buffer_size must be at least replay.batch_size and both positive, "
                f"got {self.buffer_size} and {self.batch_size}"
            )
        if min(self.recent_share, self.ending_share) < 0 or self.recent_share + self.ending_share > 1:
            raise ConfigError(
                "replay.recent_share and replay.ending_share must be at least 0 and at most 1 together"
            )
        if min(self.recent_items, self.ending_steps, self.endings_kept) < 1:
            raise ConfigError("replay.recent_items, ending_steps and endings_kept must be at least 1")
        if not 0 <= self.alpha <= 1 or self.min_priority <= 0:
            raise ConfigError("replay.alpha must be in [0, 1] and replay.min_priority above 0")


@dataclass(frozen=True)
class _Leaf:
    """Where a leaf of the item lies: which block, which columns, which shape."""

    block: str
    start: int
    stop: int
    shape: tuple[int, ...]


def _check_memory(capacity: int, row_bytes: int) -> None:
    """Memory is taken bit by bit as the ring fills: say now what would fail after hours."""
    needed, held = capacity * row_bytes, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > held:
        raise ConfigError(
            f"replay.buffer_size={capacity:,} needs {needed:,} bytes of memory, this machine has {held:,}"
        )


class Ring:
    """The newest `capacity` items. All leaves of one dtype share a block, so a batch is one gather per dtype."""

    def __init__(self, capacity: int, blank: Any, rng: np.random.Generator, *, replace: bool = True) -> None:
        self.capacity, self.rng, self.replace = capacity, rng, replace
        self.added = 0
        self._blank = blank
        self._leaves: dict[str, _Leaf] = {}
        widths: dict[str, int] = {}
        for path, leaf in tree.items(blank):
            block, shape = leaf.dtype.str, leaf.shape[1:]
            start = widths.get(block, 0)
            widths[block] = start + int(np.prod(shape, dtype=int))
            self._leaves[path] = _Leaf(block, start, widths[block], shape)
        _check_memory(capacity, sum(np.dtype(block).itemsize * width for block, width in widths.items()))
        self._blocks = {block: np.zeros((capacity, width), block) for block, width in widths.items()}
        self._batch: dict[str, Array] = {}
        self._batch_view: Any = None
        self.sampled: Array = np.zeros(0, np.int64)
        row_bytes = sum(block.itemsize * block.shape[1] for block in self._blocks.values())
        self.segment_items = max(1, min(capacity, _SEGMENT_BYTES // max(row_bytes, 1)))

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks.values())

    def add(self, items: Any) -> None:
        """Append stacked items [K, ...], over the oldest where full."""
        leaves = dict(tree.items(items))
        count = len(next(iter(leaves.values())))
        first = self.added % self.capacity
        if first + count <= self.capacity:
            at: Any = slice(first, first + count)  # a third of the time of indices
        else:
            at = np.arange(first, first + count) % self.capacity
        for path, leaf in self._leaves.items():
            self._blocks[leaf.block][at, leaf.start : leaf.stop] = leaves[path].reshape(count, -1)
        self.added += count

    def sample(self, size: int) -> Any:
        """A batch of items; its arrays are reused by the next call."""
        if len(self) < (1 if self.replace else size):
            raise ValueError(f"replay holds {len(self)} items, cannot sample {size}; raise trainer.warmup")
        self.sampled = self._draw(size)
        return self.take(self.sampled)

    def _draw(self, size: int) -> Array:
        if self.replace:
            return self.rng.integers(0, len(self), size)
        return self.rng.choice(len(self), size, replace=False)

    def take(self, at: Array) -> Any:
        """The items at these ring positions as one batch; its arrays are reused by the next call."""
        if self._batch_view is None or len(next(iter(self._batch.values()))) != len(at):
            self._batch = {k: np.empty((len(at), b.shape[1]), b.dtype) for k, b in self._blocks.items()}
            self._batch_view = self._view(self._batch, len(at))
        for name, block in self._blocks.items():
            np.take(block, at, axis=0, out=self._batch[name], mode="clip")
        return self._batch_view

    def _view(self, blocks: dict[str, Array], count: int) -> Any:
        views = {
            path: blocks[leaf.block][:, leaf.start : leaf.stop].reshape(count, *leaf.shape)
            for path, leaf in self._leaves.items()
        }
        paths = iter(views)
        return tree.map(lambda _: views[next(paths)], self._blank)

    # ---- segments: immutable pieces of the stream of items, written once and shared between checkpoints ----

    def segments(self) -> list[tuple[int, int]]:
        """(first, last + 1) item numbers of the pieces that cover what the ring holds; all but the last are full."""
        first = (self.added - len(self)) // self.segment_items
        bounds = range(first * self.segment_items, self.added, self.segment_items)
        return [(a, min(a + self.segment_items, self.added)) for a in bounds]

    def segment(self, start: int, stop: int) -> dict[str, Array]:
        """The rows of items start..stop that are still held (overwritten ones are skipped)."""
        start = max(start, self.added - len(self))
        at = np.arange(start, stop) % self.capacity
        return {name: block[at] for name, block in self._blocks.items()} | {"first": np.array([start])}

    def load_segment(self, arrays: dict[str, Array]) -> None:
        first = int(arrays["first"][0])
        rows = len(next(v for k, v in arrays.items() if k != "first"))
        at = np.arange(first, first + rows) % self.capacity
        for name, block in self._blocks.items():
            block[at] = arrays[name]

    def state_dict(self) -> dict[str, Any]:
        return {"added": self.added, "capacity": self.capacity}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.added = int(state["added"])


class PrioritisedRing(Ring):
    """Items are drawn with probability proportional to their priority (LAP: Fujimoto et al., 2020)."""

    def __init__(
        self, capacity: int, blank: Any, rng: np.random.Generator, *, alpha: float, min_priority: float
    ) -> None:
        super().__init__(capacity, blank, rng)
        self.alpha, self.floor = alpha, min_priority**alpha
        self._priority = np.zeros(capacity, np.float32)
        self._highest = self.floor

    def add(self, items: Any) -> None:
        before = self.added
        super().add(items)
        self._priority[np.arange(before, self.added) % self.capacity] = self._highest

    def _draw(self, size: int) -> Array:
        total = np.cumsum(self._priority[: len(self)], dtype=np.float64)
        drawn: Array = np.searchsorted(total, self.rng.random(size) * total[-1], side="right")
        return drawn.clip(max=len(self) - 1)

    def reprioritise(self, td_error: Array) -> None:
        """New priorities for the items of the last batch from their TD errors [B]."""
        new = np.maximum(np.abs(td_error) ** self.alpha, self.floor).astype(np.float32)
        self._priority[self.sampled] = new
        self._highest = max(self._highest, float(new.max()))

    def state_dict(self) -> dict[str, Any]:
        held = self._priority[: len(self)].copy()
        return super().state_dict() | {"priority": held, "highest": self._highest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._priority[: len(state["priority"])] = state["priority"]
        self._highest = float(state["highest"])


class MixedRing(Ring):
    """Part of every batch from the newest items, part from the steps that led to real ends, the rest uniform."""

    def __init__(self, capacity: int, blank: Any, rng: np.random.Generator, cfg: ReplayConfig) -> None:
        super().__init__(capacity, blank, rng)
        self.cfg = cfg
        self._endings = np.zeros(0, np.int64)  # item numbers of the latest terminated items
        self._rows = 1  # items of one episode are this far apart

    def add(self, items: Any) -> None:
        first = self.added
        super().add(items)
        self._rows = max(self._rows, self.added - first)
        ends = first + np.flatnonzero(self._counts(items))
        if len(ends):
            self._endings = np.concatenate([self._endings, ends])[-self.cfg.endings_kept :]

    def _counts(self, items: Any) -> Array:
        """Which items are ends that batches look back from."""
        ended: Array = items.terminated.astype(bool)
        return ended if self.cfg.ending_below is None else ended & (items.reward < self.cfg.ending_below)

    def _draw(self, size: int) -> Array:
        newest = min(self.cfg.recent_items, len(self))
        recent, ending = round(size * self.cfg.recent_share), round(size * self.cfg.ending_share)
        drawn = self.rng.integers(self.added - len(self), self.added, size)
        drawn[:recent] = self.rng.integers(self.added - newest, self.added, recent)
        held = self._endings[np.searchsorted(self._endings, self.added - len(self)) :]
        if len(held) and ending:
            back = self.rng.integers(0, self.cfg.ending_steps, ending) * self._rows
            chosen = held[self.rng.integers(0, len(held), ending)] - back
            drawn[recent : recent + ending] = chosen.clip(min=self.added - len(self))
        return drawn % self.capacity

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"endings": self._endings, "rows": self._rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._endings, self._rows = np.array(state["endings"]), int(state["rows"])


def make_replay(cfg: ReplayConfig, blank: Any, rng: np.random.Generator) -> Ring:
    """The replay that the settings ask for."""
    if cfg.sampling == "prioritised":
        return PrioritisedRing(cfg.buffer_size, blank, rng, alpha=cfg.alpha, min_priority=cfg.min_priority)
    if cfg.recent_share or cfg.ending_share:
        return MixedRing(cfg.buffer_size, blank, rng, cfg)
    return Ring(cfg.buffer_size, blank, rng, replace=cfg.replace)
