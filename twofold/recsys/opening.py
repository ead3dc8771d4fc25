"""Data files of the user: regular ones only, unpacked on the way, never endlessly many bytes."""

from __future__ import annotations

import csv
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from twofold.base.errors import MissingPackage, UserError
from twofold.base.regular import open_regular

MAX_BYTES = 4_000_000_000  # of a data file, packed and unpacked
_MAX_RATIO = 200  # ratings pack to a fifth; a file that unpacks to much more is no data
_FREE = 100_000_000  # bytes that any file may unpack to
_MAX_FIELD = 10_000_000  # letters
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}


class _Measured(io.RawIOBase):
    """A stream that ends with an error instead of filling the memory."""

    def __init__(self, source: BinaryIO, most: int, path: Path) -> None:
        self._source, self._left, self._most, self._path = source, most, most, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # what a reader gives
        found = self._source.read(len(buffer))
        buffer[: len(found)] = found
        self._left -= len(found)
        if self._left < 0:
            raise UserError(f"{self._path} unpacks to more than {self._most:,} bytes: refused")
        return len(found)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a data file, unpacked if it is packed (gzip, bzip2, zstd, lz4), whatever its name says."""
    with open_regular(path, MAX_BYTES, follow=True) as file, explained(path):
        first = file.read(4)
        file.seek(0)
        if first[:2] == b"PK":
            raise UserError(f"{path} is a zip archive: unpack it first")
        kind = next((kind for mark, kind in _PACKED.items() if first.startswith(mark)), None)
        if kind is None:
            yield file
            return
        pyarrow = arrow(path)
        size = os.fstat(file.fileno()).st_size
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), kind) as unpacked:
            most = min(MAX_BYTES, max(_FREE, _MAX_RATIO * size))
            yield _Measured(unpacked, most, path)  # type: ignore[misc]


@contextmanager
def opened_text(path: Path, encoding: str = "utf-8-sig") -> Iterator[io.TextIOBase]:
    """The same as text, with the ends of lines as they are."""
    csv.field_size_limit(_MAX_FIELD)
    with opened(path) as file:
        yield io.TextIOWrapper(io.BufferedReader(file), encoding=encoding, newline="")  # type: ignore[type-var]


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What a reader has against a file, as one line."""
    try:
        yield
    except UserError:
        raise
    except UnicodeError as error:
        raise UserError(f"{path} is not text of the expected encoding ({str(error)[:120]})") from None
    except (OSError, EOFError, zlib.error, csv.Error, ValueError, LookupError, OverflowError) as error:
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        raise UserError(f"{path} cannot be read: damaged, or not what its name says ({why})") from None
    except RuntimeError as error:  # a generator that found nothing where a header belongs
        raise UserError(f"{path} cannot be read: it ends too early ({str(error)[:80]})") from None
    except MemoryError:
        raise UserError(f"{path} is too large for this machine's memory") from None


def arrow(path: Path) -> ModuleType:
    """The package that reads tables."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise MissingPackage("pyarrow", "recsys", f"reading {path.name}") from None
    found: ModuleType = pyarrow
    return found
