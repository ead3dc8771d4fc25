"""Relaxation as in Trukhan et al. (arXiv 2502.08405): the agent moves every atom, seeing the crystal as a graph."""

from __future__ import annotations

from collections import deque
from functools import lru_cache, partial

import gymnasium as gym
import numpy as np
from ase import Atoms
from ase.data import atomic_masses, covalent_radii, vdw_radii
from ase.optimize import BFGS

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace, Info
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.protocols import World
from twofold.crystal.bonds import neighbours
from twofold.crystal.library import StructureSet, chosen, copper
from twofold.crystal.rewards import RewardName, reward
from twofold.crystal.structures import moved_apart, nearest_pair
from twofold.crystal.weighted import WeightedRows
from twofold.crystal.world import Relaxation
from twofold.rows.world import Where, make_rows
from twofold.settings.registry import worlds

GASES = (0, 2, 10, 18, 36, 54, 86, 118)  # atomic numbers that close a period


@settings
class GraphConfig:
    """Which crystals are relaxed, how they are seen and moved; names as in Trukhan et al. (arXiv 2502.08405)."""

    sets: dict[str, StructureSet] = setting("sets of structures by name, to train on", factory=copper)
    eval_sets: dict[str, StructureSet] = setting(
        "sets to evaluate on; empty: those of training, other seeds", factory=dict
    )
    eps: float = setting("an episode ends at this largest force", default=0.1, gt=0, unit="eV/Angstrom")
    max_steps: int = setting(
        "then an episode is cut short", default=100, ge=1, unit="steps", aliases=("N_train", "N_test")
    )
    reward_func: RewardName = setting("what a step earns", default="step")
    r_weights: tuple[float, float, float] = setting(
        "of force, log_force and step in the reward 'hybrid'", default=(1.0, 0.0, 0.5)
    )
    call_cost: float = setting("of one force call in the reward 'scale_free'", default=0.1, ge=0)
    r0: float = setting("a step that brings atoms closer is shortened", default=1.5, gt=0, unit="Angstrom")
    stop_numb: int = setting(
        "an episode is cut after this many steps in a row that were shortened to nothing", default=50, ge=1
    )
    max_move: float = setting("displacement of an action of 1", default=0.2, gt=0, unit="Angstrom")
    r_max: float = setting("reach of the graph's edges", default=5.0, gt=0, unit="Angstrom")
    num_neighbors: int = setting("nearest neighbours kept", default=30, ge=1)
    max_atoms: int = setting("structures are padded to this size", default=8, ge=1, unit="atoms")
    nfake: int = setting(
        "one step in this many is a demonstration (a jump to the minimum that BFGS finds); 0: none",
        default=0,
        ge=0,
    )
    n_gr: int = setting(
        "stagnant steps before one of strong noise; 0: never", default=100, ge=0, aliases=("N_gr",)
    )
    with_weights: bool = setting(
        "train most on the structures whose last episode ended with the largest force", default=False
    )
    d_r_max: float = setting(
        "stagnant: moves are smaller than this on average of 10 ...", default=0.015, ge=0, unit="Angstrom"
    )
    f_max: float = setting("... while the largest force is above this", default=0.1, ge=0, unit="eV/Angstrom")


@lru_cache(maxsize=1)
def element_features() -> Array:
    """Twelve properties of every element [119, 12], standardised; elements beyond the tables get the mean."""
    numbers = np.arange(119)
    period = np.searchsorted(GASES, numbers, side="left").astype(float)
    after_gas = numbers - np.array(GASES)[np.maximum(period.astype(int) - 1, 0)]
    length = np.diff(GASES)[np.clip(period.astype(int) - 1, 0, 6)]
    place = after_gas / length
    pad = [np.pad(t[:119], (0, max(0, 119 - len(t))), constant_values=np.nan) for t in
           (covalent_radii, vdw_radii, atomic_masses)]  # fmt: skip
    columns = [numbers, period, place, length, after_gas <= 2, length - after_gas < 6, place**2, np.sqrt(numbers),
               *pad, pad[0] / np.maximum(period, 1)]  # fmt: skip
    table = np.stack([np.asarray(c, float) for c in columns], axis=1)
    table = (table - np.nanmean(table, axis=0)) / (np.nanstd(table, axis=0) + 1e-9)
    found: Array = np.nan_to_num(table).astype(np.float32)
    return found


def graph(atoms: Atoms, cfg: GraphConfig) -> tuple[Array, Array]:
    """The nearest neighbours of every atom: indices [A, K] (-1: none) and vectors [A, K, 3], padded."""
    index = np.full((cfg.max_atoms, cfg.num_neighbors), -1, np.int64)
    vector = np.zeros((cfg.max_atoms, cfg.num_neighbors, 3), np.float32)
    i, j, reach, distance = neighbours("ijDd", atoms, cfg.r_max)
    order = np.lexsort((distance, i))
    i, j, reach = i[order], j[order], reach[order]
    rank = np.arange(len(i)) - np.searchsorted(i, i)
    keep = rank < cfg.num_neighbors
    index[i[keep], rank[keep]], vector[i[keep], rank[keep]] = j[keep], reach[keep]
    return index, vector


class GraphEnv(gym.Env[dict[str, Array], Array]):
    """One crystal per episode; the action is a displacement for every atom, in units of `max_move`."""

    def __init__(self, cfg: GraphConfig, purpose: str) -> None:
        self.cfg, self.sets = cfg, chosen(cfg.sets, cfg.eval_sets, purpose)
        self.training = purpose == "train"
        atoms, near = cfg.max_atoms, cfg.num_neighbors
        box = partial(gym.spaces.Box, -np.inf, np.inf, dtype=np.float32)
        self.observation_space: AnySpace = gym.spaces.Dict(  # no Space of dicts to Gymnasium's types
            {
                "element": box(shape=(atoms, 12)),
                "force": box(shape=(atoms, 3)),  # eV/A
                "force_before": box(shape=(atoms, 3)),
                "moved": box(shape=(atoms, 3)),  # A, in the last step
                "neighbour": gym.spaces.Box(-1, atoms, (atoms, near), np.int64),
                "vector": box(shape=(atoms, near, 3)),
                "mask": box(shape=(atoms,)),
                "demonstration": box(shape=(3 * atoms,)),
                "offered": box(shape=(1,)),  # 1: the demonstration is there to be followed
                "stuck": box(shape=(1,)),  # 1: time for one greedy exploration
            }
        )
        self.action_space = gym.spaces.Box(-1.0, 1.0, (3 * atoms,), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[dict[str, Array], Info]:
        super().reset(seed=seed)
        self.now = Relaxation(self.sets, self.cfg.eps, seed, (options or {}).get("which"))
        if len(self.now.atoms) > self.cfg.max_atoms:
            raise ConfigError(f"a structure has {len(self.now.atoms)} atoms: raise env_args.max_atoms")
        self._rng = np.random.default_rng(None if seed is None else [seed, 1])
        self.steps = self._blocked = self._stagnant = 0
        self._moves: deque[float] = deque(maxlen=10)
        self._before, self._moved = self.now.forces, np.zeros_like(self.now.forces)
        return self._observe(), {}

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, Info]:
        cfg, now, before = self.cfg, self.now, self.now.force
        self._before = now.forces
        self._moved = self._move(
            np.asarray(action, np.float64).reshape(-1, 3)[: len(now.atoms)] * cfg.max_move
        )
        now.evaluate()
        self.steps += 1
        self._note(float(np.sqrt((self._moved**2).sum(axis=1)).max()))
        done = now.force <= cfg.eps
        cut = not done and (self.steps >= cfg.max_steps or self._blocked > cfg.stop_numb)
        gained = reward(cfg.reward_func, before, now.force, done, cfg.r_weights, cfg.call_cost)
        info = {"episode": now.metrics(cfg.eps) | {"length": self.steps}} if done or cut else {}
        return self._observe(), gained, done, cut, info

    def _move(self, shift: Array) -> Array:
        """Displace without net translation and not too close; the true displacement, never off by a lattice vector."""
        atoms = self.now.atoms
        shift = shift - shift.mean(axis=0)
        start = atoms.positions.copy()
        # Where the start itself is closer than r0 the limit is what it has: moving apart stays possible.
        limit = min(self.cfg.r0, nearest_pair(atoms) - 1e-9)
        atoms.positions = moved_apart(atoms, shift, limit).positions
        moved: Array = atoms.positions - start
        return moved

    def _note(self, moved: float) -> None:
        """Count steps that were blocked, and steps in which nothing moves although forces are large."""
        self._blocked = self._blocked + 1 if moved < 1e-3 * self.cfg.max_move else 0
        self._moves.append(moved)
        slow = len(self._moves) == 10 and float(np.mean(self._moves)) <= self.cfg.d_r_max
        self._stagnant = self._stagnant + 1 if slow and self.now.force >= self.cfg.f_max else 0

    def _observe(self) -> dict[str, Array]:
        cfg, atoms = self.cfg, self.now.atoms
        index, vector = graph(atoms, cfg)
        greedy = self.training and cfg.n_gr > 0 and self._stagnant >= cfg.n_gr
        if greedy:
            self._stagnant = 0
        offered = self.training and cfg.nfake > 0 and self._rng.random() < 1 / cfg.nfake
        return {
            "element": self._padded(element_features()[atoms.numbers]),
            "force": self._padded(self.now.forces),
            "force_before": self._padded(self._before),
            "moved": self._padded(self._moved),
            "neighbour": index,
            "vector": vector,
            "mask": self._padded(np.ones(len(atoms))),
            "demonstration": self._demonstration() if offered else np.zeros(3 * cfg.max_atoms, np.float32),
            "offered": np.array([offered], np.float32),
            "stuck": np.array([greedy], np.float32),
        }

    def _padded(self, values: Array) -> Array:
        out = np.zeros((self.cfg.max_atoms, *values.shape[1:]), np.float32)
        out[: len(values)] = values
        return out

    def _demonstration(self) -> Array:
        """The move towards the minimum that BFGS finds from here, as an action."""
        atoms = self.now.atoms.copy()
        atoms.calc = self.now.calculator.inner
        BFGS(atoms, logfile=None).run(fmax=self.cfg.eps, steps=100)
        shift = atoms.positions - self.now.atoms.positions
        return self._padded((shift - shift.mean(axis=0)) / self.cfg.max_move).clip(-1, 1).ravel()


@worlds.register("crystal/displacements", config=GraphConfig, workers=True)
def displacement_world(cfg: GraphConfig, *, rows: int, purpose: str, where: Where | None = None) -> World:
    """Relax crystals by moving every atom, observations as padded graphs (Trukhan et al., arXiv 2502.08405)."""
    if cfg.with_weights and purpose == "train":
        if where is not None and where.workers:
            raise ConfigError("env_args.with_weights needs all rows in one process: set trainer.workers=0")
        return WeightedRows(partial(GraphEnv, cfg, purpose), rows)
    return make_rows(partial(GraphEnv, cfg, purpose), rows, where=where)
