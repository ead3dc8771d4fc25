"""Which policies of a run are kept: the best by validation, and finalists that a second validation decides between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from twofold.core.protocols import State
from twofold.store import files

log = logging.getLogger("twofold")


class Selection:
    """The policy files of a run directory; where the disk is full they wait, and are written later."""

    def __init__(self, folder: Path, places: int) -> None:
        self.folder, self.places = folder, places  # one place: there are no finalists, only the best
        self.best: float | None = None
        self.finalists: dict[int, float] = {}  # step and validation score of the policies that may be chosen
        self._unwritten: dict[str, bytes] = {}

    def offer(self, step: int, worth: float, content: Callable[[], bytes]) -> None:
        """Keep the policy of this step if it is the best so far, or among the best few."""
        names = []
        if self.best is None or worth > self.best:
            self.best = worth
            names.append("best")
        if self.places > 1 and self._nominated(step, worth):
            names.append(finalist(step))
        if names:
            self._unwritten |= dict.fromkeys(names, content())
        try:
            self.write()
        except files.DiskFull as error:
            log.error("policy not written, trying again later: %s", error)

    def _nominated(self, step: int, worth: float) -> bool:
        """Whether it takes a place; the one that it pushes out is dropped."""
        self.finalists[step] = worth
        for out in sorted(self.finalists, key=self.finalists.__getitem__)[: -self.places]:
            del self.finalists[out]
            self._unwritten.pop(finalist(out), None)
            (self.folder / f"{finalist(out)}.safetensors").unlink(missing_ok=True)
        return step in self.finalists

    def write(self) -> None:
        """Put what waits into the run directory; no checkpoint may know of a policy that is not there."""
        for name, content in list(self._unwritten.items()):
            with files.disk_full_explained(self.folder, len(content)):
                files.replace_bytes(self.folder / f"{name}.safetensors", content)
            del self._unwritten[name]

    def choose(self, step: int, record: Mapping[str, object]) -> None:
        """The finalist of this step becomes the best policy; `record` says why."""
        log.info("of %d finalists the policy of step %d is the best", len(self.finalists), step)
        content = files.read_regular(self.folder / f"{finalist(step)}.safetensors", 1 << 30)
        with files.disk_full_explained(self.folder, len(content)):
            files.replace_bytes(self.folder / "best.safetensors", content)
            files.replace_bytes(self.folder / "finalists.json", files.to_json(record))

    def state_dict(self) -> State:
        return {"best": self.best, "finalists": {str(step): worth for step, worth in self.finalists.items()}}

    def load_state_dict(self, state: State) -> None:
        self.best = state["best"]
        self.finalists = {int(step): worth for step, worth in state["finalists"].items()}


def finalist(step: int) -> str:
    return f"finalist_{step}"
