"""The native engine for tests: whether it is there, and a version of it for double numbers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import twofold.native
from twofold.native.library import SOURCES, Library, absent

FOLDER = Path(twofold.native.__file__).parent
needs_native = pytest.mark.skipif(absent() is not None, reason=f"no native engine: {absent()}")


def double(folder: Path) -> Library:
    """The C files compiled for float64, in which rounding hides nothing; CFLAGS as for the installed one."""
    compiler, path = shutil.which("cc"), folder / "engine64.so"
    if compiler is None:
        pytest.skip("no C compiler")
    flags = ["-std=c11", "-O1", "-DPLAIN", "-DREAL=double", *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [
        compiler,
        *flags,
        "-fopenmp-simd",
        "-fPIC",
        "-shared",
        "-pthread",
        *(str(FOLDER / name) for name in SOURCES if name.endswith(".c")),
        "-o",
        str(path),
    ]
    subprocess.run([*command, "-lm"], check=True)
    return Library(path, torch.float64)
