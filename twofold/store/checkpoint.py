"""Checkpoints: atomic, checksummed, pickle-free folders; the newest that verifies wins.

A folder `step_000000012000` holds `state.safetensors` (every array of the state), `state.json` (all the rest),
`replay_*.safetensors` (immutable pieces of replay) and `MANIFEST.json` with the size and blake2b of every file. It is
written under a temporary name, fsynced, and renamed. Pieces of replay are hard links to those of the last checkpoint
but one: each is written twice in all, and no damaged file can cost both of the newest checkpoints.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as decode
from safetensors.numpy import save as encode

from twofold.base import tree
from twofold.base.errors import CheckpointError
from twofold.base.foreign_json import MAX_JSON_BYTES, read_json
from twofold.base.regular import is_there, names_in, read_regular, status_of
from twofold.base.values import table
from twofold.core.experience import Array, Item
from twofold.core.protocols import State
from twofold.core.replay import Ring
from twofold.store import files

FORMAT = 2
_NAME = re.compile(r"step_[0-9]{12}\Z")  # \d and $ would also take other digits and a line break
_FILE = re.compile(r"[A-Za-z0-9_]+\.(safetensors|json)\Z")
log = logging.getLogger("twofold")


def pack(state: object, prefix: str = "") -> tuple[dict[str, Array], object]:
    """Split a nested state into arrays by path and a JSON tree in which {"@": path} stands for an array."""
    if isinstance(state, dict):
        arrays: dict[str, Array] = {}
        rest: dict[str, object] = {}
        for key, value in state.items():
            if not isinstance(key, str) or key == "@":
                raise TypeError(f"a state's keys must be texts other than '@', found {key!r} in '{prefix}'")
            inner, rest[key] = pack(value, f"{prefix}/{key}")
            if arrays.keys() & inner.keys():
                raise TypeError(f"two arrays of the state have the path {prefix}/{key}")
            arrays |= inner
        return arrays, rest
    array = _array(state)
    if array is not None:
        return {prefix: np.asarray(array, order="C")}, {"@": prefix}
    return {}, state.item() if isinstance(state, np.generic) else state


def _array(value: object) -> Array | None:
    """An array, or a tensor as one; None for any other value."""
    if isinstance(value, np.ndarray):
        return value
    if value is None or isinstance(value, (int, float, str, list, tuple, np.generic)):
        return None
    import torch  # imported long ago by whoever made a tensor; a second for those who have none

    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else None


def unpack(rest: object, arrays: dict[str, Array]) -> tree.Branch:
    """The nested state that `pack` took apart."""
    if isinstance(rest, dict):
        if "@" in rest and len(rest) > 1:
            raise ValueError("an array stands where names and values belong")
        if "@" in rest:
            return arrays[rest["@"]]
        return {key: unpack(value, arrays) for key, value in rest.items()}
    return rest


class Entry(TypedDict):
    """What a manifest says of a file."""

    bytes: int
    blake2b: str


Manifest = dict[str, Entry]  # by the name of the file
Known = dict[str, tuple[Path, Entry]]  # pieces of replay that are written already


class FormatError(CheckpointError):
    """A file of another format version: not damaged, so nothing older is taken in its place."""


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self._trusted: dict[int, Manifest] = {}  # files of the checkpoints written or verified here

    def steps(self) -> list[int]:
        """Steps of all finished checkpoints, newest first."""
        if not _is_real_folder(self.folder):
            return []
        return sorted((int(name[5:]) for name in names_in(self.folder) if _NAME.match(name)), reverse=True)

    def newest(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return next(iter(self.steps()), 0)

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:012d}"

    def bytes_held(self) -> int:
        """What the checkpoints take up on the disk, files shared between them counted once."""
        places = [self.path(step) for step in self.steps() if _is_real_folder(self.path(step))]
        found = [status_of(place / name, follow=False) for place in places for name in names_in(place)]
        return sum({status.st_ino: status.st_size for status in found if status is not None}.values())

    # ---- writing ----

    def save(self, step: int, state: State, replay: Ring[Item] | None) -> Path:
        """Write a checkpoint whole, or leave everything as it was."""
        arrays, rest = pack(state)
        contents = {"state.safetensors": encode(arrays), "state.json": files.to_json(rest)}
        if len(contents["state.json"]) > MAX_JSON_BYTES:
            raise TypeError("the state holds too much outside of arrays: put long lists into numpy arrays")
        known = self._known_segments(step)
        needed = sum(map(len, contents.values())) + (0 if replay is None else _new_bytes(replay, known))
        temporary = self.folder / f".tmp_{step:012d}"
        with files.disk_full_explained(self.folder, needed):
            files.real_folder(self.folder)
            self._clean()
            try:
                manifest = self._write(temporary, contents, replay, step, known)
                self._put(temporary, step)
            except BaseException:
                _remove(temporary)
                raise
        self._trusted[step] = manifest
        self._prune()
        return self.path(step)

    def _put(self, temporary: Path, step: int) -> None:
        """Rename into place; an earlier checkpoint of the same step stays findable until that is done."""
        old = self.folder / f"replaced_{step:012d}"
        if is_there(self.path(step)):
            os.rename(self.path(step), old)
            files.moment("rename replaced")
        os.rename(temporary, self.path(step))
        files.moment("rename checkpoint")
        files.sync_folder(self.folder)
        _remove(old)

    def _write(
        self,
        folder: Path,
        contents: dict[str, bytes],
        replay: Ring[Item] | None,
        step: int,
        known: Known,
    ) -> Manifest:
        folder.mkdir()
        manifest: Manifest = {}
        for name, content in contents.items():
            files.write_bytes(folder / name, content)
            manifest[name] = {"bytes": len(content), "blake2b": files.checksum(content)}
        if replay is not None:
            for start, stop in replay.segments():
                name = f"replay_{start:012d}_{stop:012d}.safetensors"
                manifest[name] = self._write_segment(folder / name, replay, start, stop, known.get(name))
        files.write_bytes(folder / "MANIFEST.json", _signed(step, manifest))
        files.sync_folder(folder)
        return manifest

    def _write_segment(
        self, path: Path, replay: Ring[Item], start: int, stop: int, known: tuple[Path, Entry] | None
    ) -> Entry:
        """A piece that an earlier checkpoint wrote is linked, not written again."""
        if known is not None:
            source, entry = known
            try:
                os.link(source, path, follow_symlinks=False)
                files.moment(f"link {path.name}")
                return entry
            except OSError:
                pass  # a file system without hard links: write it again
        content = encode(replay.segment(start, stop))
        files.write_bytes(path, content)
        return {"bytes": len(content), "blake2b": files.checksum(content)}

    def _known_segments(self, step: int) -> Known:
        """Pieces that may be linked: of the last checkpoint but one, so that the newest two share no file."""
        source = next((s for s in self._sharers(step) if s in self._trusted), None)
        if source is None:
            return {}
        return {
            name: (self.path(source) / name, entry)
            for name, entry in self._trusted[source].items()
            if name.startswith("replay_")
        }

    def _sharers(self, step: int) -> list[int]:
        others = [s for s in self.steps() if s != step]
        return others[:1] if self.keep == 1 else others[1:2]

    def _prune(self) -> None:
        """Drop checkpoints beyond the newest `keep`; a half-deleted one must not look like a checkpoint."""
        for step in self.steps()[self.keep :]:
            dropped = self.folder / f".tmp_dropped_{step:012d}"
            _remove(dropped)
            os.rename(self.path(step), dropped)
            _remove(dropped)
            self._trusted.pop(step, None)

    def _clean(self) -> None:
        """Remove what an interrupted save left, and bring back a checkpoint that it was about to replace."""
        if not _is_real_folder(self.folder):
            return
        names = names_in(self.folder)
        for old in (self.folder / name for name in names if name.startswith("replaced_")):
            target = self.folder / old.name.replace("replaced_", "step_")
            if _NAME.match(target.name) and not is_there(target) and _is_real_folder(old):
                os.rename(old, target)
            else:
                _remove(old)
        for name in names:
            if name.startswith(".tmp_"):
                _remove(self.folder / name)

    # ---- reading ----

    def load(
        self, accept: Callable[[State], None] = lambda state: None, limit: int = 1 << 34
    ) -> tuple[int, State, list[Path]] | None:
        """(step, state, replay pieces) of the newest checkpoint that verifies; None if there is none at all.

        `accept` raises CheckpointError for a state that cannot be resumed; no file may be above `limit` bytes.
        """
        if self.folder.is_symlink():
            files.real_folder(self.folder)
        self._tidied()
        found, damaged = self._newest(accept, limit)
        if found is not None and damaged:
            self._set_aside(damaged)
        return found

    def look(self, limit: int = 1 << 34) -> tuple[int, State, list[Path]] | None:
        """The same of a run that is not ours to tidy up: nothing on the disk changes."""
        return self._newest(lambda state: None, limit)[0]

    def _newest(
        self, accept: Callable[[State], None], limit: int
    ) -> tuple[tuple[int, State, list[Path]] | None, list[int]]:
        """The newest checkpoint that verifies, and the steps of the damaged ones before it."""
        damaged: dict[int, str] = {}
        for step in self.steps():
            try:
                state, pieces = self.read(step, limit)
                accept(state)
            except FormatError:
                raise
            except CheckpointError as error:
                damaged[step] = str(error)
                continue
            if damaged:
                reason = next(iter(damaged.values()))
                log.warning("checkpoint damaged, the one of step %d is taken: %s", step, reason)
            return (step, state, pieces), list(damaged)
        if damaged:
            raise CheckpointError(
                f"no checkpoint in {self.folder} can be read: {next(iter(damaged.values()))}"
            )
        return None, []

    def _set_aside(self, steps: list[int]) -> None:
        """Keep the newest damaged checkpoint under another name, so that it counts no more."""
        for step in steps:
            try:
                os.rename(self.path(step), self._aside())
            except OSError as error:
                raise CheckpointError(
                    f"the damaged checkpoint {self.path(step)} cannot be set aside ({error.strerror}): "
                    "move it away, then the one before it is taken"
                ) from None
            self._trusted.pop(step, None)

    def _aside(self) -> Path:
        """Where a damaged checkpoint goes: in place of the one before, or beside what is not one."""
        aside, others = self.folder / "damaged", itertools.count(2)
        while is_there(aside) and not _is_real_folder(aside):
            aside = self.folder / f"damaged_{next(others)}"
        _remove(aside)
        return aside

    def _tidied(self) -> None:
        """Remove what an interrupted save left; a folder that cannot be written into is told now, not at the end."""
        try:
            self._clean()
        except OSError as error:
            raise CheckpointError(f"cannot write into {self.folder}: {error.strerror}") from None

    def read(self, step: int, limit: int = 1 << 34) -> tuple[State, list[Path]]:
        """The verified state and replay pieces of one checkpoint; changes nothing on the disk."""
        folder = self.path(step)
        if folder.is_symlink():
            raise CheckpointError(f"{folder} is a symbolic link: refused")
        listed = self._manifest(folder)
        for name, entry in listed.items():
            if entry["bytes"] > limit:
                raise CheckpointError(f"{folder / name} claims {entry['bytes']:,} bytes: refused")
            if files.size(folder / name) != entry["bytes"]:
                raise CheckpointError(f"{folder / name} does not have the {entry['bytes']:,} bytes written")
        for name, entry in listed.items():
            files.verify(folder / name, entry["bytes"], entry["blake2b"])
        try:
            arrays = decode(read_regular(folder / "state.safetensors", limit))
            state = unpack(read_json(folder / "state.json", finite=False), arrays)
        except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{folder} is damaged: {error}") from None
        self._trusted[step] = listed
        return state, [folder / n for n in sorted(listed) if n.startswith("replay_")]

    def _manifest(self, folder: Path) -> Manifest:
        """The verified list of files: known format, plain names, sizes that are numbers."""
        manifest = read_json(folder / "MANIFEST.json")
        if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
            raise CheckpointError(f"{folder / 'MANIFEST.json'} is not a checkpoint manifest")
        noted = manifest.pop("blake2b", None)
        if noted != _own_checksum(manifest) and (noted or manifest.keys() != {"format", "step", "files"}):
            raise CheckpointError(f"{folder / 'MANIFEST.json'} does not match its checksum")
        if manifest.get("format") != FORMAT:
            other = str(manifest.get("format"))[:20]
            raise FormatError(f"{folder} has checkpoint format {other}, this version reads format {FORMAT}")
        if manifest.get("step") != int(folder.name[5:]):
            raise CheckpointError(f"{folder} holds the checkpoint of step {str(manifest.get('step'))[:20]}")
        found: Manifest = {}
        for name, entry in table(manifest, "files").items():
            if not _FILE.match(name):
                raise CheckpointError(f"{folder}: the manifest names the file {name[:80]!r}: refused")
            size, noted = (
                (entry.get("bytes"), entry.get("blake2b")) if isinstance(entry, dict) else (None, None)
            )
            if not isinstance(size, int) or not isinstance(noted, str):
                raise CheckpointError(f"{folder}: the manifest is damaged")
            found[name] = {"bytes": size, "blake2b": noted}
        return found


def _is_real_folder(path: Path) -> bool:
    """A directory, not a link to one."""
    status = status_of(path, follow=False)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _remove(path: Path) -> None:
    """Take away a temporary name, whatever lies there; links are not followed."""
    if _is_real_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _own_checksum(manifest: Mapping[str, object]) -> str:
    return files.checksum(json.dumps(manifest, sort_keys=True).encode())


def _signed(step: int, listed: Manifest) -> bytes:
    """The manifest with a checksum of itself."""
    manifest = {"format": FORMAT, "step": step, "files": listed}
    return files.to_json(manifest | {"blake2b": _own_checksum(manifest)})


def _new_bytes(replay: Ring[Item], known: Known) -> int:
    """About how many bytes of replay must be written anew."""
    row = replay.nbytes // replay.capacity
    names = {(a, b): f"replay_{a:012d}_{b:012d}.safetensors" for a, b in replay.segments()}
    return sum((b - a) * row for (a, b), name in names.items() if name not in known)


def load_replay(replay: Ring[Item], pieces: list[Path]) -> None:
    """Fill the ring from verified pieces, oldest first."""
    for piece in pieces:
        try:
            replay.load_segment(decode(read_regular(piece)))
        except (SafetensorError, KeyError, ValueError, IndexError, StopIteration, OverflowError) as error:
            raise CheckpointError(f"{piece} does not fit this run's replay: {error}") from None
