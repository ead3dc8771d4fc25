"""The one part that pyproject.toml cannot say: the C engine, which is left out where it cannot be built."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

FOLDER = "twofold/native"
SOURCES = [f"{FOLDER}/{name}" for name in ("engine.c", "recurrent.c")]
HEADERS = [f"{FOLDER}/{name}" for name in ("layers.h", "numbers.h", "sale.h", "threads.h")]
CODE = b"".join((Path(__file__).parent / file).read_bytes() for file in (*SOURCES, *HEADERS))
DIGEST = hashlib.sha256(CODE).hexdigest()[:16]

setup(
    ext_modules=[
        Extension(
            "twofold.native._engine",
            SOURCES,
            depends=HEADERS,
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
