"""How the database fails those who use it, for what handles that without loading SQLAlchemy."""

from __future__ import annotations

from auricle.errors import LATER_CODE, NOT_FOUND, StorageError


class BusyDatabaseError(StorageError):
    """Another program holds the database for longer than anybody waits."""

    exit_code = LATER_CODE


class NoDatabaseError(StorageError):
    """There is no database at a place."""

    exit_code = NOT_FOUND


class SupersededError(StorageError):
    """A newer coordinator has taken over: this one may write nothing any more."""


class MovedOnError(StorageError):
    """Files were removed, or another coordinator leads, since this one kept a file: it has to keep it again."""
