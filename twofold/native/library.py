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
TARGET, CRITIC, ACTOR, ADD, SQUARES, ADAM, TRACK = range(7)  # what `Library.run` can do
SALE_ENCODER, SALE_TARGET, SALE_LOOK, SALE_CRITIC, SALE_ACTOR = range(7, 12)
SOURCES = ("engine.c", "recurrent.c", "layers.h", "numbers.h", "sale.h", "threads.h")
# Fortran's name of the products and what limits their threads: MKL in torch, OpenBLAS in torch or numpy.
_BLAS = (
    ("{}gemm_", "MKL_Set_Num_Threads_Local"),
    ("{}gemm_", "openblas_set_num_threads_local"),
    ("scipy_{}gemm_64_", "openblas_set_num_threads_local"),
)
_Layers = c_void_p * LAYERS


def _pointers(*names: str) -> list[tuple[str, type[c_void_p]]]:
    return [(name, c_void_p) for name in names]


class Shape(Structure):
    """A network: its number of matrices, activation, whether it has layer norms, widths from input to output."""

    _fields_ = [
        ("layers", c_int32),
        ("activation", c_int32),
        ("norms", c_int32),
        ("sizes", c_int32 * (LAYERS + 1)),
    ]


class Columns(Structure):
    """Some columns of rows; the stride counts numbers."""

    _fields_ = [("at", c_void_p), ("stride", c_int64)]


class Stack(Structure):
    """Memory for one pass of rows through layers."""

    _fields_ = [("hidden", _Layers), ("normal", _Layers), ("spread", _Layers)]


class Room(Structure):
    """Memory of one task."""

    _fields_ = [
        *_pointers("input", "action", "action_slope", "value_slope", "scratch", "unused"),
        ("actor", Stack),
        ("critic", Stack),
    ]


class SaleRoom(Structure):
    """Memory of one task with embeddings."""

    _fields_ = [
        *_pointers("input", "pair", "judged", "acted", "raw", "wanted", "slope", "scratch", "unused"),
        *_pointers("action", "action_slope", "value_slope", "own_spread", "actor_spread", "zs_spread"),
        *((name, Stack) for name in ("state", "link", "actor", "critic")),
    ]


class SaleFields(Structure):
    """All that the C side knows of embeddings."""

    _fields_ = [
        *_pointers("encoder_values", "encoder_grads", "zs", "zsa"),
        *((name, c_int32) for name in ("width", "embedding")),
        *((name, Shape) for name in ("state", "link", "actor_first", "critic_first")),
        ("following_at", Columns),
        ("room", SaleRoom * 2),
    ]


class Halves(Structure):
    """Of a gradient that two tasks have made: the second is added to the first."""

    _fields_ = [*_pointers("sum", "other"), ("size", c_int64)]


class AdamStep(Structure):
    """One step of Adam."""

    _fields_ = [
        *_pointers("values", "grads", "first", "second"),
        ("size", c_int64),
        *((name, c_double) for name in ("scale", "lr", "decay", "beta1", "beta2", "eps", "root")),
    ]


class Tracking(Structure):
    """Slow parameters, and the share of the way to the fast ones that they move."""

    _fields_ = [*_pointers("slow", "fast"), ("size", c_int64), ("share", c_double)]


class EngineFields(Structure):
    """All that the C side knows."""

    _fields_ = [
        *_pointers("multiply", "limit_threads", "team", "sale"),
        *_pointers("actor_values", "actor_grads", "critic_values", "critic_grads"),
        *_pointers("target_actor", "target_critic", "values", "next_values"),
        ("huber", c_double),
        ("rows", c_int64),
        *((name, c_int32) for name in ("obs", "actions", "twin")),
        ("actor", Shape),
        ("critic", Shape),
        ("room", Room * 2),
        *((name, Columns) for name in ("obs_at", "action_at", "next_obs_at")),
        *((name, Columns) for name in ("reward_at", "terminated_at", "discount_at")),
        *_pointers("noise", "target"),
        ("halves", Halves),
        ("adam", AdamStep),
        ("track", Tracking),
        ("result", c_double * 2),
    ]


class Library:
    """The functions of a built `engine.c`, and products for its numbers."""

    def __init__(self, path: Path, dtype: torch.dtype = torch.float32) -> None:
        self.dtype, functions = dtype, ctypes.CDLL(str(path))
        functions.native_source.restype, functions.native_size.restype = c_char_p, c_int64
        if functions.native_size() != ctypes.sizeof(EngineFields) + ctypes.sizeof(SaleFields):
            raise OSError("its structures are others")
        self.source = functions.native_source().decode()
        self.multiply, self.limit_threads, self.blas = _blas("s" if dtype == torch.float32 else "d")
        self.run = functions.native_run
        self.run.restype, self.run.argtypes = c_double, (POINTER(EngineFields), c_int)
        self.team = functions.native_team
        self.team.restype, self.team.argtypes = c_void_p, (c_void_p,)
        self.dismiss = functions.native_dismiss
        self.dismiss.restype, self.dismiss.argtypes = None, (c_void_p,)
        self.functions = functions  # recurrent.c's are declared where they are used


class Absent(Exception):
    """Why there is no library; the message ends a sentence."""


@cache
def library() -> Library:
    """The library that was built when the package was installed."""
    return found_in(Path(__file__).parent)


def found_in(folder: Path) -> Library:
    """The library that was built from the sources in this folder."""
    files = [folder / f"_engine{suffix}" for suffix in EXTENSION_SUFFIXES]
    built = next((file for file in files if file.is_file()), None)
    if built is None:
        raise Absent("it was not built: install twofold again where there is a C compiler")
    try:
        found = Library(built)
    except (OSError, AttributeError) as error:
        raise Absent(f"{built} cannot be used ({error}): `make native` builds it again") from None
    if found.source != digest(folder):
        raise Absent(f"{built.name} was built from another source: `make native` builds it again")
    return found


def digest(folder: Path) -> str:
    """What a library built from the C files of this folder says of its source, as in setup.py."""
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in SOURCES)).hexdigest()[:16]


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
