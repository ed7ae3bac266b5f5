"""The part that runs on a workstation: models become packs that a board can train."""
