"""Where metrics go beside the run's own files: TensorBoard, CSV, W&B, MLflow. None of them can disturb a run."""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol

from twofold.base.errors import MissingPackage
from twofold.base.foreign_json import MAX_LOG_BYTES
from twofold.base.regular import is_there, open_regular, open_to_write
from twofold.settings.config import Resolved, plain
from twofold.store import files

log = logging.getLogger("twofold")
Scalars = dict[str, float]


class Sink(Protocol):
    """Something that shows metrics."""

    def scalars(self, step: int, values: Scalars) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """`RUN/tensorboard`; what a resumed run writes again replaces what it wrote before."""

    def __init__(self, folder: Path, resolved: Resolved, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # half a second: only when something is logged

        self._writer = SummaryWriter(str(files.real_folder(folder / "tensorboard")), purge_step=step)

    def scalars(self, step: int, values: Scalars) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class Table:
    """`RUN/scalars.csv`: a line for each step and name; a resumed run cuts it back to where it resumes."""

    def __init__(self, folder: Path, resolved: Resolved, step: int) -> None:
        path = folder / "scalars.csv"
        kept = [row for row in _rows(path) if int(row[0]) < step]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._file = os.fdopen(open_to_write(path, flags), "w", newline="")
        self._table = csv.writer(self._file)
        self._table.writerows([("step", "name", "value"), *kept])

    def scalars(self, step: int, values: Scalars) -> None:
        self._table.writerows((step, name, repr(float(value))) for name, value in values.items())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _rows(path: Path) -> list[list[str]]:
    """The whole lines of an earlier table."""
    if not is_there(path):
        return []
    with open_regular(path, MAX_LOG_BYTES) as file:
        text = io.TextIOWrapper(file, errors="replace", newline="")
        return [row for row in csv.reader(text) if len(row) == 3 and row[0].isdigit()]


class _Logged(Protocol):
    """What is used of a run of W&B."""

    def log(self, data: Scalars, step: int | None = None) -> None: ...

    def finish(self) -> None: ...


class WeightsAndBiases:
    """A run of W&B that is resumed under the same id; its own variables say which project and mode."""

    def __init__(self, folder: Path, resolved: Resolved, step: int) -> None:
        try:
            import wandb
        except ModuleNotFoundError:
            raise MissingPackage("wandb", "wandb", "--log=wandb") from None
        self._run: _Logged = wandb.init(
            dir=str(folder),
            id=_identity(folder),
            name=folder.name,
            config=plain(resolved.values),
            resume=None if os.environ.get("WANDB_MODE") == "offline" else "allow",  # offline it would warn
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def scalars(self, step: int, values: Scalars) -> None:
        self._run.log(values, step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """A run of MLflow in the experiment `twofold`; MLFLOW_TRACKING_URI says where, else `RUN/mlruns`."""

    def __init__(self, folder: Path, resolved: Resolved, step: int) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError:
            raise MissingPackage("mlflow", "mlflow", "--log=mlflow") from None
        theirs = os.environ.get("MLFLOW_TRACKING_URI")
        with nullcontext() if theirs else _file_store_allowed():
            self._client = MlflowClient(theirs or (folder / "mlruns").resolve().as_uri())
            self._id = self._resumed(_identity(folder)) or self._created(folder, resolved)

    def _experiment(self) -> str:
        known = self._client.get_experiment_by_name("twofold")
        return str(known.experiment_id if known else self._client.create_experiment("twofold"))

    def _resumed(self, identity: str) -> str | None:
        found = self._client.search_runs([self._experiment()], f"tags.`twofold.run` = '{identity}'")
        return str(found[0].info.run_id) if found else None

    def _created(self, folder: Path, resolved: Resolved) -> str:
        from mlflow.entities import Param

        tags = {"twofold.run": _identity(folder)}
        made = self._client.create_run(self._experiment(), tags=tags, run_name=folder.name)
        params = [Param(name, str(value)) for name, value in plain(resolved.values).items()]
        for start in range(0, len(params), 100):  # more are refused in one call
            self._client.log_batch(made.info.run_id, params=params[start : start + 100])
        return str(made.info.run_id)

    def scalars(self, step: int, values: Scalars) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        found = [Metric(name, float(value), now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=found)

    def close(self) -> None:
        self._client.set_terminated(self._id)


@contextmanager
def _file_store_allowed() -> Iterator[None]:
    """MLflow 3 wants to be told that plain files are meant; the caller's variables are as before afterwards."""
    before = os.environ.get("MLFLOW_ALLOW_FILE_STORE")
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MLFLOW_ALLOW_FILE_STORE"]
        else:
            os.environ["MLFLOW_ALLOW_FILE_STORE"] = before


def _identity(folder: Path) -> str:
    """The same for every start of the same run directory."""
    return hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()


MAKERS: dict[str, Callable[[Path, Resolved, int], Sink]] = {
    "tensorboard": TensorBoard,
    "csv": Table,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


class Sinks:
    """The sinks of a run, made when the first value comes. One that fails is dropped and named; training continues."""

    def __init__(self, folder: Path, resolved: Resolved) -> None:
        self._folder, self._resolved = folder, resolved
        cfg = resolved.config.trainer
        self._waiting = list(dict.fromkeys([*(["tensorboard"] if cfg.tensorboard else []), *cfg.sinks]))
        self._open: dict[str, Sink] = {}

    def scalars(self, step: int, values: Scalars) -> None:
        """Show values in every sink."""
        for name in self._waiting:
            self._guarded(name, partial(self._start, name, step))
        self._waiting = []
        for name, sink in list(self._open.items()):
            self._guarded(name, partial(sink.scalars, step, values))

    def _start(self, name: str, step: int) -> None:
        self._open[name] = MAKERS[name](self._folder, self._resolved, step)

    def _guarded(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (
            Exception
        ) as error:  # other people's packages fail in ways of their own, and a run must outlive them
            reason = (str(error).splitlines() or [repr(error)])[0]
            log.error("metrics cannot be written to %s (%s): continuing without it", name, reason)
            self._open.pop(name, None)

    def close(self) -> None:
        """End what is open."""
        for name, sink in list(self._open.items()):
            self._guarded(name, sink.close)
        self._open = {}
