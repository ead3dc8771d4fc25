"""Files that other libraries write, whole or absent."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.regular import refuse_to_replace


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file of the same name in a folder of its own; written to its end it becomes `path`, else it is gone."""
    refuse_to_replace(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".twofold-", dir=path.parent) as folder:
            yield Path(folder) / path.name
            os.replace(Path(folder) / path.name, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
