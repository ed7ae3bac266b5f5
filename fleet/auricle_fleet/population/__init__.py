"""Who takes part in a run, and what is theirs: clips, labels, habits, traces, and who judges their models."""
