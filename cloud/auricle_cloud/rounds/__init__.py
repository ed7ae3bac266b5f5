"""Rounds, synchronous and asynchronous, from planned to published."""
