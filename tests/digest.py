"""What a run has come to, as checksums: two runs with the same digest are the same bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors.numpy import load as decode

from twofold.base.errors import CheckpointError
from twofold.base.regular import read_regular
from twofold.store.checkpoint import Checkpoints, pack


def digest(folder: str | Path) -> dict[str, str]:
    """sha256 of each part of the newest checkpoint and of the logs and the best policy up to there."""
    folder = Path(folder)
    checkpoints = Checkpoints(folder / "checkpoints")
    steps = checkpoints.steps()
    if not steps:
        raise CheckpointError(f"{folder} has no checkpoint yet")
    state, pieces = checkpoints.read(steps[0])
    found = {part: _state(state[part]) for part in ("learner", "collector", "generators", "trainer")}
    found["replay"] = _replay(state["replay"], pieces)
    for name, length in state["logs"].items():
        found[name] = _file(folder / f"{name}.jsonl", int(length))
    found["best"] = _file(folder / "best.safetensors", None)
    return found


def _state(state: Any) -> str:
    """Weights, optimisers, counters and generators, in the order of their names."""
    arrays, rest = pack(state)
    hashed = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name in sorted(arrays):
        hashed.update(
            f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode() + arrays[name].tobytes()
        )
    return hashed.hexdigest()


def _replay(state: Any, pieces: list[Path]) -> str:
    """The items that replay holds, oldest first, however they are cut into pieces."""
    oldest = int(state["added"]) - min(int(state["added"]), int(state["capacity"]))
    blocks: dict[str, Any] = {}
    for piece in pieces:
        arrays = decode(read_regular(piece))
        late = max(oldest - int(arrays.pop("first")[0]), 0)
        for name, block in arrays.items():
            blocks.setdefault(name, hashlib.sha256()).update(block[late:].tobytes())
    return _state({**state, "blocks": {name: blocks[name].hexdigest() for name in sorted(blocks)}})


def _file(path: Path, length: int | None) -> str:
    content = read_regular(path) if path.exists() else b""
    return hashlib.sha256(content[:length]).hexdigest()
