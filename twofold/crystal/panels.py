"""A relaxation as data that any page can draw: atoms that turn and play, with energy and force of every frame."""

from __future__ import annotations

from twofold.base.errors import UserError
from twofold.crystal.compare import Outcome
from twofold.crystal.viewer import drawn
from twofold.show.panels import Trajectory


def trajectory_panel(outcome: Outcome) -> Trajectory:
    """The path of one method from one start."""
    if outcome.final is None or not outcome.frames:
        raise UserError(f"{outcome.method} on {outcome.start} left no path: {outcome.error or 'no frames'}")
    run = drawn(outcome)
    values = {"energy (eV)": run["energies"], "largest force (eV/Å)": run["forces"]}
    title = f"{outcome.start}, {outcome.method}: {outcome.calls} force calls"
    return Trajectory(title, run["colours"], run["radii"], run["frames"], run["cell"], values)
