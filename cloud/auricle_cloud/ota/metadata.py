"""Signed metadata of updates (TUF, https://theupdateframework.io) in a folder: read, signed again, published.

`metadata/` is what devices fetch; `online.key` signs snapshot and timestamp. `timestamp.json` is written last and names
everything else, so that devices see all of a change or nothing of it, wherever the power is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import RepositoryError, UnsignedMetadataError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, Targets, Timestamp

from auricle.errors import StorageError
from auricle.files import read_kept, write_durably
from auricle_cloud.ota.keys import LIVES, load_key
from auricle_cloud.storage.release_folder import RESTORED

LEAP_VERSIONS = 1000
"""Versions left out after a restore: devices may have seen later ones than the backup knows, and believe none twice."""
KEPT = 5
"""Older versions of targets and snapshot that stay for devices that are just fetching."""

S = TypeVar("S", Root, Timestamp, Snapshot, Targets)


class SignedMetadata:
    """The metadata in this folder.

    Parameters
    ----------
    folder
        Of the releases.
    now
        The clock.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] | None = None) -> None:
        self.folder, self._now = folder, now or (lambda: datetime.now(timezone.utc))

    @property
    def root_file(self) -> Path:
        """The newest root."""
        versions = [int(path.name.split(".")[0]) for path in self._metadata.glob("*.root.json")]
        return self._metadata / f"{max(versions)}.root.json"

    @property
    def _metadata(self) -> Path:
        return self.folder / "metadata"

    def _read(self, name: str, kind: type[S]) -> Metadata[S]:
        return read_metadata(self._metadata / name, kind)

    def _root(self) -> Metadata[Root]:
        return self._read(self.root_file.name, Root)

    def _timestamp(self) -> Timestamp:
        return self._read("timestamp.json", Timestamp).signed

    def _snapshot(self) -> Snapshot:
        return self._read(f"{self._timestamp().snapshot_meta.version}.snapshot.json", Snapshot).signed

    def _targets(self) -> Targets:
        return self._read(f"{self._snapshot().meta['targets.json'].version}.targets.json", Targets).signed

    @property
    def _restore_mark(self) -> Path:
        """Is there until somebody with the key of targets has signed after a restore; empty before serve has."""
        return self.folder / RESTORED

    def _after(self, version: int) -> int:
        return version + (LEAP_VERSIONS if self._restore_mark.exists() else 1)

    def _publish_root(self, signed: Metadata[Root]) -> None:
        self._write(f"{signed.signed.version}.root.json", signed)

    def _publish_targets(self, signed: Metadata[Targets]) -> None:
        self._check(self._root().signed, "targets", signed)
        self._publish(signed, self._snapshot(), self._timestamp(), self._online())
        self._restore_mark.unlink(missing_ok=True)

    def _publish(self, targets: Metadata[Targets], snapshot: Snapshot, timestamp: Timestamp, key: CryptoSigner) -> None:
        self._write(f"{targets.signed.version}.targets.json", targets)
        snapshot.meta["targets.json"] = MetaFile(targets.signed.version)
        self._publish_snapshot(snapshot, key, timestamp)

    def _publish_snapshot(self, snapshot: Snapshot, key: CryptoSigner, timestamp: Timestamp | None = None) -> None:
        timestamp = timestamp or self._timestamp()
        snapshot.version, snapshot.expires = self._after(snapshot.version), self._until("snapshot")
        self._write(f"{snapshot.version}.snapshot.json", signed_by(snapshot, key))
        timestamp.snapshot_meta.version = snapshot.version
        self._publish_timestamp(timestamp, key)
        self._prune()

    def _publish_timestamp(self, timestamp: Timestamp, key: CryptoSigner) -> None:
        timestamp.version, timestamp.expires = self._after(timestamp.version), self._until("timestamp")
        signed = signed_by(timestamp, key)
        self._check(self._root().signed, "timestamp", signed)
        self._write("timestamp.json", signed)

    def _until(self, role: str) -> datetime:
        return self._now().replace(microsecond=0) + LIVES[role]

    def _online(self) -> CryptoSigner:
        return load_key(self.folder, "online", online=True)

    def _check(self, root: Root, role: str, signed: Metadata[Any]) -> None:
        """Refuse to publish what devices would not believe: the key is another one."""
        try:
            root.verify_delegate(role, signed.signed_bytes, signed.signatures)
        except UnsignedMetadataError as error:
            raise StorageError(f"The {role} key is not the one of the releases in {self.folder}.") from error

    def _write(self, name: str, metadata: Metadata[Any]) -> None:
        write_durably(self._metadata / name, metadata.to_bytes())

    def _prune(self) -> None:
        """Forget old versions of targets and snapshot; roots are needed for ever."""
        for role in ("targets", "snapshot"):
            versions = sorted(int(path.name.split(".")[0]) for path in self._metadata.glob(f"*.{role}.json"))
            for version in versions[:-KEPT]:
                (self._metadata / f"{version}.{role}.json").unlink(missing_ok=True)


def read_metadata(file: Path, kind: type[S]) -> Metadata[S]:
    """Metadata of a kind from a file; StorageError: it cannot be read, or is of another kind."""
    try:
        found: Metadata[S] = Metadata[S].from_bytes(read_kept(file))
    except (RepositoryError, OSError) as error:
        raise StorageError(f"The metadata {file} cannot be read: {error}.") from error
    if not isinstance(found.signed, kind):
        raise StorageError(f"The metadata {file} is not a {kind.__name__}.")
    return found


def signed_by(part: S, *signers: CryptoSigner) -> Metadata[S]:
    """The part with a signature of each."""
    metadata = Metadata(part)
    for signer in signers:
        metadata.sign(signer, append=True)
    return metadata
