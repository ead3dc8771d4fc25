"""Recommendation: logs of ratings, learned users, worlds of users, and policies that show them items."""

from twofold.recsys import networks, worlds

__all__ = ["networks", "worlds"]
