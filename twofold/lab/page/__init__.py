"""The page: runs as they learn, comparisons, one run in all its parts; on this machine only."""
