"""What runs: the speech of a run, what judges it, the federation, and the central ceiling."""
