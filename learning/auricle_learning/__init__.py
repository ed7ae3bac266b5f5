"""What a round is, without places: training on a device's clips, and the rules that make one model of many."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_learning.aggregation.cohort import Aggregate, Cohort
    from auricle_learning.aggregation.rules import Rule
    from auricle_learning.methods import METHODS, get_method
    from auricle_learning.methods.average import average
    from auricle_learning.runtimes import Runtime
    from auricle_learning.training.train import Trainer

__all__ = ["METHODS", "Aggregate", "Cohort", "Rule", "Runtime", "Trainer", "average", "get_method"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "METHODS": "auricle_learning.methods",
            "Aggregate": "auricle_learning.aggregation.cohort",
            "Cohort": "auricle_learning.aggregation.cohort",
            "Rule": "auricle_learning.aggregation.rules",
            "Runtime": "auricle_learning.runtimes",
            "Trainer": "auricle_learning.training.train",
            "average": "auricle_learning.methods.average",
            "get_method": "auricle_learning.methods",
        },
    )
