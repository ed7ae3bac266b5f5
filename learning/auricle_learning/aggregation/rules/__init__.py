"""The rules by which a coordinator turns a cohort's updates into the next model, each a pure function."""

from auricle_learning.aggregation.rules.rule import Rule

__all__ = ["Rule"]
