"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from . import agents, coma, learner
from .worlds import matrix, packages, skirmish

__all__ = ["agents", "coma", "learner", "matrix", "packages", "skirmish"]
