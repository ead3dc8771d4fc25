"""Bounds for what a file may make this process allocate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from twofold.base.errors import CheckpointError


@contextmanager
def allocation_limit(limit: int) -> Iterator[None]:
    """Refuse tensors that together take more than `limit` bytes, before the memory is asked for."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Limit(TorchDispatchMode):  # type: ignore[no-untyped-call]
        asked = 0

        def __torch_dispatch__(
            self,
            func: Callable[..., object],
            kinds: object,
            args: Sequence[object] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            size = args[0] if args else None
            if isinstance(size, (list, tuple)) and all(isinstance(n, int) for n in size):
                self.asked += 4 * math.prod(size)  # a factory such as empty or zeros, given a shape
            if self.asked > limit:
                raise CheckpointError(f"the file describes networks of more than {limit:,} bytes: refused")
            return func(*args, **(kwargs or {}))

    with Limit():  # type: ignore[no-untyped-call]
        yield
