"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from . import agents, am, coma, learner, omg, prior
from .worlds import matrix, packages, partnered, skirmish

__all__ = ["agents", "am", "coma", "learner", "matrix", "omg", "packages", "partnered", "prior", "skirmish"]
