"""A log of one JSON object per line that outlives a full disk and can be cut back to a checkpoint."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from twofold.base.errors import CheckpointError, UserError
from twofold.base.values import Json
from twofold.store import files

_CHUNK = 1 << 16
log = logging.getLogger("twofold")


class JsonLines:
    """Lines are kept in memory until the disk has taken them; none is lost or written twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        self._waiting = b""
        self._warned = False

    def append(self, record: Mapping[str, object]) -> None:
        self._waiting += json.dumps(record).encode() + b"\n"
        try:
            self._write()
        except OSError as error:
            if error.errno not in files.NO_SPACE:
                raise UserError(f"cannot write {self.path}: {error.strerror}") from None
            if not self._warned:
                log.error("disk full: %s waits in memory until there is space", self.path)
                self._warned = True

    def _write(self) -> None:
        if self._handle is None and self._waiting:
            new = not self.path.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            self._handle = os.open(self.path, flags, 0o644)
            _drop_half_a_line(self._handle)
            if new:
                files.sync_folder(self.path.parent)
        while self._waiting:
            assert self._handle is not None
            done = os.write(self._handle, self._waiting)
            self._waiting = self._waiting[done:]
        self._warned = False

    def length(self) -> int:
        """Bytes on disk, every line written and made durable."""
        self._write()
        if self._handle is not None:
            os.fsync(self._handle)
            files.moment(f"fsync {self.path.name}")
        return self.path.stat().st_size if self.path.exists() else 0

    def check(self, length: int) -> None:
        """Refuse a checkpoint whose log has lost lines since."""
        held = os.lstat(self.path).st_size if self.path.exists() else 0
        if held < length:
            raise CheckpointError(
                f"{self.path} has {held:,} bytes, the checkpoint was made with {length:,}: lines are missing"
            )

    def cut(self, length: int) -> None:
        """Forget what came after a checkpoint."""
        self.close()
        if not self.path.exists():
            return
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
            os.ftruncate(handle, length)
            os.close(handle)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}") from None

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._waiting = None, b""

    def read(self) -> list[dict[str, Json]]:
        """Every whole line; a half-written last one is left out."""
        if not self.path.exists():
            return []
        lines = files.read_regular(self.path).split(b"\n")[:-1]
        return [self._record(line) for line in lines if line]

    def _record(self, line: bytes) -> dict[str, Json]:
        record = files.parse_json(line, self.path)
        if not isinstance(record, dict):
            raise CheckpointError(f"{self.path} is damaged: a line of it is no JSON object")
        return record


def _drop_half_a_line(handle: int) -> None:
    """Cut off what a killed process left of a line: the next one would be joined to it, and both be lost."""
    size = os.fstat(handle).st_size
    while size > 0:
        start = max(0, size - _CHUNK)
        found = os.pread(handle, size - start, start).rfind(b"\n")
        if start + found + 1 == size:
            return
        size = start + found + 1 if found >= 0 else start
        os.ftruncate(handle, size)
