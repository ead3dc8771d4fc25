"""The policy inside the package: one network that learns the actions of two trained ones, and where it is asked.

    twofold relax-export runs/crystal_hard -o metals.safetensors --env-config=crystal_depth --starts=1000
    twofold relax-export runs/nonmetals -o nonmetals.safetensors --env-config=crystal_depth_nonmetals --starts=360
    TWOFOLD_DATA=... python benchmarks/crystal_one.py metals.safetensors nonmetals.safetensors

The two are teachers: the first where no atom is a nonmetal, the second where one is. An ordinary network is fitted to
what they do at every observation of relaxations of training starts, and near these observations. In the first round
the teachers relax, in the second the network of the first. Starts of other seeds, relaxed with the network and without,
then say where it is asked.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from crystal import commit, versions
from torch import nn

from twofold.core.experience import Array
from twofold.crystal.features import NAMES
from twofold.crystal.measuring import depth_of, path
from twofold.crystal.policy import DEFAULT, SpringPolicy, load_weights
from twofold.crystal.spring import SCALARS
from twofold.crystal.world import RelaxConfig, SpringEnv
from twofold.nets.mlp import MLP
from twofold.nets.numpy_mlp import NumpyMLP
from twofold.settings.config import load, own_settings
from twofold.store import files
from twofold.store.checkpoint import pack
from twofold.store.policy_file import described, seal, unseal

NONMETAL = NAMES.index("any nonmetal")
SWITCHES = [NAMES.index(name) for name in ("first call", "internal coordinates", "cell", "any nonmetal")]
MEASURED = {"crystal_depth": 1000, "crystal_depth_nonmetals": 360}
RELAXED = {
    "crystal_hard": 200,
    "crystal_depth": 200,
    "crystal_depth_nonmetals": 120,
    "crystal_chemistry": 120,
}
FIRST = (
    2**28
)  # seed of the first start that is learnt from; those measured begin at 2**29, training's at 2**30
HELD = 10  # one start in so many is not learnt from and says how good the fit is
HIDDEN = (128, 128)
UPDATES = (10_000, 40_000)  # of the first round's network and of the second's
BATCH, RATE, SEED = 256, 2e-3, 1
NOISE = 0.5  # of a feature's spread: as far from observations as actions are learnt
Act = Callable[[Array], Array]


def taught(metals: SpringPolicy, others: SpringPolicy) -> Act:
    """What the teachers do: observations [n, 28] -> actions [n, 7]."""

    def act(seen: Array) -> Array:
        found = np.zeros((len(seen), len(SCALARS)), np.float32)
        nonmetal = seen[:, NONMETAL] > 0.5
        for policy, own in ((metals, ~nonmetal), (others, nonmetal)):
            inputs, outputs = policy.network.shape
            found[own, :outputs] = policy.network.act(seen[own, :inputs])
        return found

    return act


def paths(act: Act, turn: int) -> list[Array]:
    """What is observed from the second call on while starts of training are relaxed: [n, 28] of each start."""
    found = []
    for name, starts in RELAXED.items():
        env = SpringEnv(_starts(name), "train")
        for one in range(starts):
            seen = path(env, FIRST + turn * 2**20 + one, lambda seen: act(seen[None])[0])
            found.append(np.array(seen, np.float32).reshape(-1, len(NAMES)))
        print(f"round {turn}: {name}, {sum(map(len, found))} observations", file=sys.stderr, flush=True)
    return found


def near(seen: Array, rng: np.random.Generator) -> Array:
    """Some of these observations, and the same moved at random; what is 0 or 1 stays."""
    some = seen[rng.integers(len(seen), size=BATCH)]
    moved = rng.normal(size=some.shape) * rng.uniform(0, NOISE, (BATCH, 1)) * seen.std(axis=0)
    moved[:, SWITCHES] = 0.0
    return np.concatenate([some, np.clip(some + moved, -3.0, 3.0)]).astype(np.float32)


def fitted(seen: Array, act: Act, updates: int) -> list[Array]:
    """The weights of a network that was fitted to these actions, layer by layer, the bias in the last row."""
    rng, generator = np.random.default_rng(SEED), torch.Generator().manual_seed(SEED)
    network = MLP(len(NAMES), HIDDEN, len(SCALARS), output="tanh", generator=generator)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    for _ in range(updates):
        batch = near(seen, rng)
        loss = nn.functional.mse_loss(network(torch.from_numpy(batch)), torch.from_numpy(act(batch)))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return [layer.detach().numpy() for layer in network.parameters()]


def network_of(layers: list[Array]) -> NumpyMLP:
    return NumpyMLP(layers, [], "relu", "tanh")


def learnt(act: Act) -> tuple[list[Array], dict[str, Any]]:
    """The fitted network, and how well it does what the teachers do on starts that it was not fitted to."""
    seen, held, now = list[Array](), list[Array](), act
    layers: list[Array] = []
    for turn, updates in enumerate(UPDATES):
        found = paths(now, turn)
        seen += [one for number, one in enumerate(found) if number % HELD]
        held += found[::HELD]
        layers = fitted(np.concatenate(seen), act, updates)
        now = network_of(layers).act
        print(f"round {turn}: {_errors(np.concatenate(held), now, act)}", file=sys.stderr, flush=True)
    about = {
        "starts of a round": RELAXED,
        "observations": sum(map(len, seen)),
        "updates": list(UPDATES),
        "seed": SEED,
        "root mean square on other starts": _errors(np.concatenate(held), now, act),
    }
    return layers, about


def _errors(seen: Array, one: Act, other: Act) -> dict[str, float]:
    """By how much two policies' actions differ on these observations, and how large the second's are."""
    nonmetal, apart = seen[:, NONMETAL] > 0.5, one(seen) - other(seen)
    sizes = {"metals": apart[~nonmetal], "nonmetals": apart[nonmetal], "actions": other(seen)}
    return {name: round(float(np.sqrt((values**2).mean())), 5) for name, values in sizes.items()}


def config(metals: dict[str, Any], others: dict[str, Any], hidden: list[int]) -> dict[str, Any]:
    """The settings of the second, with the structures of both and the one network's size."""
    values = {key: value for key, value in others.items() if key != "networks.start"}
    for key in ("env_args.sets", "env_args.eval_sets"):
        values[key] = metals[key] | others[key]
    return values | {"networks.actor_hidden": hidden}


def made(teachers: list[Path]) -> bytes:
    """The content of the one policy file."""
    metals, others = (load_weights(path) for path in teachers)
    layers, fit = learnt(taught(metals, others))
    policy = SpringPolicy(network_of(layers))
    depth = depth_of(policy, [(_starts(name), starts) for name, starts in MEASURED.items()])
    abouts: list[Any] = [unseal(path)[1] for path in teachers]
    weights, rest = pack({"actor": {f"layers.{n}.matrix": layer for n, layer in enumerate(layers)}})
    arrays = {**weights, **depth.arrays()}
    score = {
        "command": shlex.join(["python", "benchmarks/crystal_one.py", *(path.name for path in teachers)]),
        "commit": commit(),
        "packages": versions(),
        "fit": fit,
        "depth": {"starts": sum(MEASURED.values()), "kept": len(depth.seen), "presets": MEASURED},
        "trainings": [about["score"] for about in abouts],
    }
    about = abouts[1] | {
        "rest": rest,
        "arrays": described(arrays),
        "values": config(*(one["values"] for one in abouts), list(HIDDEN)),
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
    parser.add_argument("-o", "--out", type=Path, default=DEFAULT)
    typed = parser.parse_args()
    torch.set_num_threads(1)
    files.replace_bytes(typed.out, made([typed.metals, typed.nonmetals]))
    load_weights(typed.out)  # what was written can be read


if __name__ == "__main__":
    main()
