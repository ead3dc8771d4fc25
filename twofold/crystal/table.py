"""The table of a batch: one row for each structure, on disk as soon as it is known, so that a batch can be resumed."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import is_there, open_to_write, read_regular
from twofold.store import files

Row = dict[str, str]  # by COLUMNS; a number that is not known is empty
COLUMNS = (
    "structure",
    "atoms",
    "calls",
    "energy_eV",
    "fmax_eV_per_A",
    "seconds",
    "calculator",
    "engine",
    "state",
    "reason",
    "file",
    "digest",
)
RELAXED, NOT_CONVERGED, FAILED = "relaxed", "NOT CONVERGED", "FAILED"
DEATHS = 3  # of the process while it relaxed one structure, before that structure is given up
_MAX_BYTES = 512_000_000


def failed(name: str, reason: str, digest: str = "") -> Row:
    """The row of a structure that could not be relaxed."""
    line = " ".join(reason.split())  # a row is one line of the file
    return dict.fromkeys(COLUMNS, "") | {
        "structure": name, "state": FAILED, "reason": line[:500], "digest": digest
    }  # fmt: skip


def read_rows(path: Path) -> dict[str, Row]:
    """The rows of a table by structure, the last of each; a line that a crash cut off is left out."""
    if not is_there(path):
        return {}
    content = read_regular(path, _MAX_BYTES)
    text = content[: content.rfind(b"\n") + 1].decode(errors="replace")
    lines = csv.reader(io.StringIO(text, newline=""))
    head = next(lines, None)
    if content and head != list(COLUMNS):
        raise UserError(f"{path} is not a table of relaxations: nothing was touched; give another --table")
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in lines if len(line) == len(COLUMNS)]
    return {row["structure"]: row for row in rows}


class Table:
    """Rows in a file that one process writes; without a path they are only remembered."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        self._handle: int | None = None

    def __enter__(self) -> Table:
        if self.path is not None:
            self.rows = read_rows(self.path)
            self._handle = _held(self.path)
            self._cut()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _cut(self) -> None:
        """Begin with a head, go on behind the last whole line."""
        assert self._handle is not None and self.path is not None
        content = read_regular(self.path, _MAX_BYTES)
        os.ftruncate(self._handle, content.rfind(b"\n") + 1)
        if b"\n" not in content:
            os.write(self._handle, _line(COLUMNS))

    def kept(self, name: str, digest: str, file: str | None = None) -> Row | None:
        """The row of a structure that need not be relaxed again: same input, an end, and the file that is wanted."""
        row = self.rows.get(name)
        if row is None or row["digest"] != digest or row["state"] == FAILED:
            return None
        return row if file is None or (row["file"] == file and is_there(file)) else None

    def add(self, row: Row) -> Row:
        """Keep a row; it is on disk when this returns."""
        self.rows[row["structure"]] = row
        if self._handle is not None:
            os.write(self._handle, _line([row[name] for name in COLUMNS]))
            os.fsync(self._handle)
        return row

    def tidy(self, names: Sequence[str]) -> None:
        """Write each row once: those of other structures first, then these in their order."""
        if self.path is None:
            return
        ours = set(names)
        order = [*(name for name in self.rows if name not in ours), *(n for n in names if n in self.rows)]
        lines = [_line(COLUMNS), *(_line([self.rows[n][c] for c in COLUMNS]) for n in order)]
        files.replace_bytes(self.path, b"".join(lines))

    # ---- structures that kill the process ----

    def deaths(self, digest: str) -> int:
        """How often the process died while it relaxed this structure."""
        marks = self._marks()
        if marks is None or not is_there(marks):
            return 0
        return Counter(read_regular(marks, _MAX_BYTES).decode(errors="replace").split())[digest]

    @contextmanager
    def attempt(self, digest: str) -> Iterator[None]:
        """Inside, a mark tells whoever comes after a crash what was being done."""
        marks = self._marks()
        if marks is None:
            yield
            return
        handle = open_to_write(marks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        before = os.fstat(handle).st_size
        try:
            os.write(handle, f"{digest}\n".encode())
            yield
        finally:
            os.ftruncate(handle, before)
            os.close(handle)
            if not before:
                marks.unlink(missing_ok=True)

    def _marks(self) -> Path | None:
        return None if self.path is None else self.path.with_name(f".{self.path.name}.began")


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([" ".join(cell.split()) for cell in cells])
    return text.getvalue().encode(errors="replace")


def _held(path: Path) -> int:
    """The file, opened to be added to and locked; whoever has it already is respected."""
    if not is_there(path.parent):
        raise UserError(f"no folder {path.parent} for the table: make it first")
    handle = open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours = os.path.samestat(os.fstat(handle), os.lstat(path))  # else it was replaced since
    except (BlockingIOError, FileNotFoundError):
        ours = False
    if not ours:
        os.close(handle)
        raise UserError(f"another process writes {path}: wait for it, or give another --table")
    return handle
