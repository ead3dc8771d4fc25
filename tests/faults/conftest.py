from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from digest import digest
from harness import Driver, command

MEMORY = Path("/dev/shm")


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of fsyncs on a busy disk would only make the tests slow."""
    place = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="twofold-faults-") as name:
        yield Path(name)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with _folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def shared() -> Iterator[Path]:
    with _folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def driver(shared: Path) -> Iterator[Driver]:
    (shared / "driver").mkdir()
    made = Driver(shared / "driver")
    yield made
    made.close()


@pytest.fixture(scope="session")
def straight(driver: Driver, shared: Path) -> tuple[Path, dict[str, str]]:
    """The tiny run that nothing ever happened to, and its digest."""
    folder = shared / "run"
    code, child = driver.run(command(folder))
    assert code == 0, child.output()
    return folder, digest(folder)
