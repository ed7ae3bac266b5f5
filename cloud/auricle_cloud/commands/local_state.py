"""What operators can do with a coordinator's state on this machine; loaded only where a command acts on one."""

from __future__ import annotations

from pathlib import Path

from auricle.errors import SettingsError, StorageError, nearest
from auricle.packs.pack import load_pack
from auricle.packs.shipped import SHIPPED
from auricle.wire.tensors import TensorTable
from auricle_cloud.identity.enrolment import open_enrolment
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs, BlobStore, open_blobs
from auricle_cloud.storage.store import Store

DEFAULT_TASK = "keywords"


class _NoBlobs(Blobs):
    """Stands where nobody said where the files lie."""

    def get(self, sha256: str) -> bytes:
        """Say what is missing."""
        raise StorageError(f"The file {sha256[:12]} is needed: name its folder with --state, or its URL with --blobs.")


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


def local_operations(
    store: Store, blobs: BlobStore, state: Path | None, task: str | None, pack: str | None, who: str
) -> Operations:
    """What can be done with a store; its folder, task and pack as of `Place`. SettingsError: there is no such task."""
    return Operations(
        store,
        blobs,
        _task(store, task),
        who=who,
        table=_Tables(pack),
        enrolment=lambda: None if state is None else open_enrolment(state, store.database),
    )


def local_blobs(state: Path | None, url: str | None) -> BlobStore:
    """Where the files of a coordinator lie: at a URL, else in its folder, else nobody said where."""
    if url is not None:
        return open_blobs(url)
    return _NoBlobs(Path()) if state is None else Blobs(state / "blobs")


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
