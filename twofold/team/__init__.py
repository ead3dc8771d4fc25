"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from . import agents, learner
from .worlds import matrix, packages, skirmish

__all__ = ["agents", "learner", "matrix", "packages", "skirmish"]
