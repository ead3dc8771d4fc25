"""What a person sees: a progress bar with speed and time left in a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging


class Bar:
    """A bar with steps/s, time left and the last evaluation."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        self._rich = Rich(
            TextColumn("[cyan]training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("[green]{task.fields[last]}"),
            console=Console(stderr=True),
        )
        self._task = TaskID(0)  # until `start`

    def start(self, done: int, total: int) -> None:
        self._rich.start()
        self._task = self._rich.add_task("train", total=total, completed=done, speed="", last="")

    def update(self, done: int, speed: float, last_return: float) -> None:
        last = f"return {last_return:.1f}"
        self._rich.update(self._task, completed=done, speed=f"{speed:,.0f} steps/s", last=last)

    def finish(self) -> None:
        self._rich.stop()


def set_up_logging(*, terminal: bool, debug: bool = False) -> None:
    """Coloured log in a terminal, plain lines otherwise."""
    log = logging.getLogger("twofold")
    log.handlers.clear()
    log.propagate = False
    log.setLevel(logging.DEBUG if debug else logging.INFO)
    if terminal:
        from rich.console import Console
        from rich.logging import RichHandler

        handler: logging.Handler = RichHandler(
            console=Console(stderr=True), show_path=False, log_time_format="%H:%M:%S", markup=False
        )
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
