"""The C library as Python sees it: its structures and functions, and the matrix products it is handed."""

from __future__ import annotations

import ctypes
import hashlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import torch

LAYERS = 8  # at most so many matrices in a network
ACTIVATIONS = {"relu": 0, "tanh": 1, "elu": 2}  # those whose derivative follows from their output
# Fortran's name of the products and what limits their threads: MKL in torch, OpenBLAS in torch or numpy.
_BLAS = (
    ("{}gemm_", "MKL_Set_Num_Threads_Local"),
    ("{}gemm_", "openblas_set_num_threads_local"),
    ("scipy_{}gemm_64_", "openblas_set_num_threads_local"),
)


class Shape(Structure):
    """A network: its number of matrices, activation, whether it has layer norms, widths from input to output."""

    _fields_ = (
        ("layers", c_int32),
        ("activation", c_int32),
        ("norms", c_int32),
        ("sizes", c_int32 * (LAYERS + 1)),
    )


class Columns(Structure):
    """Some columns of rows; the stride counts numbers."""

    _fields_ = (("at", c_void_p), ("stride", c_int64))


_FIELDS = ("obs", "action", "next_obs", "reward", "terminated", "discount")


class BatchColumns(Structure):
    """A batch of transitions."""

    _fields_ = tuple((name, Columns) for name in _FIELDS)


class Descent(Structure):
    """One step of Adam."""

    _fields_ = (
        *((name, c_void_p) for name in ("values", "grads", "first", "second")),
        ("size", c_int64),
        *((name, c_double) for name in ("scale", "lr", "decay", "beta1", "beta2", "eps", "root")),
    )


_POINTERS = ("actor_values", "actor_grads", "critic_values", "critic_grads", "target_actor", "target_critic")


class Given(Structure):
    """What an engine is made from: the leading fields of the C structure."""

    _fields_ = (
        ("multiply", c_void_p),
        ("limit_threads", c_void_p),
        *((name, c_void_p) for name in (*_POINTERS, "values")),
        ("huber", c_double),
        ("actor_size", c_int64),
        *((name, c_int32) for name in ("rows", "obs", "actions", "twin")),
        ("actor", Shape),
        ("critic", Shape),
    )


class Library:
    """The functions of a built `engine.c`, and products for its numbers."""

    def __init__(self, path: Path, dtype: torch.dtype = torch.float32) -> None:
        self.dtype, self.functions = dtype, ctypes.CDLL(str(path))
        self.functions.native_source.restype = c_char_p
        self.source = self.functions.native_source().decode()
        self.multiply, self.limit_threads, self.blas = _blas("s" if dtype == torch.float32 else "d")
        engine, batch, pointer = c_void_p, POINTER(BatchColumns), c_void_p
        self.new = self._function("native_new", c_void_p, POINTER(Given))
        self.free = self._function("native_free", None, engine)
        self.target = self._function("native_target", None, engine, batch, pointer, pointer, c_int)
        self.critic = self._function("native_critic", c_double, engine, batch, pointer, c_int)
        self.actor = self._function("native_actor", c_double, engine, batch, c_int)
        self.adam = self._function("native_adam", c_double, engine, POINTER(Descent), c_double, c_int)
        self.track = self._function("native_track", None, engine, pointer, pointer, c_int64, c_double, c_int)

    def _function(self, name: str, result: object, *arguments: object) -> ctypes._NamedFuncPointer:
        function: ctypes._NamedFuncPointer = self.functions[name]
        function.restype, function.argtypes = result, arguments  # type: ignore[assignment]
        return function


class Absent(Exception):
    """Why there is no library; the message ends a sentence."""


@cache
def library() -> Library:
    """The library that was built when the package was installed."""
    return found_in(Path(__file__).parent)


def found_in(folder: Path) -> Library:
    """The library that was built from the `engine.c` in this folder."""
    files = [folder / f"_engine{suffix}" for suffix in EXTENSION_SUFFIXES]
    built = next((file for file in files if file.is_file()), None)
    if built is None:
        raise Absent("it was not built: install twofold again where there is a C compiler")
    try:
        found = Library(built)
    except (OSError, AttributeError) as error:
        raise Absent(f"{built} cannot be used ({error})") from None
    if found.source != hashlib.sha256((folder / "engine.c").read_bytes()).hexdigest()[:16]:
        raise Absent(f"{built.name} was built from another engine.c: `make native` builds it again")
    return found


def absent() -> str | None:
    """Why there is no library, or None."""
    try:
        library()
    except Absent as reason:
        return str(reason)
    return None


def _blas(letter: str) -> tuple[int, int, str]:
    """Addresses of products and of what limits their threads, from the first library that has both, and its name."""
    for owner, module in (("torch", torch._C), ("numpy", np._core._multiarray_umath)):  # type: ignore[attr-defined]
        loaded = ctypes.CDLL(module.__file__)  # symbols are also looked for in what it depends on
        for name, limit in _BLAS:
            try:
                found = [ctypes.cast(loaded[n], c_void_p).value or 0 for n in (name.format(letter), limit)]
            except AttributeError:
                continue
            return found[0], found[1], f"{name.format(letter)} of {owner}"
    raise Absent("neither torch nor numpy lets us use its matrix products")
