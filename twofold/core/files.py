"""Files that are whole or absent: atomic writes, checksums, and readers that trust nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import CheckpointError

_MAX_JSON_BYTES = 20_000_000
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(CheckpointError):
    """The file system has no room for what must be written."""


def moment(name: str) -> None:
    """Called after each write, fsync and rename: nothing here; the fault tests put a crash in its place."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write and fsync one new file."""
    with open(path, "wb") as file:
        file.write(content)
        moment(f"write {path.name}")
        file.flush()
        os.fsync(file.fileno())
    moment(f"fsync {path.name}")


def sync_folder(path: Path) -> None:
    """Make the names inside a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_bytes(path: Path, content: bytes) -> None:
    """Put a file in place whole: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_bytes(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    moment(f"rename {path.name}")
    sync_folder(path.parent)


def checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


@contextmanager
def disk_full_explained(folder: Path, needed: int) -> Iterator[None]:
    """Turn a full disk into a message that says so, with the bytes needed and free."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        free = shutil.disk_usage(folder).free if folder.exists() else 0
        raise DiskFull(
            f"disk full: {folder} needs about {needed:,} bytes, {free:,} are free; earlier checkpoints are untouched"
        ) from None


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The content of a regular file: no symbolic link, no device, not larger than `limit`."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise CheckpointError(f"{path} is not a regular file (a link or a device): refused")
        if limit is not None and status.st_size > limit:
            raise CheckpointError(f"{path} has {status.st_size:,} bytes, more than {limit:,}: refused")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """JSON of bounded size and depth."""
    return parse_json(read_regular(path, _MAX_JSON_BYTES), path)


def parse_json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not valid JSON: damaged or not ours") from None


def to_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()
