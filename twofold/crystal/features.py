"""What the policy sees of a relaxation: invariants that do not depend on size, units of the potential or axes."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array
from twofold.crystal.curvilinear import CurvilinearStep
from twofold.crystal.pairs import NONMETALS, combine, fit, unexplained
from twofold.crystal.spring import SpringStep, largest

NAMES = (
    "largest force", "mean force", "force left to go", "force ratio", "force ratio before", "force over best",
    "promise kept", "move over trust", "trust", "force along move", "force along last force", "curvature seen",
    "unexplained", "rejected", "calls", "atoms", "coordination", "bonds pushing apart", "stiffness", "localisation",
    "shortest bond", "first call", "nonmetals", "held", "rest", "internal coordinates", "cell",
    "any nonmetal",
)  # fmt: skip
Step = SpringStep | CurvilinearStep


def _log(value: float) -> float:
    return float(np.log10(max(value, 1e-12)))


def _cosine(one: Array, other: Array) -> float:
    scale = np.linalg.norm(one) * np.linalg.norm(other)
    return float(np.vdot(one, other) / scale) if scale > 0 else 0.0


def features(step: Step, fmax: float) -> Array:
    """The state after the last `observe`, as float32 [28]; `fmax` is the force to reach."""
    seen = _path(step, fmax) | (_springs(step) if isinstance(step, SpringStep) else _internals(step))
    seen["any nonmetal"] = float(seen["nonmetals"] > 0)
    return np.clip(np.array([seen[name] for name in NAMES], np.float32), -3.0, 3.0)


def _path(step: Step, fmax: float) -> dict[str, float]:
    """How the relaxation goes, whatever the model of the step."""
    memory = step.memory
    points = step.memory.places if isinstance(step, CurvilinearStep) else step.memory.points
    point, last = points[-1], points[-2] if len(points) > 1 else None
    best, forces, motion = memory.best, memory.forces, step.motion
    assert best is not None and motion is not None
    mean = float(np.sqrt((point.forces**2).sum(axis=1).mean()))
    move = np.zeros_like(point.at) if last is None else point.at - last.at
    drop = np.zeros_like(move) if last is None else last.forces - point.forces
    curvature = float(np.vdot(move, drop)) / max(float(np.vdot(move, move)), 1e-12)
    return {
        "largest force": _log(forces[-1]),
        "mean force": _log(mean),
        "force left to go": _log(forces[-1] / fmax),
        "force ratio": _log(forces[-1] / forces[-2]) if len(forces) > 1 else 0.0,
        "force ratio before": _log(forces[-2] / forces[-3]) if len(forces) > 2 else 0.0,
        "force over best": _log(forces[-1] / largest(best.forces)),
        "promise kept": memory.kept,
        "move over trust": -1.0 if last is None else _log(largest(move) / memory.trust),
        "trust": _log(memory.trust),
        "force along move": _cosine(point.forces, move),
        "force along last force": 0.0 if last is None else _cosine(point.forces, last.forces),
        "curvature seen": float(np.sign(curvature) * np.log1p(abs(curvature))),
        "rejected": memory.rejected,
        "calls": memory.calls / 20,
        "atoms": _log(len(point.at)),
        "localisation": _log(forces[-1] / max(mean, 1e-12)),
        "first call": float(last is None),
        "held": 1.0 - float(motion.free.mean()),
    }


def _springs(step: SpringStep) -> dict[str, float]:
    """What the fitted bonds say."""
    memory, settings, point = step.memory, step.settings, step.memory.points[-1]
    bonds = point.bonds
    coefficients = fit(memory.evidence, memory.stiffness, settings.certainty, settings.doubt, settings.forget)
    along = combine(coefficients, bonds, point.bend)
    pairs = max(len(bonds.distance), 1)
    return {
        "unexplained": unexplained(coefficients, memory.evidence[-1]),
        "coordination": _log(2 * pairs / len(point.at)),
        "bonds pushing apart": float((along < 0).sum()) / pairs,
        "stiffness": _log(abs(float(along.mean())) if len(along) else 0.1),
        "shortest bond": float((bonds.distance / bonds.length).min()) if len(along) else 2.0,
        "nonmetals": float(np.isin(bonds.frame.atoms.numbers, NONMETALS).mean()),
        "rest": _log(memory.rest),
        "internal coordinates": 0.0,
        "cell": float(bonds.frame.cell_factor > 0),
    }


def _internals(step: CurvilinearStep) -> dict[str, float]:
    """The same of a molecule's model; what only fitted bonds have is 0."""
    own, place = step.internals, step.memory.places[-1]
    length = np.linalg.norm(own.links.vectors(place.at)[own.bonds], axis=1)
    return {
        "unexplained": 0.0,
        "coordination": _log(2 * max(len(length), 1) / len(place.at)),
        "bonds pushing apart": 0.0,
        "stiffness": float(step.field.bonds(step.rest).mean()) / np.log(10) if len(length) else 0.1,
        "shortest bond": float((length / step.rest).min()) if len(length) else 2.0,
        "nonmetals": float(np.isin(own.numbers, NONMETALS).mean()),
        "rest": 0.0,
        "internal coordinates": 1.0,
        "cell": 0.0,
    }
