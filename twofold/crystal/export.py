"""The best policy of a run as a file for the relaxer, with how it was made inside of it."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np

from twofold.base.errors import CheckpointError, UserError
from twofold.base.regular import is_file, read_regular
from twofold.base.values import Json, Values, number, table
from twofold.core.experience import Array
from twofold.crystal.depth import Depth
from twofold.crystal.library import StructureSet
from twofold.crystal.policy import SpringPolicy, load_weights
from twofold.crystal.spring import SCALARS
from twofold.crystal.world import RelaxConfig, SpringEnv
from twofold.settings.config import own_settings
from twofold.store import files
from twofold.store.policy_file import described, seal, unseal
from twofold.store.records import evaluations, read_provenance
from twofold.store.run import Run

WORLD = "crystal/spring"
_MAX_DATA_BYTES = 1_000_000_000
DEPTH_SEED = 2**29  # the first of the starts that measure the depth; training's seeds are above 2**30
_PACKAGES = ("torch", "numpy", "ase", "matscipy", "chgnet", "tblite")


def export_policy(folder: Path, path: Path, starts: int = 600) -> Values:
    """Write the best policy of a run as `path`, its provenance beside its score; returns the two.

    So many starts of training are relaxed with it and without: what they show is the file's `Depth`.
    """
    run = Run.open(folder)
    if run.resolved.config.env != WORLD:
        raise UserError(
            f"{folder} is a run in '{run.resolved.config.env}', the relaxer needs one in '{WORLD}'"
        )
    arrays, about = unseal(folder / "best.safetensors")
    cfg = own_settings(RelaxConfig, run.resolved.config.env_args)
    depth = depth_of(load_weights(folder / "best.safetensors"), cfg, starts)
    score = {**table(about, "score"), **provenance(run), "starts of depth": starts}
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {**arrays, **depth.arrays()}
    files.replace_bytes(path, seal(arrays, {**about, "arrays": described(arrays), "score": score}))
    load_weights(path)  # what was written can be read
    return score


def depth_of(policy: SpringPolicy, cfg: RelaxConfig, starts: int) -> Depth:
    """What the policy's own way through starts of training looks like, and what it gains on each.

    Every fourth start says how far fresh ones lie from the others.
    """
    env = SpringEnv(cfg, "train")
    kept, gains, fresh = list[Array](), list[float](), list[Array]()
    for one in range(starts):
        seen = _relaxed(env, DEPTH_SEED + one, policy.act)
        if one % 4 == 1:
            fresh += seen
            continue
        calls = env.now.calls
        _relaxed(env, DEPTH_SEED + one, lambda _: np.zeros(len(SCALARS)))
        kept += seen
        gains += [float(np.log(env.now.calls / calls))] * len(seen)
    return Depth.of(np.array(kept), np.array(gains), np.array(fresh))


def _relaxed(env: SpringEnv, seed: int, act: Callable[[Array], Array]) -> list[Array]:
    """Relax one start; what was observed on the way."""
    (observation, _), seen, over = env.reset(seed=seed), list[Array](), False
    while not over:
        seen.append(observation)
        observation, _, done, cut, _ = env.step(act(observation))
        over = done or cut
    return seen


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
