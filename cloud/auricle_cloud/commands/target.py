"""Where an operator's command acts: on a state folder or database of this machine, or on a coordinator elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import SettingsError, StorageError, nearest
from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED
from auricle.wire.kinds import FleetName
from auricle.wire.tensors import TensorTable
from auricle_cloud.api.remote import TOKEN, Remote, checked, connect
from auricle_cloud.identity.enrolment import open_enrolment
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs, BlobStore, open_blobs
from auricle_cloud.storage.store import FILE, Store

DEFAULT_TASK = "keywords"


class _NoBlobs(Blobs):
    """Stands where nobody said where the files lie."""

    def get(self, sha256: str) -> bytes:
        """Say what is missing."""
        raise StorageError(f"The file {sha256[:12]} is needed: name its folder with --state, or its URL with --blobs.")


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
        with self.local_store() as store:
            task = _task(store, self.task)
            yield checked(
                Operations(
                    store,
                    self.local_blobs(),
                    task,
                    who=user(),
                    table=_Tables(pack),
                    enrolment=lambda: None if self.state is None else open_enrolment(self.state, store.database),
                )
            )

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
        store = Store(self.database or (self.state or Path()) / FILE, must_exist=True)
        try:
            yield store
        finally:
            store.close()

    def local_blobs(self) -> BlobStore:
        """Where the files of this machine's coordinator lie."""
        if self.blobs is not None:
            return open_blobs(self.blobs)
        return _NoBlobs(Path()) if self.state is None else Blobs(self.state / "blobs")


class _Tables:
    """Finds a pack's table by the pack's identity: the one that is named, else among the shipped."""

    def __init__(self, named: str | None) -> None:
        self._named = named

    def __call__(self, identity: str) -> TensorTable | None:
        for source in SHIPPED if self._named is None else (self._named,):
            pack = load_pack(source)
            if pack.identity == identity:
                return pack.plugin_table
        if self._named is not None:
            raise SettingsError(f"{self._named} is not the pack of this task, which is {identity[:12]}.")
        return None


def _task(store: Store, wanted: str | None) -> str:
    """The task that is wanted, else the only one; before a coordinator has begun one, any."""
    names = [row.task for row in store.models.tasks()]
    if wanted is not None:
        if names and wanted not in names:
            raise SettingsError(f'There is no task "{wanted}"; {nearest(wanted, names)}')
        return wanted
    if len(names) > 1 and DEFAULT_TASK not in names:
        raise SettingsError(f"There are several tasks, choose one with --task; {nearest('', names)}")
    return DEFAULT_TASK if not names or DEFAULT_TASK in names else names[0]


def user() -> str:
    """Who types, for the events."""
    return f"cli:{os.environ.get('USER') or os.environ.get('LOGNAME') or os.getuid()}"


def require_name(name: str) -> None:
    """Refuse what cannot be the name of a fleet; SettingsError."""
    try:
        msgspec.convert(name, FleetName)
    except msgspec.ValidationError as error:
        raise SettingsError(f'"{name}" is not a valid name of a fleet: 1 to 64 of a-z, 0-9 and hyphen.') from error
