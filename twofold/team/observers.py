"""Record a training with the real Sacred, in the layout that its users' notebooks and plotters read."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

from twofold.assemble import Trained
from twofold.base.errors import UserError
from twofold.team.worlds.space import Foreign, Values


def observed(observer: str, config: Values, work: Callable[[], Trained]) -> Trained:
    """Do `work`, a training, as a Sacred experiment; its result.

    observer: sacred:DIR for Sacred's FileStorageObserver, sacred:mongodb://... for its MongoObserver.
    """
    kind, _, place = observer.partition(":")
    if kind != "sacred" or not place:
        raise UserError(f"--observer={observer}: write sacred:DIR or sacred:mongodb://HOST/DATABASE")
    experiment = _experiment(place)
    done: list[Trained] = []

    def main(_run: Foreign) -> float | None:
        trained = work()
        done.append(trained)
        _log(_run, trained.folder)
        return _score(trained)

    experiment.main(main)
    experiment.add_config({"twofold": _nested(config)})
    experiment.run()
    return done[0]


def _experiment(place: str) -> Foreign:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pkg_resources announces its own end at every import
            from sacred import Experiment
            from sacred.observers import FileStorageObserver, MongoObserver
    except ModuleNotFoundError as error:
        raise UserError(
            f"--observer=sacred needs the package '{error.name}': pip install sacred 'setuptools<81' "
            "(Sacred itself needs setuptools below 81)"
        ) from None
    experiment = Experiment("twofold", save_git_info=False)
    mongo = place.startswith("mongodb://")
    experiment.observers.append(MongoObserver(url=place) if mongo else FileStorageObserver(place))
    return experiment


def _nested(values: Values) -> Values:
    """Dotted settings as nested dicts, which is how Sacred shows a config."""
    found: Values = {}
    for key, value in values.items():
        inner = found
        *parents, leaf = key.split(".")
        for parent in parents:
            below = inner.setdefault(parent, {})
            assert isinstance(below, dict)  # no setting is also a group
            inner = below
        inner[leaf] = list(value) if isinstance(value, tuple) else value
    return found


def _log(run: Foreign, folder: Path) -> None:
    """Metrics and evaluations as Sacred scalars, the policy as an artifact."""
    for name in ("metrics", "evaluations"):
        path = folder / f"{name}.jsonl"
        for line in path.read_text().splitlines() if path.exists() else ():
            record = json.loads(line)
            step, world = record.pop("step"), record.pop("world", None)
            for key, value in record.items():
                number = value["mean"] if isinstance(value, dict) else value
                if isinstance(number, (int, float)):
                    run.log_scalar(f"{world}/{key}" if world else key, float(number), int(step))
    for artifact in ("best.safetensors", "config.json", "curve.png"):
        if (folder / artifact).exists():
            # Sacred keeps config.json and metrics.json for itself.
            run.add_artifact(str(folder / artifact), name=f"twofold_{artifact}")


def _score(trained: Trained) -> float | None:
    """The test return of the first evaluation world: Sacred's `result`."""
    for world in trained.test.values():
        return float(world["return"]["mean"])
    return None
