"""The policy inside the package: two trained ones as one network, with one measure of where it is asked.

    twofold relax-export runs/crystal_hard -o metals.safetensors --env-config=crystal_depth --starts=1000
    twofold relax-export runs/nonmetals -o nonmetals.safetensors --env-config=crystal_depth_nonmetals --starts=360
    TWOFOLD_DATA=... python benchmarks/crystal_one.py metals.safetensors nonmetals.safetensors

The hidden units of both stand side by side; one of the inputs, whether any atom is a nonmetal, weighs them. What was
measured with either is put together: one scale for each feature, one distance beyond which it is not asked, and the
nearest starts of whatever kind say what was gained. Fresh starts of both presets are drawn anew, to their second call.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from crystal import commit, versions

from twofold.core.experience import Array
from twofold.crystal.depth import Depth
from twofold.crystal.features import NAMES
from twofold.crystal.measuring import fresh
from twofold.crystal.policy import DEFAULT, load_weights
from twofold.crystal.spring import SCALARS
from twofold.crystal.world import RelaxConfig
from twofold.settings.config import load, own_settings
from twofold.store import files
from twofold.store.checkpoint import pack, unpack
from twofold.store.policy_file import described, seal, unseal

SEEN = 3.0  # no feature is larger
NONMETAL = NAMES.index("any nonmetal")
MEASURED = {"crystal_depth": 1000, "crystal_depth_nonmetals": 360}


def reach(layers: list[Array]) -> Array:
    """What no unit of the second layer can be above, whatever is seen."""
    first = SEEN * np.abs(layers[0][:-1]).sum(axis=0) + np.abs(layers[0][-1])
    found: Array = first @ np.abs(layers[1][:-1]) + np.abs(layers[1][-1])
    return found


def beside(metals: list[Array], others: list[Array]) -> list[Array]:
    """One network of three layers that is `metals` where no atom is a nonmetal and `others` where one is.

    The last two units of a layer are 1 with nonmetals and 1 without: each shuts the units that are not meant there,
    and they carry the biases of the last layer.
    """
    (a, b), (c, d) = ([layer.shape[1] for layer in one[:2]] for one in (metals, others))
    sizes = (len(NAMES), a + c + 2, b + d + 2, len(SCALARS))
    first, second, last = (
        np.zeros((n + 1, m), np.float32) for n, m in zip(sizes[:-1], sizes[1:], strict=True)
    )
    first[: len(metals[0]) - 1, :a], first[-1, :a] = metals[0][:-1], metals[0][-1]
    first[: len(others[0]) - 1, a:-2], first[-1, a:-2] = others[0][:-1], others[0][-1]
    first[NONMETAL, -2], first[NONMETAL, -1], first[-1, -1] = 1.0, -1.0, 1.0
    second[:a, :b], second[-1, :b], second[-3, :b] = metals[1][:-1], metals[1][-1], -reach(metals)
    second[a:-3, b:-2], second[-1, b:-2], second[-2, b:-2] = others[1][:-1], others[1][-1], -reach(others)
    second[-3, -2] = second[-2, -1] = 1.0
    for rows, bias, matrix in ((slice(b), -2, metals[2]), (slice(b, -3), -3, others[2])):
        last[rows, : matrix.shape[1]], last[bias, : matrix.shape[1]] = matrix[:-1], matrix[-1]
    return [first, second, last]


def together(parts: list[Depth], anew: list[Array]) -> Depth:
    """One measure of all starts that were measured, with fresh ones that say how far is too far."""
    kept = np.concatenate([part.seen * part.scale for part in parts])
    return Depth.of(kept, np.concatenate([part.gain for part in parts]), np.array(anew))


def matrices(path: Path) -> list[Array]:
    """The weights of the actor in a policy file, layer by layer, the bias in the last row."""
    arrays, about = unseal(path)
    state = unpack(about["rest"], arrays)["actor"]
    return [state[f"layers.{number}.matrix"] for number in range(len(state))]


def config(metals: dict[str, Any], others: dict[str, Any], hidden: list[int]) -> dict[str, Any]:
    """The settings of the second, with the structures of both and the one network's size."""
    values = {key: value for key, value in others.items() if key != "networks.start"}
    for key in ("env_args.sets", "env_args.eval_sets"):
        values[key] = metals[key] | others[key]
    return values | {"networks.actor_hidden": hidden}


def made(paths: list[Path]) -> bytes:
    """The content of the one policy file."""
    layers = beside(*(matrices(path) for path in paths))
    anew = [seen for name, starts in MEASURED.items() for seen in fresh(_starts(name), starts)]
    parts = [depth for path in paths if (depth := load_weights(path).depth) is not None]
    depth = together(parts, anew)
    abouts: list[Any] = [unseal(path)[1] for path in paths]
    weights, rest = pack({"actor": {f"layers.{n}.matrix": layer for n, layer in enumerate(layers)}})
    arrays = {**weights, **depth.arrays()}
    score = {
        "command": shlex.join(["python", "benchmarks/crystal_one.py", *(path.name for path in paths)]),
        "commit": commit(),
        "packages": versions(),
        "depth": {"starts": sum(MEASURED.values()), "kept": len(depth.seen), "presets": MEASURED},
        "trainings": [about["score"] for about in abouts],
    }
    about = abouts[1] | {
        "rest": rest,
        "arrays": described(arrays),
        "values": config(*(one["values"] for one in abouts), [layer.shape[1] for layer in layers[:-1]]),
        "score": score,
    }
    return seal(arrays, about)


def _starts(preset: str) -> RelaxConfig:
    return own_settings(RelaxConfig, load("td3_crystal", preset).config.env_args)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("metals", type=Path)
    parser.add_argument("nonmetals", type=Path)
    typed = parser.parse_args()
    files.replace_bytes(DEFAULT, made([typed.metals, typed.nonmetals]))
    load_weights(DEFAULT)  # what was written can be read


if __name__ == "__main__":
    main()
