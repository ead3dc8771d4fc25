"""One process at a time in a run directory, also on shared storage where locks of other machines are not seen."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import open_regular, open_to_write, read_text

BEAT_LIMIT = 120.0  # seconds without a sign of life after which another machine's process counts as dead
_LONGEST = 400  # bytes of a lock that anybody reads


class RunLock:
    """A file that one process holds: `PID HOST NONCE`; its time is the process's last sign of life."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "lock"
        self._handle: int | None = None
        self._ours = b""

    def take(self) -> None:
        """Refuse a second process; the lock of a dead one is free by itself. Taken twice, it is still one lock."""
        if self._handle is not None:
            return
        try:
            handle = open_to_write(self.path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._refuse_far(handle)
            self._ours = f"{os.getpid()} {socket.gethostname()} {secrets.token_hex(8)}".encode()
            os.ftruncate(handle, 0)
            os.pwrite(handle, self._ours, 0)
        except BlockingIOError:
            owner = _holder(handle).process or "unknown"
            os.close(handle)
            raise UserError(
                f"{self.folder} is in use by process {owner}: stop it first, or give another --run"
            ) from None
        except (OSError, UserError) as error:
            os.close(handle)
            if isinstance(error, UserError):
                raise
            raise UserError(f"cannot write {self.path}: {error.strerror}") from None
        self._handle = handle

    def _refuse_far(self, handle: int) -> None:
        """Refuse while a process of another machine gives signs of life: its lock may not be seen from here."""
        found = _holder(handle)
        if found.alive_elsewhere:
            raise UserError(
                f"{self.folder} is in use by process {found.process} on {found.host} ({self._remedy(found)}"
            )

    def _remedy(self, found: Holder) -> str:
        """How fresh the sign of life is, and what helps if the process is dead."""
        if found.age < 0:  # waiting for a clock that is ahead could take for ever
            dated = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() - found.age))
            return f"a sign of life dated {dated}, which is to come): stop it first; if it is dead, remove {self.path}"
        left = BEAT_LIMIT - found.age
        return (
            f"a sign of life {found.age:.0f} s ago): stop it first; if it is dead, try again in {left:.0f} s"
        )

    def beat(self) -> None:
        """A sign of life for other machines and for whoever watches."""
        if self._handle is not None:
            os.utime(self._handle)

    def check(self) -> None:
        """Stop if the directory or its lock was taken away: another process could be writing there."""
        if self._handle is None:
            return
        try:
            ours = os.path.samestat(os.fstat(self._handle), os.lstat(self.path))
            ours = ours and os.pread(self._handle, _LONGEST, 0) == self._ours
        except OSError:
            ours = False
        if not ours:
            raise UserError(
                f"the run directory {self.folder} vanished or lost its lock: nothing can be saved, training stops"
            )

    def release(self) -> None:
        """Free for everybody, other machines too; a lock that is not ours any more is left alone."""
        handle, self._handle = self._handle, None
        if handle is not None:
            if os.pread(handle, _LONGEST, 0) == self._ours:
                os.ftruncate(handle, 0)
            os.close(handle)

    def __del__(self) -> None:
        """A run that nobody went on with must not keep others out."""
        self.release()


@dataclass(frozen=True)
class Holder:
    """Who a lock names, and how long ago it gave a sign of life; empty where it names nobody."""

    process: str
    host: str
    age: float

    @property
    def alive_elsewhere(self) -> bool:
        return self.host not in ("", socket.gethostname()) and self.age < BEAT_LIMIT


def holder(folder: Path) -> Holder:
    """Who the lock of a run names; asking for the lock itself would disturb its holder."""
    try:
        with open_regular(folder / "lock") as file:
            return _holder(file.fileno())
    except UserError:
        return Holder("", "", 0.0)


def _holder(handle: int) -> Holder:
    """A lock of before has no host, a damaged one neither."""
    try:
        words = os.pread(handle, _LONGEST, 0).decode(errors="replace").split()
    except OSError:
        words = []
    age = time.time() - os.fstat(handle).st_mtime
    if not words or not words[0].isdigit():
        return Holder("", "", age)
    return Holder(words[0], words[1] if len(words) == 3 else "", age)


# ---- which process of this machine holds one ----------------------------------------------------------------------


def lock_holder(path: Path) -> int | None:
    """The process that holds the lock of a run, as the system lists it: asking for the lock would disturb it."""
    return held_locks().get(place_of(path))


def held_locks() -> dict[str, int]:
    """Every file lock of the machine: the process by the place of the file."""
    try:
        table = read_text(Path("/proc/locks"))
    except UserError:
        return {}
    lines = [line.split() for line in table.splitlines()]
    return {words[5]: int(words[4]) for words in lines if len(words) > 5 and words[1] == "FLOCK"}


def place_of(path: Path) -> str:
    """A file as the list of locks names it: device and inode."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
