"""Recorded and synthetic speech: reading clips, features, augmentation, word lists, splits by speaker."""
