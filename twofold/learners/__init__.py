"""Learners that serve every domain, and the networks for worlds of vectors."""

from twofold.learners import td3, vector

__all__ = ["td3", "vector"]
