"""The one part that pyproject.toml cannot say: the C engine, which is left out where it cannot be built."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "twofold/native/engine.c"
DIGEST = hashlib.sha256((Path(__file__).parent / SOURCE).read_bytes()).hexdigest()[:16]

setup(
    ext_modules=[
        Extension(
            "twofold.native._engine",
            [SOURCE],
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
