"""Continuous control on Gymnasium: MuJoCo, Box2D, classic control, and any environment with bounded actions."""

from twofold.control import walker_world, worlds

__all__ = ["walker_world", "worlds"]
