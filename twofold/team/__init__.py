"""Teams: cooperative multi-agent worlds, value decomposition, opponent models and partner sets."""

from .worlds import matrix, skirmish

__all__ = ["matrix", "skirmish"]
