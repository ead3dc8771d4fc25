"""What the policy sees of a relaxation: invariants that do not depend on size, units of the potential or axes."""

from __future__ import annotations

import numpy as np

from twofold.core.experience import Array
from twofold.crystal.pairs import combine, fit, unexplained
from twofold.crystal.spring import SpringStep, largest

NAMES = (
    "largest force", "mean force", "force left to go", "force ratio", "force ratio before", "force over best",
    "promise kept", "move over trust", "trust", "force along move", "force along last force", "curvature seen",
    "unexplained", "rejected", "calls", "atoms", "coordination", "bonds pushing apart", "stiffness", "localisation",
    "shortest bond", "first call",
)  # fmt: skip


def _log(value: float) -> float:
    return float(np.log10(max(value, 1e-12)))


def _cosine(one: Array, other: Array) -> float:
    scale = np.linalg.norm(one) * np.linalg.norm(other)
    return float(np.vdot(one, other) / scale) if scale > 0 else 0.0


def features(step: SpringStep, fmax: float) -> Array:
    """The state after the last `observe`, as float32 [22]; `fmax` is the force to reach."""
    memory, settings = step.memory, step.settings
    point, best, forces = memory.points[-1], memory.best, memory.forces
    assert best is not None
    last = memory.points[-2] if len(memory.points) > 1 else None
    coefficients = fit(memory.evidence, memory.stiffness, settings.certainty, settings.doubt, settings.forget)
    along = combine(coefficients, point.bonds, point.bend)
    mean = float(np.sqrt((point.forces**2).sum(axis=1).mean()))
    move = np.zeros_like(point.at) if last is None else point.at - last.at
    drop = np.zeros_like(move) if last is None else last.forces - point.forces
    curvature = float(np.vdot(move, drop)) / max(float(np.vdot(move, move)), 1e-12)
    pairs = max(len(point.bonds.distance), 1)
    values = (
        _log(forces[-1]), _log(mean), _log(forces[-1] / fmax),
        _log(forces[-1] / forces[-2]) if len(forces) > 1 else 0.0,
        _log(forces[-2] / forces[-3]) if len(forces) > 2 else 0.0,
        _log(forces[-1] / largest(best.forces)),
        memory.kept, _log(largest(move) / memory.trust) if last is not None else -1.0, _log(memory.trust),
        _cosine(point.forces, move), 0.0 if last is None else _cosine(point.forces, last.forces),
        float(np.sign(curvature) * np.log1p(abs(curvature))), unexplained(coefficients, memory.evidence[-1]),
        memory.rejected, memory.calls / 20, np.log10(len(point.at)), np.log10(2 * pairs / len(point.at)),
        float((along < 0).sum()) / pairs, _log(abs(float(along.mean())) if len(along) else 0.1),
        _log(forces[-1] / max(mean, 1e-12)),
        float((point.bonds.distance / point.bonds.length).min()) if len(along) else 2.0,
        float(last is None),
    )  # fmt: skip
    return np.clip(np.array(values, np.float32), -3.0, 3.0)
