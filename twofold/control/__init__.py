"""Continuous control on Gymnasium: MuJoCo, Box2D, classic control, and any environment with bounded actions."""

from . import worlds

__all__ = ["worlds"]
