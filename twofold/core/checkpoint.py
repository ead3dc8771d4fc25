"""Checkpoints: atomic, checksummed, pickle-free folders; the newest that verifies wins.

A folder `step_000000012000` holds `state.safetensors` (every array of the state), `state.json` (all the rest),
`replay_*.safetensors` (immutable pieces of replay, hard-linked between checkpoints) and `MANIFEST.json` with the
size and blake2b of every file. It is written under a temporary name, fsynced, and renamed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from . import files
from .errors import CheckpointError
from .replay import Ring

FORMAT = 1
_NAME = re.compile(r"step_\d{12}$")
_FILE = re.compile(r"[A-Za-z0-9_]+\.(safetensors|json)$")
log = logging.getLogger("twofold")


def pack(state: Any, prefix: str = "") -> tuple[dict[str, np.ndarray[Any, Any]], Any]:
    """Split a nested state into arrays by path and a JSON tree in which '@path' stands for an array."""
    if hasattr(state, "detach"):
        state = state.detach().cpu().numpy()
    if isinstance(state, np.ndarray):
        return {prefix: np.ascontiguousarray(state)}, {"@": prefix}
    if isinstance(state, dict):
        arrays: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for key, value in state.items():
            inner, rest[key] = pack(value, f"{prefix}/{key}")
            arrays |= inner
        return arrays, rest
    return {}, state.item() if isinstance(state, np.generic) else state


def unpack(rest: Any, arrays: dict[str, Any]) -> Any:
    """The nested state that `pack` took apart."""
    if isinstance(rest, dict):
        if rest.keys() == {"@"}:
            return arrays[rest["@"]]
        return {key: unpack(value, arrays) for key, value in rest.items()}
    return rest


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        """Steps of all finished checkpoints, newest first."""
        if not self.folder.is_dir():
            return []
        return sorted((int(p.name[5:]) for p in self.folder.iterdir() if _NAME.match(p.name)), reverse=True)

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:012d}"

    # ---- writing ----

    def save(self, step: int, state: Any, replay: Ring | None) -> Path:
        """Write a checkpoint whole, or leave everything as it was."""
        self.folder.mkdir(exist_ok=True)  # its parent must exist: a vanished run directory is an error
        arrays, rest = pack(state)
        contents = {"state.safetensors": encode(arrays), "state.json": files.to_json(rest)}
        needed = sum(map(len, contents.values())) + (0 if replay is None else self._new_bytes(replay))
        temporary = self.folder / f".tmp_{step:012d}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            with files.disk_full_explained(self.folder, needed):
                self._write(temporary, contents, replay, step)
                shutil.rmtree(self.path(step), ignore_errors=True)
                os.rename(temporary, self.path(step))
                files.moment("rename checkpoint")
                files.sync_folder(self.folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        self._prune()
        return self.path(step)

    def _write(self, folder: Path, contents: dict[str, bytes], replay: Ring | None, step: int) -> None:
        folder.mkdir()
        manifest: dict[str, Any] = {}
        for name, content in contents.items():
            files.write_bytes(folder / name, content)
            manifest[name] = {"bytes": len(content), "blake2b": files.checksum(content)}
        if replay is not None:
            known = self._known_segments()
            for start, stop in replay.segments():
                name = f"replay_{start:012d}_{stop:012d}.safetensors"
                manifest[name] = self._write_segment(folder / name, replay, start, stop, known.get(name))
        content = files.to_json({"format": FORMAT, "step": step, "files": manifest})
        files.write_bytes(folder / "MANIFEST.json", content)
        files.sync_folder(folder)

    def _write_segment(self, path: Path, replay: Ring, start: int, stop: int, known: Any) -> Any:
        """A piece that an earlier checkpoint wrote is linked, not written again."""
        if known is not None:
            source, entry = known
            try:
                os.link(source, path)
                files.moment(f"link {path.name}")
                return entry
            except OSError:
                pass  # a file system without hard links: write it again
        content = encode(replay.segment(start, stop))
        files.write_bytes(path, content)
        return {"bytes": len(content), "blake2b": files.checksum(content)}

    def _known_segments(self) -> dict[str, Any]:
        for step in self.steps():
            try:
                listed = self._manifest(self.path(step))
            except CheckpointError:
                continue
            return {
                name: (self.path(step) / name, entry)
                for name, entry in listed.items()
                if name.startswith("replay_") and (self.path(step) / name).is_file()
            }
        return {}

    def _new_bytes(self, replay: Ring) -> int:
        known = self._known_segments()
        row = replay.nbytes // replay.capacity
        return sum(
            (b - a) * row
            for a, b in replay.segments()
            if f"replay_{a:012d}_{b:012d}.safetensors" not in known
        )

    def _prune(self) -> None:
        """Drop checkpoints beyond the newest `keep`, and what an interrupted save left."""
        for step in self.steps()[self.keep :]:
            shutil.rmtree(self.path(step), ignore_errors=True)
        for left in self.folder.glob(".tmp_*"):
            shutil.rmtree(left, ignore_errors=True)

    # ---- reading ----

    def load(self) -> tuple[int, Any, list[Path]] | None:
        """(step, state, replay pieces) of the newest checkpoint that verifies; None if there is none at all."""
        damaged: list[str] = []
        for step in self.steps():
            try:
                state, pieces = self._read(self.path(step))
            except CheckpointError as error:
                damaged.append(str(error))
                continue
            if damaged:
                log.warning("checkpoint damaged, the one of step %d is taken: %s", step, damaged[0])
            return step, state, pieces
        if damaged:
            raise CheckpointError(f"no checkpoint in {self.folder} can be read: {damaged[0]}")
        return None

    def _read(self, folder: Path) -> tuple[Any, list[Path]]:
        listed = self._manifest(folder)
        checked: dict[str, bytes] = {}
        for name, entry in listed.items():
            content = files.read_regular(folder / name)
            if len(content) != entry["bytes"] or files.checksum(content) != entry["blake2b"]:
                raise CheckpointError(f"{folder / name} does not match its checksum")
            if not name.startswith("replay_"):
                checked[name] = content
        try:
            arrays = decode(checked["state.safetensors"])
            rest = files.parse_json(checked["state.json"], folder / "state.json")
            return unpack(rest, arrays), [folder / n for n in sorted(listed) if n.startswith("replay_")]
        except (SafetensorError, KeyError, RecursionError) as error:
            raise CheckpointError(f"{folder} is damaged: {error}") from None

    def _manifest(self, folder: Path) -> dict[str, Any]:
        """The verified list of files: known format, plain names, sizes that are numbers."""
        manifest = files.read_json(folder / "MANIFEST.json")
        if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
            raise CheckpointError(f"{folder / 'MANIFEST.json'} is not a checkpoint manifest")
        if manifest.get("format") != FORMAT:
            raise CheckpointError(
                f"{folder} has checkpoint format {manifest.get('format')}, this version reads format {FORMAT}"
            )
        for name, entry in manifest["files"].items():
            if not _FILE.match(name):
                raise CheckpointError(f"{folder}: the manifest names the file {name[:80]!r}: refused")
            if not isinstance(entry, dict) or {"bytes", "blake2b"} - entry.keys():
                raise CheckpointError(f"{folder}: the manifest is damaged")
        return manifest["files"]  # type: ignore[no-any-return]


def load_replay(replay: Ring, pieces: list[Path]) -> None:
    """Fill the ring from verified pieces, oldest first."""
    for piece in pieces:
        try:
            replay.load_segment(decode(files.read_regular(piece)))
        except (SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"{piece} does not fit this run's replay: {error}") from None
