"""A device's part in the secure sum of a round (docs/privacy.md)."""
