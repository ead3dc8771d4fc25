"""Learners that serve every domain."""

from . import td3

__all__ = ["td3"]
