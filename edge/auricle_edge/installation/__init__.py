"""The installation on a device: two slots, a guard that decides between them, and the units around the agent."""
