"""Learners that serve every domain, and the networks for worlds of vectors."""

from twofold.learners import plus, td3, vector

__all__ = ["plus", "td3", "vector"]
