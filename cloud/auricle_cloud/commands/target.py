"""Where an operator's command acts: on a state folder or database of this machine, or on a coordinator elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auricle.errors import SettingsError
from auricle.wire.kinds import FleetName
from auricle_cloud.api.remote import TOKEN, Remote, checked, connect
from auricle_cloud.operations.operations import Operations

if TYPE_CHECKING:
    from auricle_cloud.storage.blobs import BlobStore
    from auricle_cloud.storage.store import Store


@dataclass(frozen=True)
class Place:
    """What the options say."""

    state: Path | None = None
    database: str | None = None
    blobs: str | None = None
    server: str | None = None
    task: str | None = None
    token: str | None = None
    """Of an operator, for `server`, where the environment has none."""

    def __post_init__(self) -> None:
        """Refuse two places, and none."""
        if self.server is not None and (self.state is not None or self.database is not None):
            raise SettingsError("Name one place: either --server, or --state and --database of this machine.")

    @contextmanager
    def operations(self, pack: str | None = None) -> Iterator[Operations]:
        """What can be done there.

        Parameters
        ----------
        pack
            The pack that names a model's tensors; without, one that is shipped.

        Raises
        ------
        SettingsError
            No place is named, or the token is missing.
        StorageError
            There is no coordinator's state.
        """
        if self.server is not None:
            yield connect(self.server, os.environ.get(TOKEN) or self.token)
            return
        from auricle_cloud.commands.local_state import local_operations

        with self.local_store() as store:
            yield checked(local_operations(store, self.local_blobs(), self.state, self.task, pack, user()))

    def remote(self) -> Remote | None:
        """The coordinator elsewhere, where there is one."""
        return None if self.server is None else Remote(self.server, os.environ.get(TOKEN) or self.token or "")

    @contextmanager
    def local_store(self) -> Iterator[Store]:
        """The store of this machine; errors as in `operations`."""
        if self.server is not None:
            raise SettingsError("This works on the coordinator's machine only: name --state or --database.")
        if self.database is None and self.state is None:
            raise SettingsError(
                "Name the coordinator: --state FOLDER, --database URL, --server URL; or once: auricle cloud use NAME."
            )
        from auricle_cloud.storage.store import FILE, Store

        store = Store(self.database or (self.state or Path()) / FILE, must_exist=True)
        try:
            yield store
        finally:
            store.close()

    def local_blobs(self) -> BlobStore:
        """Where the files of this machine's coordinator lie."""
        from auricle_cloud.commands.local_state import local_blobs

        return local_blobs(self.state, self.blobs)


def user() -> str:
    """Who types, for the events."""
    return f"cli:{os.environ.get('USER') or os.environ.get('LOGNAME') or os.getuid()}"


def require_name(name: str) -> None:
    """Refuse what cannot be the name of a fleet; SettingsError."""
    try:
        msgspec.convert(name, FleetName)
    except msgspec.ValidationError as error:
        raise SettingsError(f'"{name}" is not a valid name of a fleet: 1 to 64 of a-z, 0-9 and hyphen.') from error
