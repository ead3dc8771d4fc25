"""One seed fans out by name into generators, and every episode gets an explicit seed."""

from __future__ import annotations

import hashlib

import numpy as np

from twofold.core.protocols import State

# Training episodes draw from the upper half of the 31-bit integers, so they never meet the fixed seeds below.
_TRAIN = 1 << 30
VALIDATION = 1_000_000
TEST = 2_000_000


def _entropy(seed: int, *name: object) -> list[int]:
    digest = hashlib.blake2b(repr((seed, *name)).encode(), digest_size=16).digest()
    return [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]


def generator(seed: int, *name: object) -> np.random.Generator:
    """A generator of its own for this name."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(_entropy(seed, *name))))


def episode_seed(seed: int, row: int, episode: int) -> int:
    """The reset seed of a training episode: a function of run seed, row and episode number."""
    return _TRAIN + _entropy(seed, "episode", row, episode)[0] % _TRAIN


def validation_seeds(episodes: int) -> list[int]:
    """The same for every run, so runs can be compared; never used for training."""
    return [VALIDATION + i for i in range(episodes)]


def final_seeds(episodes: int) -> list[int]:
    """Disjoint from training and validation: used once, at the end."""
    return [TEST + i for i in range(episodes)]


class Generators:
    """Named generators, made when first asked for, saved and restored together."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._made: dict[str, np.random.Generator] = {}

    def __getitem__(self, name: str) -> np.random.Generator:
        if name not in self._made:
            self._made[name] = generator(self.seed, name)
        return self._made[name]

    def state_dict(self) -> State:
        return {name: made.bit_generator.state for name, made in self._made.items()}

    def load_state_dict(self, state: State) -> None:
        for name, inner in state.items():
            self[name].bit_generator.state = inner
