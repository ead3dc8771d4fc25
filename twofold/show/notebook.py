"""Progress in a notebook's output cell, refreshed in place, without widgets."""

from __future__ import annotations

import html
import sys
from typing import TYPE_CHECKING

from twofold.base.progress import Progress, Quiet
from twofold.show.console import Terminal

if TYPE_CHECKING:
    from IPython.display import HTML, DisplayHandle


class NotebookBar:
    """A bar with steps, speed and the last evaluation in the output of a notebook's cell."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None
        self._total = 1

    def start(self, done: int, total: int) -> None:
        from IPython.display import display

        self._total = max(total, 1)
        self._handle = display(self._shown(done, ""), display_id=True)

    def update(self, done: int, speed: float, last_return: float) -> None:
        if self._handle is None:
            raise RuntimeError("start comes before update")
        self._handle.update(self._shown(done, f"{speed:,.0f} steps/s, return {last_return:.1f}"))

    def finish(self) -> None:
        """The bar stays as it was last."""

    def _shown(self, done: int, text: str) -> HTML:
        from IPython.display import HTML

        bar = f'<progress value="{done}" max="{self._total}" style="width: 50%"></progress>'
        return HTML(f"<div>{bar} {done:,} / {self._total:,} {html.escape(text)}</div>")


def fitting_bar() -> Progress:
    """A bar for where the program runs: a notebook, a terminal, or nothing to look at."""
    if _in_notebook():
        return NotebookBar()
    return Terminal().training() if sys.stderr.isatty() else Quiet()


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; IPython is never imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
