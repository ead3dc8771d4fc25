"""Structure files of the user through ASE's readers: bounded bytes, atoms and structures; what fails is one line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from ase import Atoms
from ase.io import iread
from ase.io.formats import filetype, ioformats

from twofold.base.errors import UserError
from twofold.base.regular import is_there, open_regular, read_regular

MOST_ATOMS = 100_000  # of one structure
MOST_STRUCTURES = 100_000  # of one file
_MAX_BYTES = 128_000_000  # of one structure file, packed and unpacked
_MAX_TABLE_BYTES = 512_000_000
_UNPACK: dict[str, Callable[[io.BytesIO], BinaryIO]] = {
    ".gz": lambda packed: cast(BinaryIO, gzip.GzipFile(fileobj=packed)),
    ".bz2": lambda packed: cast(BinaryIO, bz2.BZ2File(packed)),
    ".xz": lambda packed: cast(BinaryIO, lzma.LZMAFile(packed)),
}
_BY_PATH = (  # take no stream
    "acemolecule-out",
    "aims",
    "aims-output",
    "db",
    "dftb",
    "dmol-arc",
    "dmol-car",
    "dmol-incoor",
    "res",
    "rmc6f",
    "struct",
)
_NEGATIVE = re.compile(r"^\s*_cell_length_[abc]\s+-", re.MULTILINE | re.IGNORECASE)
_WIDE = re.compile(
    rb"properties=[^\n]*?:[a-z]:\+?0*[1-9]\d{3}", re.IGNORECASE
)  # a thousand columns of one property
_ENDS = 1_000  # how often a reader may ask for a line behind the last one


class _Ending(io.StringIO):
    """Text that ends: a reader that goes on asking for lines, because a number in the file says so, is stopped."""

    asked = 0

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # as io.StringIO has it
        line = super().readline(-1 if size is None else size)
        if not line:
            self.asked += 1
            if self.asked > _ENDS:
                raise EOFError("it claims more lines than it has")
        return line


class _Named(io.BytesIO):
    """Bytes with the name of their file, by which ASE guesses what they are."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


def read_structures(path: Path) -> Iterator[Atoms]:
    """The structures of a file in any of ASE's formats."""
    if not is_there(path):
        raise UserError(f"no structure file {path}")
    content, name = _unpacked(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = filetype(_Named(content[:100_000], os.path.abspath(name)))
            source = str(path) if kind in _BY_PATH and name == str(path) else _stream(content, kind, path)
            yield from _few(iread(source, index=":", format=kind, do_not_split_by_at_sign=True), path)
    except UserError:
        raise
    except Exception as error:  # ASE's many readers fail in as many ways
        why = ": ".join(filter(None, (type(error).__name__, str(error).partition("\n")[0][:200])))
        raise UserError(f"{path}: cannot be read as a structure ({why})") from None


def is_structure(path: Path) -> bool:
    """Whether ASE takes a file for a structure, by its name or by how it begins; a text of something else is none."""
    try:
        with open_regular(path, follow=True) as file:
            begin = file.read(100_000)
        name = path.with_suffix("") if path.suffix in _UNPACK else path
        kind = filetype(_Named(begin, os.path.abspath(name)))
    except (UserError, OSError):
        return False
    except Exception:  # ASE knows no such kind, or its guess fails in a way of its own
        return False
    known = ioformats.get(kind)
    return known is not None and known.can_read and (known.acceptsfd or kind in _BY_PATH)


def _unpacked(path: Path) -> tuple[bytes, str]:
    """The content, and the name without what says how it is packed."""
    packed = read_regular(path, _MAX_BYTES, follow=True)
    if path.suffix not in _UNPACK:
        return packed, str(path)
    try:
        with _UNPACK[path.suffix](io.BytesIO(packed)) as file:
            content: bytes = file.read(_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise UserError(f"{path} cannot be unpacked ({error})") from None
    if len(content) > _MAX_BYTES:
        raise UserError(f"{path} unpacks to more than {_MAX_BYTES:,} bytes: refused")
    return content, str(path.with_suffix(""))


def _stream(content: bytes, kind: str, path: Path) -> io.IOBase:
    known = ioformats.get(kind)
    if known is None or not known.can_read or not known.acceptsfd:
        raise UserError(f"{path}: a file of the kind '{kind}' is not read here: give CIF, POSCAR or extxyz")
    if kind == "cif":
        _refuse_negative(content.decode("latin-1"), str(path))
    if kind == "extxyz" and _WIDE.search(content):  # ASE would make them all before it looks at a row
        raise UserError(f"{path}: one of its Properties claims a thousand columns or more")
    if known.isbinary:
        return io.BytesIO(content)
    return _Ending(content.decode(known.encoding or "utf-8-sig"))


def _few(found: Iterator[Atoms], path: Path) -> Iterator[Atoms]:
    for number, atoms in enumerate(found):
        if number >= MOST_STRUCTURES:
            raise UserError(f"{path} holds more than {MOST_STRUCTURES:,} structures: split it")
        if len(atoms) > MOST_ATOMS:
            raise UserError(f"{path} holds a structure of {len(atoms):,} atoms, more than {MOST_ATOMS:,}")
        yield atoms


def read_table(path: Path) -> Iterator[tuple[int, Atoms]]:
    """The structures of a CSV whose column 'structure' holds CIF text, with the numbers of their rows."""
    for number, text in table_texts(path):
        yield number, from_cif(text, f"{path}, row {number}")


def table_texts(path: Path) -> Iterator[tuple[int, str]]:
    """The CIF texts of such a CSV, with the numbers of their rows."""
    if not is_there(path):
        raise UserError(f"no structure file {path}")
    csv.field_size_limit(10_000_000)
    try:
        text = read_regular(path, _MAX_TABLE_BYTES, follow=True).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""))
        if "structure" not in (rows.fieldnames or ()):
            raise UserError(f"{path}: a CSV of structures needs a column 'structure' with CIF text")
        for number, row in enumerate(rows):
            yield number, row["structure"] or ""
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a CSV of UTF-8 text ({error})") from None


def _refuse_negative(cif: str, where: str) -> None:
    """ASE turns the axis round and goes on."""
    if _NEGATIVE.search(cif):
        raise UserError(f"{where}: a length of its cell is negative")


def from_cif(text: str, where: str) -> Atoms:
    """The structure of a CIF text."""
    _refuse_negative(text, where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The last one is what ASE takes where none is named.
            *_, atoms = _few(iread(_Ending(text), index=":", format="cif"), Path(where))
    except UserError:
        raise
    except Exception as error:  # as above
        raise UserError(f"{where}: not a CIF text ({str(error)[:200]})") from None
    return atoms
