"""Central training of a pack's models, to give devices something good to start from."""
