"""The coordinator's memory in SQL: devices, rounds, updates, models, events. A change of state is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from auricle_cloud.storage.access_records import Schedules, Tokens
from auricle_cloud.storage.attendance import Attendance
from auricle_cloud.storage.claim_records import ClaimRecords
from auricle_cloud.storage.database import Database
from auricle_cloud.storage.device_records import Devices
from auricle_cloud.storage.hearing_records import Hearing
from auricle_cloud.storage.journal import Journal
from auricle_cloud.storage.listings import Listings
from auricle_cloud.storage.model_records import Models
from auricle_cloud.storage.personal_records import PersonalModels
from auricle_cloud.storage.release_records import Releases
from auricle_cloud.storage.rollout_records import Rollouts
from auricle_cloud.storage.round_records import Rounds
from auricle_cloud.storage.sum_records import Sums
from auricle_cloud.storage.update_records import Updates

FILE = "coordinator.db"


class Store:
    """State of one coordinator.

    Parameters
    ----------
    place
        A SQLite file, made when it is not there, or a `postgresql://` URL.
    must_exist
        Refuse to make a SQLite file: for commands that only look.
    probe
        See `Database`.
    durable
        See `Database`.

    Raises
    ------
    StorageError
        It cannot be opened, or the disk is full.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        must_exist: bool = False,
        probe: Callable[[str], None] = lambda _: None,
        durable: bool = True,
    ) -> None:
        self.database = Database(place, must_exist=must_exist, probe=probe, durable=durable)
        self.devices = Devices(self.database)
        self.rounds = Rounds(self.database)
        self.updates = Updates(self.database)
        self.attendance = Attendance(self.database)
        self.sums = Sums(self.database)
        self.models = Models(self.database)
        self.personal = PersonalModels(self.database)
        self.journal = Journal(self.database)
        self.tokens = Tokens(self.database)
        self.schedules = Schedules(self.database)
        self.releases = Releases(self.database)
        self.rollouts = Rollouts(self.database)
        self.hearing = Hearing(self.database)
        self.claims = ClaimRecords(self.database)
        self.listings = Listings(self.database)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()
