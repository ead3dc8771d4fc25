"""The best policy of a run as a file for the relaxer, with how it was made inside of it."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path

from twofold.base.errors import UserError
from twofold.base.values import Json, Values, inside, number, table, text
from twofold.crystal.library import StructureSet
from twofold.crystal.policy import load_weights
from twofold.crystal.world import RelaxConfig
from twofold.settings.config import own_settings
from twofold.store import files
from twofold.store.policy_file import seal, unseal
from twofold.store.run import Run

WORLD = "crystal/spring"
_PACKAGES = ("torch", "numpy", "ase", "matscipy")


def export_policy(folder: Path, path: Path) -> Values:
    """Write the best policy of a run as `path`, its provenance beside its score; returns the two."""
    run = Run.open(folder)
    if run.resolved.config.env != WORLD:
        raise UserError(
            f"{folder} is a run in '{run.resolved.config.env}', the relaxer needs one in '{WORLD}'"
        )
    arrays, about = unseal(folder / "best.safetensors")
    score = {**table(about, "score"), **provenance(run)}
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace_bytes(path, seal(arrays, {**about, "score": score}))
    load_weights(path)  # what was written can be read
    return score


def provenance(run: Run) -> Values:
    """How a policy was made: command, seed, code, packages, data, validation curve, test."""
    made = files.read_json(run.folder / "provenance.json")
    config = run.resolved.config
    sets = own_settings(RelaxConfig, config.env_args).sets
    evaluations = run.evaluations.read()
    steps = max((number(entry, "step") for entry in evaluations), default=0)
    return {
        "command": as_typed(text(made, "command")),
        "made": text(made, "started")[:10],
        "seed": config.seed,
        "steps": steps,
        "complete": steps >= config.trainer.steps,
        "chosen by": "the highest mean of -log2(calls) on the validation starts",
        "curve": [{"step": e["step"], **_scores(e)} for e in evaluations if e["world"] == "eval"],
        "test": run.test_scores(),
        "commit": inside(made, "commit"),
        "python": inside(made, "python"),
        "packages": {name: table(made, "packages").get(name) for name in _PACKAGES},
        "data": _data(sets),
    }


def as_typed(text: str) -> str:
    """A command as one would type it: without this machine's paths."""
    words = shlex.split(text)[1:]
    return shlex.join(["twofold", *(word for word in words if not word.startswith(("--run=", "--runs=")))])


def _scores(entry: dict[str, Json]) -> dict[str, float]:
    return {
        "-log2(calls)": round(number(entry, "return", "mean"), 4),
        "mean calls": round(number(entry, "calls", "mean"), 3),
        "relaxed": number(entry, "relaxed", "mean"),
        "episodes": number(entry, "return", "episodes"),
    }


def _data(sets: dict[str, StructureSet]) -> dict[str, str]:
    """The checksum of every file that the sets name."""
    found: dict[str, str] = {}
    for one in sets.values():
        for place in (*one.structures, one.calculator.removeprefix("eam:")):
            path = Path(os.path.expandvars(place))
            if path.is_file():
                found[place] = "blake2b-128 " + hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found
