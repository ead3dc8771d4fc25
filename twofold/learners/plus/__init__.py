"""TD3 with what was found since: bounded values, hard targets, priorities, embeddings."""
