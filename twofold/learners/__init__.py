"""Learners that serve every domain, and the networks for worlds of vectors."""

from twofold.learners import td3, vector
from twofold.learners.plus import learner, sale

__all__ = ["learner", "sale", "td3", "vector"]
