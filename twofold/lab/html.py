"""Pieces of a page: everything that comes from a run is escaped here, and nowhere else is HTML made of it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.regular import read_text
from twofold.show import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ASSETS = Path(__file__).resolve().parent / "assets"
# A report needs nothing from anywhere and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def page(title: str, body: Iterable[str]) -> str:
    """A whole document that needs no network and holds no script."""
    css = read_text(_ASSETS / "report.css")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(title)}</title><style>{css}</style></head><body><main>",
            *body,
            "</main></body></html>",
            "",
        ]
    )


def text(value: object) -> str:
    """Anything as text, never as HTML; control characters are shown as question marks."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in str(value))
    return escape(shown)


def number(value: str) -> str:
    """A formatted number with true minus signs."""
    return _MINUS.sub("−", text(value))


def element(tag: str, content: str, **attributes: str) -> str:
    """One element; `content` must be HTML already. class_ and the like lose their underscore."""
    given = "".join(f' {name.rstrip("_")}="{text(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>{content}</{tag}>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str, texts: bool = False) -> str:
    """A table that scrolls by itself where the page is narrow; the first cell of a row names it. Cells are HTML."""
    heads = "".join(element("th", cell, scope="col") for cell in head)
    body = "".join(
        element("tr", element("th", row[0], scope="row") + "".join(element("td", c) for c in row[1:]))
        for row in rows
    )
    content = element("caption", text(caption)) + element("thead", element("tr", heads))
    inner = element("table", content + element("tbody", body), class_="texts" if texts else "numbers")
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption).replace(
        " aria_label=", " aria-label=", 1
    )


def swatch(index: int) -> str:
    """The colour of a line, beside its name."""
    return f'<span class="swatch" style="background:var(--c{index % len(style.PALETTE)})"></span>'


def picture(figures: Sequence[Figure], *, label: str, caption: str) -> str:
    """A figure that follows the colours of the page, wide and perhaps narrow, described for who cannot see it."""
    kinds = ("wide", "narrow") if len(figures) > 1 else ("only",)
    drawn = "".join(svg(figure, label, kind) for figure, kind in zip(figures, kinds, strict=True))
    return element("figure", drawn + element("figcaption", text(caption)), class_="card")


def svg(figure: Figure, label: str, kind: str) -> str:
    """The figure as SVG inside the page: its colours become the page's, its text the page's type."""
    drawing = style.to_bytes(figure, "svg").decode()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, count=1, flags=re.DOTALL)
    drawing = re.sub(r' (?:width|height)="[\d.]+pt"', "", drawing, count=2)
    drawing = re.sub(r"font-family: [^;\"]*", "font-family: inherit", drawing)
    drawing = re.sub(r"\bfont: ([^;\"]*?)'DejaVu Sans'[^;\"]*", r"font: \1system-ui, sans-serif", drawing)
    drawing = re.sub(r"\n(?=[LQCz\"])", " ", drawing)
    drawing = drawing.replace("fill: #ffffff", "fill: none").replace(
        "opacity: 0.8; stroke: #cccccc", "stroke: none"
    )
    for index, (light, _) in enumerate(style.PALETTE):
        drawing = drawing.replace(light, f"var(--c{index})")
    for colour, name in ((style.INK, "ink"), (style.MUTED, "muted"), (style.GRID, "grid")):
        drawing = drawing.replace(colour, f"var(--{name})")
    # Both widths stand in one page: what a drawing refers to must be its own.
    drawing = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{kind[0]}", drawing)
    return drawing.replace("<svg", f'<svg class="{kind}" role="img" aria-label="{text(label)}"', 1)


def embedded(path: Path, content: bytes) -> str:
    """A film or picture inside the page."""
    kinds = {
        ".mp4": "video/mp4",
        ".webm": "video/webm",
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".gif": "image/gif",
    }
    kind = kinds[path.suffix.lower()]
    source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    if kind.startswith("video/"):
        return f'<video controls loop muted playsinline preload="metadata" src="{source}"></video>'
    return f'<img alt="{text(path.name)}" src="{source}">'
