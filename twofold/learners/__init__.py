"""Learners that serve every domain."""

from twofold.learners import td3

__all__ = ["td3"]
