"""Bundles: everything that a board needs to run the agent, in one file that installs without network."""
