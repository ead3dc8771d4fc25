"""The one part that pyproject.toml cannot say: the C engine, which is left out where it cannot be built."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("twofold/native")
SOURCES = [FOLDER / "engine.c", FOLDER / "recurrent.c"]
HEADER = FOLDER / "numbers.h"
WHOLE = b"".join((Path(__file__).parent / path).read_bytes() for path in (*SOURCES, HEADER))
DIGEST = hashlib.sha256(WHOLE).hexdigest()[:16]

setup(
    ext_modules=[
        Extension(
            "twofold.native._engine",
            [str(path) for path in SOURCES],
            depends=[str(HEADER)],
            define_macros=[("SOURCE", f'"{DIGEST}"')],
            extra_compile_args=[
                *("-std=c11", "-O3", "-fopenmp-simd", "-pthread"),
                *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
            ],
            extra_link_args=["-pthread"],
            libraries=["m"],
            optional=True,
        )
    ]
)
