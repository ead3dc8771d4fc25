"""Relaxation as a world whose action sets the scalars of every step."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
from ase import Atoms
from ase.filters import FrechetCellFilter

from twofold.base.foreign import Info
from twofold.base.setting import setting, settings
from twofold.core.experience import Array
from twofold.core.protocols import World
from twofold.crystal.calculators import Counted
from twofold.crystal.curvilinear import step_for
from twofold.crystal.features import NAMES, features
from twofold.crystal.library import StructureSet, chosen, copper
from twofold.crystal.motion import Motion, frame_of, permitted
from twofold.crystal.rewards import scale_free, telescoped
from twofold.crystal.spring import SCALARS, Scalars, SpringStep, largest
from twofold.rows.world import Where, make_rows
from twofold.settings.registry import worlds


@settings
class RelaxConfig:
    """Which crystals are relaxed, and what ends an episode."""

    sets: dict[str, StructureSet] = setting("sets of structures by name, to train on", factory=copper)
    eval_sets: dict[str, StructureSet] = setting(
        "sets to evaluate on; empty: those of training, other seeds", factory=dict
    )
    eps: float = setting("an episode ends at this largest force", default=0.01, gt=0, unit="eV/Angstrom")
    max_steps: int = setting("then an episode is cut short", default=60, ge=1, unit="steps")
    call_cost: float = setting("of one force call, in decades of force", default=0.1, ge=0)
    telescoped: bool = setting(
        "forces below eps count as eps and falls are not cut: a return says the calls and nothing else",
        default=False,
    )


class Relaxation:
    """One structure being relaxed: atoms (in a filter where the cell relaxes too), counted calculator, last forces.

    The structure is drawn by the sets' weights, or is the one named by `which`: (set, index in it).
    """

    def __init__(
        self, sets: list[StructureSet], eps: float, seed: int | None, which: tuple[int, int] | None = None
    ) -> None:
        rng = np.random.default_rng(seed)
        weights = np.array([s.weight for s in sets])
        self.atoms: Atoms = Atoms()
        for _ in range(100):  # a start that is already at rest has nothing to teach
            chosen = which[0] if which else int(rng.choice(len(sets), p=weights / weights.sum()))
            self.atoms, calculator = sets[chosen].draw(eps, rng, which[1] if which else None)
            self.calculator = Counted(calculator)
            self.moving = FrechetCellFilter(self.atoms) if sets[chosen].cell else self.atoms
            self.evaluate()
            if self.force > eps:
                break

    def evaluate(self) -> None:
        """One force call where the atoms are."""
        self.motion = Motion.of(self.moving)
        if isinstance(self.moving, Atoms):
            self.calculator.calculate(
                self.atoms, ("energy", "forces")
            )  # ASE's own way compares all arrays, twice
            forces = np.array(self.calculator.results["forces"])
        else:
            self.atoms.calc = self.calculator
            forces = self.moving.get_forces()
        self.forces = self.motion.allowed(forces.ravel()).reshape(-1, 3)
        self.energy = float(self.calculator.results["energy"])
        self.force = largest(self.forces)

    @property
    def calls(self) -> int:
        return self.calculator.calls

    def metrics(self, eps: float) -> dict[str, float]:
        return {"calls": self.calls, "relaxed": float(self.force <= eps), "final_force": self.force}


class SpringEnv(gym.Env[Array, Array]):
    """One crystal per episode; the policy sets the scalars of every step."""

    def __init__(self, cfg: RelaxConfig, purpose: str) -> None:
        self.cfg, self.sets = cfg, chosen(cfg.sets, cfg.eval_sets, purpose)
        self.observation_space = gym.spaces.Box(-3.0, 3.0, (len(NAMES),), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (len(SCALARS),), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        super().reset(seed=seed)
        self.now = Relaxation(self.sets, self.cfg.eps, seed)
        moving = self.now.moving
        self.spring, self.steps = step_for(moving) if isinstance(moving, Atoms) else SpringStep(), 0
        return self._observe(), {}

    def _observe(self) -> Array:
        now = self.now
        at = now.moving.get_positions()
        self.spring.observe(frame_of(now.moving), at, now.forces, now.energy, now.motion)
        return features(self.spring, self.cfg.eps)

    def step(self, action: Array) -> tuple[Array, float, bool, bool, Info]:
        now, cfg, before = self.now, self.cfg, self.now.force
        move = permitted(now.moving, self.spring.propose(Scalars.of(action)))
        now.moving.set_positions(now.moving.get_positions() + move)
        now.evaluate()
        self.steps += 1
        done = now.force <= cfg.eps
        cut = not done and self.steps >= cfg.max_steps
        if cfg.telescoped:
            gained = telescoped(before, now.force, cfg.eps, done, cfg.call_cost)
        else:
            gained = scale_free(before, now.force, done, cfg.call_cost)
        # Fewer calls is what counts, whatever reward trains; logarithms weigh easy and hard crystals alike.
        info = (
            {"episode": now.metrics(cfg.eps) | {"return": -float(np.log2(now.calls))}} if done or cut else {}
        )
        return self._observe(), gained, done, cut, info


@worlds.register("crystal/spring", config=RelaxConfig, workers=True)
def spring_world(cfg: RelaxConfig, *, rows: int, purpose: str, where: Where | None = None) -> World:
    """Relax crystals: the action sets stiffness, floor, trust, length, history, doubt and rest of each step."""
    return make_rows(partial(SpringEnv, cfg, purpose), rows, where=where)
