"""The best policy of a run as a file for the relaxer, with how it was made inside of it."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

from twofold.base.errors import CheckpointError, UserError
from twofold.base.regular import is_file, read_regular
from twofold.base.values import Json, Values, number, table
from twofold.crystal.library import StructureSet
from twofold.crystal.measuring import depth_of
from twofold.crystal.policy import load_weights
from twofold.crystal.world import RelaxConfig
from twofold.settings.config import load, own_settings
from twofold.store import files
from twofold.store.policy_file import described, load_policy, seal, unseal
from twofold.store.provenance import provenance as gathered
from twofold.store.records import evaluations, read_provenance
from twofold.store.run import Run

WORLD = "crystal/spring"
_MAX_DATA_BYTES = 1_000_000_000
_PACKAGES = ("torch", "numpy", "ase", "matscipy", "chgnet", "tblite")


def export_policy(source: Path, path: Path, starts: int = 600, env_config: str | None = None) -> Values:
    """Write the best policy of a run, or the one of a file, as `path`, with where it is asked; returns its score.

    So many starts, of training or of this preset, are relaxed with it and without: what they show is its `Depth`.
    """
    weights, told, sets = _source(source)
    if env_config is not None:
        sets = own_settings(RelaxConfig, load("td3_crystal", env_config).config.env_args)
    arrays, about = unseal(weights)
    made = gathered(as_typed(shlex.join(sys.argv)))
    depth = depth_of(load_weights(weights), [(sets, starts)])
    packages = {name: made["packages"].get(name) for name in _PACKAGES}
    measured = {"starts": starts, "command": made["command"], "commit": made["commit"], "packages": packages}
    score = {**table(about, "score"), **told, "depth": measured | {"data": _data(sets.sets)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {**arrays, **depth.arrays()}
    files.replace_bytes(path, seal(arrays, {**about, "arrays": described(arrays), "score": score}))
    load_weights(path)  # what was written can be read
    return score


def _source(source: Path) -> tuple[Path, Values, RelaxConfig]:
    """The file with the weights, what a run says of them, and the starts that they were trained on."""
    if is_file(source):
        return source, {}, own_settings(RelaxConfig, load_policy(source).config.env_args)
    run = Run.open(source)
    config = run.resolved.config
    if config.env != WORLD:
        raise UserError(f"{source} is a run in '{config.env}', the relaxer needs one in '{WORLD}'")
    return source / "best.safetensors", provenance(run), own_settings(RelaxConfig, config.env_args)


def provenance(run: Run) -> Values:
    """How a policy was made: command, seed, code, packages, data, validation curve, test."""
    made = read_provenance(run.folder / "provenance.json")
    config = run.resolved.config
    sets = own_settings(RelaxConfig, config.env_args).sets
    done = evaluations(run.folder / "evaluations.jsonl")
    steps = max((number(entry, "step") for entry in done), default=0)
    return {
        "command": as_typed(made.command),
        "made": made.started[:10],
        "seed": config.seed,
        "steps": steps,
        "complete": steps >= config.trainer.steps,
        "chosen by": "the highest mean of -log2(calls) on the validation starts",
        "curve": [{"step": e["step"], **_scores(e)} for e in done if e["world"] == "eval"],
        "test": run.test_scores(),
        "commit": made.commit or None,
        "python": made.python,
        "packages": {name: made.packages.get(name) for name in _PACKAGES},
        "data": _data(sets),
    }


def as_typed(text: str) -> str:
    """A command as one would type it: without this machine's paths."""
    try:
        words = shlex.split(text)[1:]
    except ValueError:
        words = text.split()[1:]
    return shlex.join(["twofold", *(word for word in words if not word.startswith(("--run=", "--runs=")))])


def _scores(entry: dict[str, Json]) -> dict[str, float]:
    try:
        return {
            "-log2(calls)": round(number(entry, "return", "mean"), 4),
            "mean calls": round(number(entry, "calls", "mean"), 3),
            "relaxed": number(entry, "relaxed", "mean"),
            "episodes": number(entry, "return", "episodes"),
        }
    except (KeyError, TypeError) as lacking:
        raise CheckpointError(
            f"an evaluation of this run lacks {lacking}: it is not one of '{WORLD}'"
        ) from None


def _data(sets: dict[str, StructureSet]) -> dict[str, str]:
    """The checksum of every file that the sets name."""
    found: dict[str, str] = {}
    for one in sets.values():
        for place in (*one.structures, one.calculator.removeprefix("eam:")):
            path = Path(os.path.expandvars(place))
            if is_file(path):
                content = read_regular(path, _MAX_DATA_BYTES, follow=True)
                found[place] = "blake2b-128 " + hashlib.blake2b(content, digest_size=16).hexdigest()
    return found
