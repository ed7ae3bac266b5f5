"""The part that runs on the server: rounds, detection of harmful updates, storage."""

from typing import TYPE_CHECKING

from auricle.promised import promised

if TYPE_CHECKING:
    from auricle_cloud.operations.operations import Operations
    from auricle_cloud.rounds.coordinator import Coordinator
    from auricle_cloud.settings import RunSettings

__all__ = ["Coordinator", "Operations", "RunSettings"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Coordinator": "auricle_cloud.rounds.coordinator",
            "Operations": "auricle_cloud.operations.operations",
            "RunSettings": "auricle_cloud.settings",
        },
    )
