"""`recurrent.c` as Python sees it: a recurrent network over whole episodes, and QMIX's mixer."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import Structure, c_int64, c_void_p

import torch
from torch import Tensor

from twofold.native.library import Library, absent, library


class Rows(Structure):
    """Rows of numbers; the stride counts numbers."""

    _fields_ = [("at", c_void_p), ("stride", c_int64)]


class RecurrentFields(Structure):
    """All that the C side knows of one network and its room."""

    _fields_ = [
        *((name, c_void_p) for name in ("multiply", "live")),
        *((name, c_int64) for name in ("steps", "rows", "inputs", "width", "outputs")),
        *((name, Rows) for name in ("x", "entered", "hidden")),
        *((name, c_void_p) for name in ("gates", "past", "q", "slopes", "d_hidden", "d_entered")),
        *((name, c_void_p) for name in ("carry", "scratch")),
        *((name, c_void_p) for name in ("enter", "into", "recur", "leave")),
        *((name, c_void_p) for name in ("d_enter", "d_into", "d_recur", "d_leave")),
        *((name, c_void_p) for name in ("d_q", "d_memory")),
    ]


class MixerFields(Structure):
    """All that the C side knows of one mixer and its room."""

    _fields_ = [
        ("multiply", c_void_p),
        *((name, c_int64) for name in ("rows", "state", "agents", "embed", "hyper")),
        ("states", Rows),
        *((name, c_void_p) for name in ("values", "parts", "into", "out", "mixed", "joint", "scratch")),
        *((name, c_void_p) for name in ("first", "second_in", "second_out", "value")),
        *((name, c_void_p) for name in ("d_first", "d_second_in", "d_second_out", "d_value")),
        *((name, c_void_p) for name in ("d_joint", "d_values")),
    ]


class Sequences:
    """The functions of a built `recurrent.c`."""

    def __init__(self, built: Library) -> None:
        self.multiply, self.dtype = built.multiply, built.dtype
        size = built.functions.native_sequence_size
        size.restype = c_int64
        if size() != 1000 * ctypes.sizeof(RecurrentFields) + ctypes.sizeof(MixerFields):
            raise OSError("its structures are others")
        self.recurrent = (built.functions.native_recurrent_forward, built.functions.native_recurrent_backward)
        self.mixer = (built.functions.native_mixer_forward, built.functions.native_mixer_backward)
        for function in (*self.recurrent, *self.mixer):
            function.restype, function.argtypes = None, (c_void_p,)


def sequences(like: Tensor) -> Sequences | None:
    """The C functions for tensors like this one, or None: there torch does the work."""
    if absent() is not None or like.device.type != "cpu" or like.dtype != torch.float32:
        return None
    return Sequences(library())


def rows(tensor: Tensor) -> Rows:
    """Where the rows of [..., R, d] lie."""
    return Rows(tensor.data_ptr(), tensor.stride(-2))


def call(function: Callable[[c_void_p], None], fields: Structure) -> None:
    function(ctypes.cast(ctypes.byref(fields), c_void_p))
