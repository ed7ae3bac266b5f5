"""Vocabulary of rounds, rollouts, verdicts and selection. Pure: it imports nothing of this part."""
