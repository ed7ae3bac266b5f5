"""Auricle: federated keyword spotting on real boards. This package holds what two or more parts share."""

__version__ = "0.1.0"
