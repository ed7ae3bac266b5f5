"""What a suite can measure of a run, by name: accuracies, recall by label, precision, detection, recovery, angles."""

from __future__ import annotations

NAMES = (
    "unseen",
    "personal",
    "tail",
    "head",
    "macro",
    "precision-60",
    "precision-70",
    "precision-80",
    "precision-90",
    "backdoor",
    "recall-of-detection",
    "false-names",
    "recovery",
    "worst-device",
    "angle",
)
"""What `Suite.figures` can name."""
