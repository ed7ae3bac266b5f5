"""The part that runs on a laptop: many real agents, one real broker, one real coordinator."""
