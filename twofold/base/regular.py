"""The door to files: only regular ones are opened, within limits; whatever else lies there is one line.

A pipe would hang whoever reads it, a device has no end, a link leads elsewhere, a second name (a hard link) makes
writing here a change there. Files that a run keeps are opened without following links; files that the user names may
be links, but must end at a regular file.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from twofold.base.errors import CheckpointError

MAX_TEXT_BYTES = 4_000_000
MAX_LINE_BYTES = 4_000_000
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


# ---- looking ------------------------------------------------------------------------------------------------------


def status_of(path: Path | str, *, follow: bool = True) -> os.stat_result | None:
    """What lies at a path; None if nothing does. A path that cannot be looked at is one line."""
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise CheckpointError(f"cannot look at {_named(path)}: {error.strerror}") from None
    except ValueError:  # a zero byte in its name
        raise CheckpointError(f"{_named(path)} cannot be the name of a file") from None


def is_there(path: Path | str) -> bool:
    """Whether anything lies there, be it a link to nowhere."""
    return status_of(path, follow=False) is not None


def is_file(path: Path | str) -> bool:
    """Whether a regular file is there, perhaps behind a link."""
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def is_folder(path: Path | str) -> bool:
    """Whether a directory is there, perhaps behind a link."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def names_in(folder: Path, most: int = 100_000) -> list[str]:
    """The names in a folder, sorted; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry, _ in zip(entries, range(most + 1), strict=False)]
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        raise CheckpointError(f"cannot look into {_named(folder)}: {error.strerror}") from None
    if len(found) > most:
        raise CheckpointError(f"{_named(folder)} holds more than {most:,} files: refused")
    return sorted(found)


def files_below(folder: Path, most: int = 10_000, depth: int = 4) -> list[Path]:
    """Regular files in and below a folder, sorted; links are not followed. More than `most` are refused."""
    found: list[Path] = []
    for name in names_in(folder, most):
        status = status_of(folder / name, follow=False)
        if status is not None and stat.S_ISREG(status.st_mode):
            found.append(folder / name)
        elif status is not None and stat.S_ISDIR(status.st_mode) and depth > 0:
            found += files_below(folder / name, most, depth - 1)
        if len(found) > most:
            raise CheckpointError(f"more than {most:,} files below {_named(folder)}: name a smaller folder")
    return found


# ---- reading ------------------------------------------------------------------------------------------------------


def open_regular(path: Path | str, limit: int | None = None, *, follow: bool = False) -> BinaryIO:
    """A regular file opened for reading; `follow` may be true for what the user named; `limit` is in bytes."""
    handle = _opened(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW), "read")
    status = os.fstat(handle)
    if limit is not None and status.st_size > limit:
        os.close(handle)
        raise CheckpointError(f"{_named(path)} has {status.st_size:,} bytes, more than {limit:,}: refused")
    try:
        os.pread(handle, 1, 0)  # some can be opened and not be read: those of /proc, or on a broken disk
    except OSError as error:
        os.close(handle)
        raise CheckpointError(f"cannot read {_named(path)}: {error.strerror}") from None
    return os.fdopen(handle, "rb")


def read_regular(path: Path | str, limit: int | None = None, *, follow: bool = False) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    with open_regular(path, limit, follow=follow) as file:
        try:
            content = file.read() if limit is None else file.read(limit + 1)
        except OSError as error:
            raise CheckpointError(f"cannot read {_named(path)}: {error.strerror}") from None
        except MemoryError:
            raise CheckpointError(f"{_named(path)} is too large for this machine's memory") from None
    if limit is not None and len(content) > limit:  # it grew, or is one of /proc, which all claim to be empty
        raise CheckpointError(f"{_named(path)} has more than {limit:,} bytes: refused")
    return content


def read_text(path: Path | str, limit: int = MAX_TEXT_BYTES) -> str:
    """A UTF-8 text that the user named, or one of the package's own; a mark at its beginning is left out."""
    try:
        return read_regular(path, limit, follow=True).removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{_named(path)} is not UTF-8 text (byte {error.start:,})") from None


def lines_of(path: Path | str, limit: int) -> Iterator[bytes]:
    """Every whole line of a log that is not empty, without its end; a half-written last one is left out."""
    with open_regular(path, limit) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            if line.endswith(b"\n"):
                if len(line) > 1:
                    yield line[:-1]
            elif len(line) > MAX_LINE_BYTES:
                raise CheckpointError(
                    f"{_named(path)} has a line of more than {MAX_LINE_BYTES:,} bytes: refused"
                )


# ---- writing ------------------------------------------------------------------------------------------------------


def open_to_write(path: Path | str, flags: int) -> int:
    """A handle of a regular file that has no other name: what is written here changes nothing elsewhere."""
    handle = _opened(path, flags | os.O_NOFOLLOW, "write")
    if os.fstat(handle).st_nlink > 1:
        os.close(handle)
        raise CheckpointError(
            f"{_named(path)} is also the name of another file (a hard link): writing would change that; "
            "put a copy in its place"
        )
    return handle


def refuse_to_replace(path: Path | str) -> None:
    """A device, pipe or socket is never replaced by a file: it is somebody else's. A link is, and is not followed."""
    status = status_of(path, follow=False)
    kind = stat.S_IFMT(status.st_mode) if status is not None else stat.S_IFREG
    if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):  # a directory says so itself
        raise CheckpointError(
            f"{_named(path)} is {_KINDS.get(kind, 'something else')}, not a regular file: refused"
        )


def open_log(path: Path | str) -> BinaryIO:
    """A file that lines are added to."""
    return os.fdopen(open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def _opened(path: Path | str, flags: int, verb: str) -> int:
    try:
        # Without O_NONBLOCK a pipe that nobody writes into would be waited for.
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(f"{_named(path)} is a symbolic link: refused") from None
        if error.errno == errno.ENXIO:
            raise CheckpointError(
                f"{_named(path)} is a pipe or a device, not a regular file: refused"
            ) from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # whoever writes can wait for room
        raise CheckpointError(f"cannot {verb} {_named(path)}: {error.strerror}") from None
    except ValueError:
        raise CheckpointError(f"{_named(path)} cannot be the name of a file") from None
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise CheckpointError(f"{_named(path)} is {kind}, not a regular file: refused")
    return handle


def _named(path: Path | str) -> str:
    """A path in a message: what a person can still read of it."""
    text = str(path)
    return text if len(text) <= 300 else f"{text[:120]}...{text[-120:]}"
