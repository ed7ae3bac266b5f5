"""Updates of packs and of the agent itself: fetched with signed metadata, tried, taken back when they fail."""
