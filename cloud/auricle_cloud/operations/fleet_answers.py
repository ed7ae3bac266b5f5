"""What operators are told about the fleet as a whole."""

from __future__ import annotations

from auricle_cloud.operations.answer import Answer
from auricle_cloud.operations.device_answers import EventRow
from auricle_cloud.operations.model_answers import ModelRow
from auricle_cloud.operations.round_answers import RoundRow, Waiting
from auricle_cloud.storage.rows import Standing


class Overview(Answer, frozen=True, kw_only=True):
    """The fleet at a glance."""

    task: str
    pack: str | None
    epoch: int
    """How often a coordinator has started."""
    devices: int
    online: int
    ready: int
    """Approved, online, and willing to train."""
    standings: dict[Standing, int]
    under_way: RoundRow | None
    last: RoundRow | None
    """The newest finished round."""
    planned: int
    """Rounds that wait."""
    waiting: Waiting | None
    """Why the round under way, or else the first that is planned, does not go on; its first few devices."""
    model: ModelRow | None
    alarms: list[EventRow]
