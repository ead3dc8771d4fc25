"""Tensors of a file that `torch.save` wrote, read without running anything: its program is looked at, not executed.

Such a file is a zip of raw numbers and a small program that says how they make tensors. The few words that state dicts
need are understood here; every other one is refused.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from twofold.base.errors import CheckpointError
from twofold.base.regular import open_regular
from twofold.base.tree import Branch
from twofold.core.experience import Array

_MAX_BYTES = 1 << 28
_TYPES = {"FloatStorage": np.float32, "DoubleStorage": np.float64, "LongStorage": np.int64}
_MARK = object()


def read_tensors(content: bytes, name: str) -> Branch:
    """Nested dicts, tuples and lists of arrays, as they were saved."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if sum(sizes.values()) > _MAX_BYTES:
                raise CheckpointError(f"{name} holds more than {_MAX_BYTES:,} bytes: refused")
            program = next(entry for entry in sizes if entry.endswith("/data.pkl"))
            folder = program.removesuffix("data.pkl")
            return _Reader(archive, folder).read(archive.read(program))
    except (zipfile.BadZipFile, StopIteration, KeyError, IndexError, ValueError, TypeError) as error:
        raise CheckpointError(f"{name} is not a file of torch.save with tensors alone: {error!r}") from None


def read_member(path: Path, member: str) -> bytes:
    """One file out of a zip."""
    try:
        with open_regular(path, _MAX_BYTES, follow=True) as file, zipfile.ZipFile(file) as archive:
            if archive.getinfo(member).file_size > _MAX_BYTES:
                raise CheckpointError(f"{path}: {member} is larger than {_MAX_BYTES:,} bytes: refused")
            return archive.read(member)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(f"{path} is not a zip with {member} in it: {error}") from None


class _Reader:
    """A machine with a stack that knows dicts, tuples, lists, texts, numbers and tensors."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self.archive, self.folder = archive, folder
        self.stack: list[Branch] = []
        self.memo: dict[int, Branch] = {}

    def read(self, program: bytes) -> Branch:
        for opcode, argument, _ in pickletools.genops(program):
            if opcode.name == "STOP":
                return self.stack.pop()
            self._do(opcode.name, argument)
        raise ValueError("the program has no end")

    def _do(self, word: str, argument: Branch) -> None:
        if word in ("PROTO", "FRAME"):
            return
        if word in _CONSTANTS:
            self.stack.append(_CONSTANTS[word]())
        elif word in _VALUES:
            self.stack.append(argument)
        elif word in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif word == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif word in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif word in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(word[-1])
            self.stack[-count:] = [tuple(self.stack[-count:])]
        else:
            self._combine(word)

    def _combine(self, word: str) -> None:
        if word == "TUPLE":
            self.stack.append(tuple(self._since_mark()))
        elif word in ("SETITEMS", "APPENDS"):
            self._fill(self._since_mark(), word)
        elif word == "SETITEM":
            value, key = self.stack.pop(), self.stack.pop()
            self.stack[-1][key] = value
        elif word == "APPEND":
            value = self.stack.pop()
            self.stack[-1].append(value)
        elif word == "STACK_GLOBAL":
            name, module = self.stack.pop(), self.stack.pop()
            self.stack.append(f"{module} {name}")
        elif word == "BINPERSID":
            self.stack.append(self._storage(self.stack.pop()))
        elif word == "REDUCE":
            arguments, what = self.stack.pop(), self.stack.pop()
            self.stack.append(_made(what, arguments))
        elif word == "BUILD":
            self.stack.pop()  # attributes of a dict, such as the version of a module: no tensor depends on them
        else:
            raise ValueError(f"the word {word} is not understood")

    def _since_mark(self) -> list[Branch]:
        place = max(i for i, value in enumerate(self.stack) if value is _MARK)
        found, self.stack[place:] = self.stack[place + 1 :], []
        return found

    def _fill(self, found: list[Branch], word: str) -> None:
        if word == "APPENDS":
            self.stack[-1].extend(found)
        else:
            self.stack[-1].update(zip(found[::2], found[1::2], strict=True))

    def _storage(self, about: Branch) -> Array:
        kind, storage, key, _, count = about
        dtype = _TYPES[str(storage).rpartition(" ")[2]]
        if kind != "storage" or not str(key).isdigit():
            raise ValueError(f"{about!r} is not a storage")
        array = np.frombuffer(self.archive.read(f"{self.folder}data/{key}"), dtype)
        if len(array) != count:
            raise ValueError(f"storage {key} has {len(array)} numbers, not {count}")
        return array


def _made(what: str, arguments: tuple[Branch, ...]) -> Branch:
    if what == "collections OrderedDict" and not arguments:
        return {}
    if what == "torch._utils _rebuild_parameter":
        return arguments[0]
    if what == "torch._utils _rebuild_tensor_v2":
        storage, offset, size, stride = arguments[:4]
        return _tensor(storage, offset, size, stride)
    raise ValueError(f"{what} is not made here")


def _tensor(storage: Array, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Array:
    """The array of a contiguous tensor; no other layout is saved by a state dict of fresh modules."""
    count = math.prod(size)
    dense = tuple(math.prod(size[place + 1 :]) for place in range(len(size)))
    if tuple(stride) != dense and count > 1:
        raise ValueError(f"a tensor of shape {size} has the strides {stride}")
    if not 0 <= offset <= len(storage) - count:
        raise ValueError(f"a tensor of shape {size} does not lie in its storage")
    return storage[offset : offset + count].reshape(size).copy()


_CONSTANTS: dict[str, Callable[[], object]] = {
    "MARK": lambda: _MARK,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
}
_VALUES = {
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "GLOBAL",
}
