"""Installing over SSH on boards that already run."""
