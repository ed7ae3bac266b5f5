"""A device's side of the rounds: the agent, what it fetches, what it sends."""
