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
from typing import BinaryIO

from twofold.base.errors import CheckpointError
from twofold.base.values import Json

MAX_JSON_BYTES = 4_000_000  # a hostile file of this size still parses within 100 MB
_CHUNK = 1 << 20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(CheckpointError):
    """The file system has no room for what must be written."""


def moment(name: str) -> None:
    """Called after each write, fsync and rename: nothing here; the fault tests put a crash in its place."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write and fsync one new file; a link that lies in its place is removed, never followed."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(content)
        moment(f"write {path.name}")
        file.flush()
        os.fsync(file.fileno())
    moment(f"fsync {path.name}")


def real_folder(path: Path) -> Path:
    """The folder, made if absent; a link in its place could lead writing and deleting anywhere: refused."""
    if path.is_symlink():
        raise CheckpointError(
            f"{path} is a symbolic link: refused. Move the whole run directory to where it should live instead"
        )
    path.mkdir(exist_ok=True)  # its parent must exist: a vanished run directory is an error
    return path


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
    except BaseException:  # a signal, too, leaves nothing half written
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


def open_regular(path: Path, limit: int | None = None) -> BinaryIO:
    """A regular file opened for reading: no symbolic link, no device, not larger than `limit`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{path} is a symbolic link: refused") from None
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise CheckpointError(f"{path} is not a regular file: refused")
    if limit is not None and status.st_size > limit:
        os.close(handle)
        raise CheckpointError(f"{path} has {status.st_size:,} bytes, more than {limit:,}: refused")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    with open_regular(path, limit) as file:
        try:
            return file.read()
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}") from None


def size(path: Path) -> int:
    """Bytes of a file, or -1 where there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def verify(path: Path, size: int, wanted: str) -> None:
    """Compare a file with the size and blake2b that were noted when it was written, in small pieces."""
    digest = hashlib.blake2b(digest_size=32)
    with open_regular(path, size) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != wanted:
        raise CheckpointError(f"{path} does not match its checksum")


def read_json(path: Path) -> Json:
    """JSON of bounded size and depth."""
    return parse_json(read_regular(path, MAX_JSON_BYTES), path)


def parse_json(content: bytes, path: Path) -> Json:
    try:
        found: Json = json.loads(content)
        return found
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not valid JSON: damaged or not ours") from None


def to_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()
