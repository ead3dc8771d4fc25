"""Replay: a preallocated ring of items, uniform sampling, segments for checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.base.memory import check_memory
from twofold.base.setting import setting, settings
from twofold.core.experience import Array, Item, Written
from twofold.core.protocols import Learner, State

_SEGMENT_BYTES = 4 << 20


@settings
class ReplayConfig:
    """What is kept of the past, and how batches are drawn from it."""

    buffer_size: int = setting("capacity: items kept", default=1_000_000, gt=0, aliases=("memory_size",))
    batch_size: int = setting("items of a batch", default=256, gt=0)
    replace: bool = setting("false: the items of a batch are distinct", default=True)
    recent_share: float = setting(
        "share of each batch from the newest `recent_items`", default=0.0, ge=0, le=1
    )
    recent_items: int = setting("see `recent_share`", default=300_000, gt=0)
    ending_share: float = setting(
        "share of each batch from the last `ending_steps` steps before real ends (falls)",
        default=0.0,
        ge=0,
        le=1,
    )
    ending_steps: int = setting("see `ending_share`", default=60, gt=0, unit="steps")
    ending_below: float | None = setting(
        "only ends with a reward below this count, so that reaching a goal is not a fall", default=None
    )
    endings_kept: int = setting("how many of the latest ends count", default=20_000, gt=0)

    def __post_init__(self) -> None:
        if self.buffer_size < self.batch_size:
            raise ConfigError(
                f"replay.buffer_size={self.buffer_size} must be at least replay.batch_size={self.batch_size}"
            )
        if self.recent_share + self.ending_share > 1:
            raise ConfigError("replay.recent_share and replay.ending_share must be at most 1 together")
        if (self.recent_share > 0 or self.ending_share > 0) and not self.replace:
            raise ConfigError("replay.recent_share and replay.ending_share need replay.replace=true")


@dataclass(frozen=True)
class _Leaf:
    """Where a leaf of the item lies: which block, which columns, which shape."""

    block: str
    start: int
    stop: int
    shape: tuple[int, ...]


class Ring(Generic[Item]):
    """The newest `capacity` items. All leaves of one dtype share a block, so a batch is one gather per dtype."""

    def __init__(self, capacity: int, blank: Item, rng: np.random.Generator, *, replace: bool = True) -> None:
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
        row_bytes = sum(np.dtype(block).itemsize * width for block, width in widths.items())
        check_memory(f"replay.buffer_size={capacity:,}", capacity * row_bytes)
        self._blocks = {block: np.zeros((capacity, width), block) for block, width in widths.items()}
        self._batch: dict[str, Array] = {}
        self._batch_view: Item | None = None
        self.sampled: Array = np.zeros(0, np.int64)
        self.segment_items = max(1, min(capacity, _SEGMENT_BYTES // max(row_bytes, 1)))

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks.values())

    def add(self, written: Written[Item]) -> None:
        """Append items, over the oldest where full."""
        leaves = dict(tree.items(written.items))
        count = len(next(iter(leaves.values())))
        first = self.added % self.capacity
        if first + count <= self.capacity:
            at: Array | slice = slice(first, first + count)  # a third of the time of indices
        else:
            at = np.arange(first, first + count) % self.capacity
        for path, leaf in self._leaves.items():
            self._blocks[leaf.block][at, leaf.start : leaf.stop] = leaves[path].reshape(count, -1)
        self.added += count

    def sample(self, size: int) -> Item:
        """A batch of items; its arrays are reused by the next call."""
        if len(self) < (1 if self.replace else size):
            raise ValueError(f"replay holds {len(self)} items, cannot sample {size}; raise trainer.warmup")
        self.sampled = self._draw(size)
        return self.take(self.sampled)

    def _draw(self, size: int) -> Array:
        if self.replace:
            return self.rng.integers(0, len(self), size)
        return self.rng.choice(len(self), size, replace=False)

    def take(self, at: Array) -> Item:
        """The items at these ring positions as one batch; its arrays are reused by the next call."""
        if self._batch_view is None or len(next(iter(self._batch.values()))) != len(at):
            self._batch = {k: np.empty((len(at), b.shape[1]), b.dtype) for k, b in self._blocks.items()}
            self._batch_view = self._view(self._batch, len(at))
        for name, block in self._blocks.items():
            np.take(block, at, axis=0, out=self._batch[name], mode="clip")
        return self._batch_view

    def _view(self, blocks: dict[str, Array], count: int) -> Item:
        views = {
            path: blocks[leaf.block][:, leaf.start : leaf.stop].reshape(count, *leaf.shape)
            for path, leaf in self._leaves.items()
        }
        paths = iter(views)
        view: Item = tree.map(lambda _: views[next(paths)], self._blank)
        return view

    def learned(self, learner: Learner[Item]) -> None:
        """Called after each update from the last batch: a ring that prefers some items asks here for which."""

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

    def state_dict(self) -> State:
        return {"added": self.added, "capacity": self.capacity}

    def load_state_dict(self, state: State) -> None:
        self.added = int(state["added"])
