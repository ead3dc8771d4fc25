"""Keeping runs: the run directory, checkpoints, sealed policy files; the only place that opens foreign files."""
