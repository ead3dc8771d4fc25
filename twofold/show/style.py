"""One look for all pictures: colours that colour-blind people tell apart, quiet axes, steps as 300k."""

from __future__ import annotations

import io
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.errors import UserError
from twofold.base.values import Array
from twofold.store.files import replace_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import RcKeyType

# Okabe and Ito's colours without their yellow, which vanishes on white; the second of each pair is for dark pages.
PALETTE = (
    ("#0072b2", "#4aa8e0"),
    ("#d55e00", "#f08a4b"),
    ("#009e73", "#3cc79e"),
    ("#b8568f", "#e08fbf"),
    ("#b47d00", "#e5b53c"),
    ("#3a9bd1", "#8fd0f5"),
    ("#6f5bbf", "#a797ec"),
    ("#5c6670", "#aab4be"),
)
Dash = str | tuple[float, tuple[float, ...]]
DASHES: tuple[Dash, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
INK, MUTED, GRID = "#1f2328", "#656d76", "#d5dae0"
_FONT = "DejaVu Sans"
_DRAWING = threading.Lock()  # matplotlib's settings belong to the whole process


def colour(index: int) -> str:
    """The colour of the line number `index`."""
    return PALETTE[index % len(PALETTE)][0]


def dash(index: int) -> Dash:
    """Its dashes: lines of the same colour differ in them."""
    return DASHES[index // len(PALETTE) % len(DASHES)]


def new_figure(
    width: float = 7.2, height: float = 4.2, panels: tuple[int, int] = (1, 1)
) -> tuple[Figure, Array]:
    """A figure of its own, unknown to pyplot, and its axes as an array of rows and columns."""
    _import_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    axes = figure.subplots(*panels, squeeze=False)
    for each in axes.flat:
        quiet(each)
    return figure, axes


def _import_matplotlib() -> None:
    """Import it also where MPLBACKEND names no backend: no window is opened here, so that none is needed."""
    try:
        import_module("matplotlib")
    except ValueError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]  # half made
        asked = os.environ.pop("MPLBACKEND", "")
        import_module("matplotlib")
        os.environ["MPLBACKEND"] = asked


def quiet(axes: Axes) -> None:
    """Two thin spines, a faint grid behind the data."""
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.7)
    axes.tick_params(colors=MUTED, labelsize=9, length=3, width=0.7)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set_color(MUTED)
        axis.label.set_fontsize(9.5)


def title(axes: Axes, text: str, below: str = "") -> None:
    """A title to the left, with a quieter line under it."""
    axes.set_title(text, loc="left", fontsize=11.5, fontweight="bold", color=INK, pad=20 if below else 8)
    if below:
        axes.annotate(
            below, (0, 1), (0, 6), "axes fraction", "offset points", fontsize=8.8, color=MUTED, va="bottom"
        )


def legend(axes: Axes) -> None:
    """Names beside the lines, without a box."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, frameon=False, fontsize=9, labelcolor=INK, handlelength=1.8)


def steps_axis(axes: Axes, label: str = "world steps") -> None:
    """300000 as 300k."""
    from matplotlib.ticker import FuncFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
    axes.set_xlabel(label)


def short_count(value: float) -> str:
    """300000 as 300k, 1500000 as 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.2f}".rstrip("0").rstrip(".") + letter
    return f"{value:g}"


def literal(text: str) -> str:
    """A name as it is: matplotlib would set what stands between dollars as a formula and hide what begins with _."""
    shown = "".join(c if c.isprintable() else "?" for c in text).replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as png, svg or pdf; the same figure gives the same bytes."""
    import matplotlib

    settings: dict[RcKeyType, object] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "twofold",
        "font.family": _FONT,
        "pdf.fonttype": 42,
    }
    metadata = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    picture = io.BytesIO()
    with _DRAWING, matplotlib.rc_context(settings):
        figure.savefig(picture, format=kind, dpi=144, metadata=metadata)
    return picture.getvalue()


def write_figure(figure: Figure, out: Path) -> Path:
    """Write the figure whole; the suffix says how."""
    kind = out.suffix[1:].lower() or "png"
    if kind not in ("png", "svg", "pdf"):
        raise UserError(f"cannot draw a .{kind}: give a name that ends in .png, .svg or .pdf")
    replace_bytes(out, to_bytes(figure, kind))
    return out
