"""TD3 with what was found since: bounded values, hard targets, priorities, embeddings."""

from twofold.learners.plus import learner, sale

__all__ = ["learner", "sale"]
