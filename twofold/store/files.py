"""Files that are whole or absent: atomic writes, checksums, folders that are ours to write into."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import read_json
from twofold.base.regular import (
    is_folder,
    is_there,
    names_in,
    open_regular,
    open_to_write,
    refuse_to_replace,
)

_CHUNK = 1 << 20
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFull(CheckpointError):
    """The file system has no room for what must be written."""


class CannotWrite(CheckpointError):
    """A file or folder that cannot be written, for another reason than a full disk."""


def moment(name: str) -> None:
    """Called after each write, fsync and rename: nothing here; the fault tests put a crash in its place."""


def write_bytes(path: Path, content: bytes) -> None:
    """Write and fsync one new file; a link that lies in its place is removed, never followed."""
    refuse_to_replace(path)
    with _explained(path):
        path.unlink(missing_ok=True)
        with os.fdopen(open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
            moment(f"write {path.name}")
            file.flush()
            os.fsync(file.fileno())
    moment(f"fsync {path.name}")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What the system has against writing a file, as one line; a full disk stays what it is, to be waited for."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        remedy = ": move it away" if error.errno in (errno.EISDIR, errno.ENOTEMPTY) else ""
        raise CannotWrite(f"cannot write {path}: {error.strerror}{remedy}") from None


def real_folder(path: Path) -> Path:
    """The folder, made if absent; a link in its place could lead writing and deleting anywhere: refused."""
    if path.is_symlink():
        raise CheckpointError(
            f"{path} is a symbolic link: refused. Move the whole run directory to where it should live instead"
        )
    with _explained(path):
        path.mkdir(exist_ok=True)  # its parent must exist: a vanished run directory is an error
    return path


def own_folder(path: Path, *ours: str) -> Path:
    """The folder, made if absent; one that holds anything but `ours` (as a shell would match) is the user's: refused.

    A run directory may always be written into.
    """
    if is_there(path) and not is_folder(path):
        raise UserError(f"{path} is not a directory: give another one")
    found = names_in(path)
    others = [name for name in found if not any(fnmatchcase(name, one) for one in (*ours, ".*.tmp"))]
    if others and not is_run(path):
        raise UserError(
            f"{path} holds other files ({others[0]}): nothing was touched; give a new or an empty folder"
        )
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def is_run(folder: Path) -> bool:
    """Whether a folder is a run directory: its config.json is one of ours."""
    if not is_there(folder / "config.json"):
        return False
    try:
        record = read_json(folder / "config.json", finite=False)
    except CheckpointError:
        return False
    return isinstance(record, dict) and {"values", "origin"} <= record.keys()


def sync_folder(path: Path) -> None:
    """Make the names inside a folder durable."""
    with _explained(path):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace_bytes(path: Path, content: bytes) -> None:
    """Put a file in place whole: temporary name, fsync, rename, fsync of the folder."""
    refuse_to_replace(path)
    if not path.name:
        raise UserError(f"cannot write {path}: Is a directory: give the name of a file")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write_bytes(temporary, content)
        with _explained(path):
            os.replace(temporary, path)
    except BaseException:  # a signal, too, leaves nothing half written
        with suppress(OSError):
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
        free = shutil.disk_usage(folder).free if is_there(folder) else 0
        raise DiskFull(
            f"disk full: {folder} needs about {needed:,} bytes, {free:,} are free; earlier checkpoints are untouched"
        ) from None


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
        try:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        except OSError as error:
            raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    if digest.hexdigest() != wanted:
        raise CheckpointError(f"{path} does not match its checksum")


def to_json(value: object, indent: int | None = 1) -> bytes:
    """JSON that our own reader takes: half letters, which names of files may hold, are written out as \\udcff."""
    written = json.dumps(value, indent=indent)
    return (json.dumps(_spelled(value), indent=indent) if "\\ud" in written else written).encode()


def _spelled(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_spelled(key): _spelled(one) for key, one in value.items()}
    return [_spelled(one) for one in value] if isinstance(value, (list, tuple)) else value
