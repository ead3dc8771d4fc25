"""Strategies for hostile input: files and documents that were right once, and values that nobody expects."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

DEEP: Any = 1
for _ in range(120):
    DEEP = [DEEP]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 0.5, -1e-300, 1e308, -1e308, 10**18, 10**400, float("nan"),
    float("inf"), "", "x", "0", "1e9999", "nan", "../../x", "/dev/zero", "/etc/passwd", "a\nb",
    "\x1b[31mred", "\x00", "\ud800", "é" * 300, "y" * 5_000, [], {}, [[]], [None], [1, "a"], {"": 0},
    {"@": "/x"}, {"mean": "x"}, [0] * 1_000, DEEP, "2024-01-01", "!!python/name:os.system",
    "<img src=x onerror=alert(1)>", "=cmd|' /C calc'!A0",
]  # fmt: skip
TOKENS: list[bytes] = [
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"PAR1", b"{", b"}", b"[", b"]", b'"', b",",
    b":", b"\n", b"\r", b"-", b"*", b"&", b"!!", b"<<: ", b"NaN", b"1e999", b"9" * 400, b"null", b"\\ud800",
    b"[" * 300, b"%", b"\t", b"'", b"\x80",
]  # fmt: skip


def paths(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be replaced in a document of dicts and lists."""
    found = [at] if at else []
    inside = document.items() if isinstance(document, dict) else ()
    inside = enumerate(document) if isinstance(document, list) else inside
    return found + [path for key, value in inside for path in paths(value, (*at, key))]


def values() -> st.SearchStrategy[Any]:
    """One of those that nobody expects, to be changed at will."""
    return st.sampled_from(VALUES).map(copy.deepcopy)


@st.composite
def documents(draw: st.DrawFn, right: Any, most: int = 3) -> bytes:
    """JSON that was right until one to `most` of its places were changed, taken away or added to."""
    document = copy.deepcopy(right)
    for _ in range(draw(st.integers(1, most))):
        known = paths(document)
        if not known:
            return json.dumps(draw(values())).encode()
        *above, last = draw(st.sampled_from(known))
        place = document
        for key in above:
            place = place[key]
        deed = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if deed == "replace":
            place[last] = draw(values())
        elif deed == "remove":
            del place[last]
        elif isinstance(place, dict):
            place[draw(st.sampled_from(["", "x", "@", "format", "__class__", "é" * 50]))] = draw(values())
        else:
            place.insert(0, draw(values()))
    return json.dumps(document).encode()


@st.composite
def contents(draw: st.DrawFn, right: bytes, most: int = 4) -> bytes:
    """Bytes that were right until they were cut, flipped, doubled, or had something put in."""
    content = right
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(content)))
        to = min(len(content), at + draw(st.integers(0, 40)))
        deed = draw(st.sampled_from(["cut", "flip", "drop", "double", "put", "put", "replace"]))
        if deed == "cut":
            content = content[:at]
        elif deed == "flip" and at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        elif deed == "drop":
            content = content[:at] + content[to:]
        elif deed == "double":
            content = content[:to] + content[at:]
        elif deed == "put":
            content = content[:at] + draw(st.sampled_from(TOKENS)) + content[at:]
        else:
            content = content[:at] + draw(st.binary(max_size=8)) + content[to:]
    return content


def either(right: Any) -> st.SearchStrategy[bytes]:
    """A changed document, or changed bytes of the right one."""
    return st.one_of(documents(right), contents(json.dumps(right, indent=1).encode()))
