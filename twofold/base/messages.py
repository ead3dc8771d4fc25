"""Text from elsewhere as a terminal may show it."""

from __future__ import annotations

MOST = 4_000  # letters of one message


def printable(text: object, most: int = MOST) -> str:
    """The text without control characters, escape codes and broken letters, no longer than `most`."""
    whole = str(text)
    shown = whole[:most]
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in shown)
    left_out = len(whole) - most
    return f"{shown}... ({left_out:,} more letters)" if left_out > 0 else shown


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape", "surrogatepass").decode()
