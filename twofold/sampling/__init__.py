"""Ways to draw batches from replay other than uniformly."""
