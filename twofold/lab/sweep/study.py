"""Optuna's study in a journal file: one coordinator, the same choices however often it is interrupted."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.base.errors import MissingPackage, UserError
from twofold.lab.sweep.space import Axis, Choice, Value
from twofold.settings.presets import parse_value
from twofold.store import files

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

_MAX_JOURNAL = 64_000_000


@dataclass(frozen=True)
class Trial:
    """One choice of settings, by its number."""

    number: int
    values: Mapping[str, Value]
    score: float | None  # None while it runs
    failed: bool = False


class Study:
    """Ask for settings, tell scores. With one job at a time an interrupted sweep makes the same choices."""

    def __init__(self, folder: Path, axes: Mapping[str, Axis], seed: int) -> None:
        self.axes, self.seed = axes, seed
        path = folder / "journal.jsonl"
        _cut_torn(path)
        self._study = _opened(path)

    def trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        import optuna

        found = []
        for trial in self._study.get_trials(deepcopy=False):
            over = trial.state == optuna.trial.TrialState.COMPLETE
            failed = trial.state in (optuna.trial.TrialState.FAIL, optuna.trial.TrialState.PRUNED)
            found.append(
                Trial(trial.number, self._values(trial.params), trial.value if over else None, failed)
            )
        return found

    def ask(self) -> Trial:
        """New settings, a function of the sweep's seed, the number of the trial and the scores so far."""
        import optuna

        number = len(self._study.get_trials(deepcopy=False))
        text = f"{self.seed}:{number}".encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big")
        self._study.sampler = optuna.samplers.TPESampler(seed=seed)
        trial = self._study.ask(_distributions(self.axes))
        return Trial(trial.number, self._values(trial.params), None)

    def tell(self, number: int, score: float | None) -> None:
        """The score of a trial, or that it failed; a trial that another process began is adopted."""
        import optuna

        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        self._study.tell(number, score, state=state)

    def importance(self) -> dict[str, float]:
        """How much each setting mattered, as far as the trials show; empty below ten."""
        import optuna

        done = [trial for trial in self.trials() if trial.score is not None]
        if len(done) < 10 or len({trial.score for trial in done}) < 2:
            return {}
        return dict(optuna.importance.get_param_importances(self._study))

    def _values(self, params: Mapping[str, Value]) -> dict[str, Value]:
        return {
            key: parse_value(str(value)) if isinstance(self.axes.get(key), Choice) else value
            for key, value in params.items()
        }


def require_optuna() -> None:
    """Say what is missing before a folder is made."""
    if importlib.util.find_spec("optuna") is None:
        raise MissingPackage("optuna", "sweep", "a sweep")


def _opened(path: Path) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(logging.ERROR)
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    try:
        backend = JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path)))
        return optuna.create_study(
            study_name="sweep", storage=JournalStorage(backend), direction="maximize", load_if_exists=True
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}): remove the sweep's folder to begin again") from None


def _distributions(axes: Mapping[str, Axis]) -> dict[str, BaseDistribution]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    found: dict[str, BaseDistribution] = {}
    for key, axis in axes.items():
        if isinstance(axis, Choice):
            found[key] = CategoricalDistribution(axis.texts)
        elif axis.scale == "int":
            found[key] = IntDistribution(int(axis.low), int(axis.high))
        else:
            found[key] = FloatDistribution(axis.low, axis.high, log=axis.scale == "log")
    return found


def _cut_torn(path: Path) -> None:
    """A line that a crash cut off makes a journal unreadable for ever: it goes; locks of dead processes too."""
    for left in path.parent.glob(f"{path.name}.lock*"):
        left.unlink()
    if not path.exists():
        return
    content = files.read_regular(path, _MAX_JOURNAL)
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        files.replace_bytes(path, whole)
