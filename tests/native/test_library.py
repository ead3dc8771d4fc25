"""Finding the built library and the products it is handed."""

from __future__ import annotations

import shutil
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import twofold.native
from twofold.native.library import SOURCES, Absent, found_in, library

HERE = Path(twofold.native.__file__).parent


def test_a_library_that_was_not_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="not built: install twofold again where there is a C compiler"):
        found_in(tmp_path)


def test_a_library_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    (tmp_path / f"_engine{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    with pytest.raises(Absent, match="cannot be used"):
        found_in(tmp_path)


@pytest.mark.skipif(not list(HERE.glob("_engine*.so")), reason="the native engine was not built")
@pytest.mark.parametrize("changed", SOURCES)
def test_a_library_of_another_source_is_not_used(tmp_path: Path, changed: str) -> None:
    shutil.copy(next(HERE.glob("_engine*.so")), tmp_path)
    for name in SOURCES:
        shutil.copy(HERE / name, tmp_path)
    found_in(tmp_path)
    (tmp_path / changed).write_bytes((HERE / changed).read_bytes() + b"\n")
    with pytest.raises(Absent, match=r"another engine\.c: `make native` builds it again"):
        found_in(tmp_path)


@pytest.mark.skipif(not list(HERE.glob("_engine*.so")), reason="the native engine was not built")
def test_the_products_are_those_of_a_library_that_is_loaded_anyway() -> None:
    assert library().blas.split(" of ")[1] in ("torch", "numpy")
