"""A log of one JSON object per line that outlives a full disk and can be cut back to a checkpoint."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import log_records
from twofold.base.regular import is_there, open_to_write, status_of
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
        self._waiting += files.to_json(record, indent=None) + b"\n"
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
            new = not is_there(self.path)
            self._handle = open_to_write(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
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
        return self.held()

    def held(self) -> int:
        """Bytes on disk now."""
        status = status_of(self.path, follow=False)
        return 0 if status is None else status.st_size

    def check(self, length: int) -> None:
        """Refuse a checkpoint whose log has lost lines since."""
        if (held := self.held()) < length:
            raise CheckpointError(
                f"{self.path} has {held:,} bytes, the checkpoint was made with {length:,}: lines are missing"
            )

    def cut(self, length: int) -> None:
        """Forget what came after a checkpoint."""
        self.close()
        if not is_there(self.path):
            return
        handle = open_to_write(self.path, os.O_WRONLY)
        try:
            os.ftruncate(handle, length)
        except (OSError, OverflowError, ValueError) as error:
            raise UserError(f"cannot cut {self.path} to {length} bytes: {error}") from None
        finally:
            os.close(handle)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._waiting = None, b""

    def read(self) -> list[dict[str, Json]]:
        """Every whole line; a half-written last one is left out."""
        return list(log_records(self.path)) if is_there(self.path) else []


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
