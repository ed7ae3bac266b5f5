"""The part that runs on the server: rounds, aggregation rules, storage."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_cloud.aggregation.cohort import Aggregate, Cohort
    from auricle_cloud.aggregation.rules import Rule
    from auricle_cloud.operations.operations import Operations
    from auricle_cloud.rounds.coordinator import Coordinator
    from auricle_cloud.settings import RunSettings

__all__ = ["Aggregate", "Cohort", "Coordinator", "Operations", "Rule", "RunSettings"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Aggregate": "auricle_cloud.aggregation.cohort",
            "Cohort": "auricle_cloud.aggregation.cohort",
            "Coordinator": "auricle_cloud.rounds.coordinator",
            "Operations": "auricle_cloud.operations.operations",
            "Rule": "auricle_cloud.aggregation.rules",
            "RunSettings": "auricle_cloud.settings",
        },
    )
