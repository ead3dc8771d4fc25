"""Many runs: statistics over seeds, comparisons, figures, reports, experiments, and the page."""
