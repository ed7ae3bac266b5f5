"""What a run leaves: a row a round, the summary, the report, and the folder that they lie in."""
