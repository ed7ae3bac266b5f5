"""The releases that devices may fetch, in a folder: `targets/` beside the signed metadata that names them.

The keys of root and targets lie elsewhere.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from tuf.api.metadata import Root, Snapshot, TargetFile, Targets, Timestamp

from auricle.errors import DataError, SettingsError, StorageError
from auricle.files import describe, open_kept, sync_folder, write_durably
from auricle.wire.kinds import version_key
from auricle_cloud.ota.candidate import BLOCK_BYTES, Candidate, read_candidate
from auricle_cloud.ota.keys import LIVES, Expiry, make_key, offline_keys
from auricle_cloud.ota.metadata import SignedMetadata, signed_by
from auricle_cloud.ota.pending import hashed
from auricle_cloud.ota.rotation import Rotation
from auricle_cloud.states.rollout import Released
from auricle_cloud.storage.release_folder import ONLINE, alone, exists


class Repository(Rotation):
    """The repository in this folder.

    Parameters
    ----------
    folder
        Of the releases.
    now
        The clock.

    Raises
    ------
    StorageError
        It is missing, or it cannot be read.
    """

    def __init__(self, folder: Path, now: Callable[[], datetime] | None = None) -> None:
        if not exists(folder):
            raise StorageError(f"There are no releases in {folder}: make them with auricle cloud releases init.")
        super().__init__(folder, now)

    @classmethod
    def create(cls, folder: Path, keys: Path, now: Callable[[], datetime] | None = None) -> Repository:
        """Make keys and an empty repository; what a power cut left half-made is finished with new keys.

        Parameters
        ----------
        folder
            Of the releases; `online.key` lies there.
        keys
            Of the offline keys.
        """
        if exists(folder):
            raise SettingsError(f"There are releases in {folder}: devices would not trust another root.")
        (folder / ONLINE).unlink(missing_ok=True)
        self = cls.__new__(cls)
        SignedMetadata.__init__(self, folder, now)
        root = Root(expires=self._until("root"), consistent_snapshot=True)
        signers = {"root": make_key(keys, "root"), "targets": make_key(keys, "targets")}
        online = make_key(folder, "online", online=True)
        for role in ("root", "targets", "snapshot", "timestamp"):
            root.add_key(signers.get(role, online).public_key, role)
        (folder / "targets").mkdir(parents=True, exist_ok=True)
        self._write("1.root.json", signed_by(root, signers["root"]))
        snapshot, timestamp = Snapshot(), Timestamp()
        snapshot.version = timestamp.version = 0
        targets = Targets(expires=self._until("targets"))
        self._publish(signed_by(targets, signers["targets"]), snapshot, timestamp, online)
        return self

    # -- looking

    def releases(self) -> list[Released]:
        """Everything that is released, by path."""
        targets = self._targets().targets
        return [
            Released(path=path, sha256=target.hashes["sha256"], size=target.length, **_custom(target))
            for path, target in sorted(targets.items())
        ]

    def expiries(self) -> list[Expiry]:
        """Until when each role's metadata is believed."""
        parts = (self._root().signed, self._targets(), self._snapshot(), self._timestamp())
        return [Expiry(part.type, part.expires) for part in parts]

    def near_expiry(self) -> list[str]:
        """What somebody has to do something about, in sentences."""
        now = self._now()
        restored = [
            "The releases are from a backup, and devices may have seen newer ones: run auricle cloud releases renew."
        ] * self._restore_mark.exists()
        return restored + [expiry.sentence(now) for expiry in self.expiries() if expiry.is_near(now)]

    # -- changing

    def add(self, candidate: Candidate, keys: Path, *, force: bool = False) -> str:
        """Release a bundle or pack: its path; the same one again changes nothing.

        Raises
        ------
        SettingsError
            Its version is not higher than what there is for this board, and nobody forces it.
        DataError
            The file changed while it was read.
        """
        with alone(self.folder):
            targets = self._next_targets()
            if candidate.path in targets.targets:
                return candidate.path
            custom = self._describe(candidate, targets, force=force)
            sha256, size = self._store(candidate)
            added = TargetFile(size, {"sha256": sha256}, candidate.path, {"custom": custom})
            targets.targets[candidate.path] = added
            self._offer(targets=self._sign_targets(targets, offline_keys(keys, "targets")))
        return candidate.path

    @staticmethod
    def _describe(candidate: Candidate, targets: Targets, *, force: bool) -> dict[str, str]:
        """What devices are told of it, signed."""
        known = [_custom(target) for target in targets.targets.values()]
        version = candidate.version
        if candidate.kind == "pack":
            version = str(1 + max((int(row["version"]) for row in known if row["kind"] == "pack"), default=0))
        else:
            same = ("bundle", candidate.board, candidate.os, candidate.fleet)
            there = [row["version"] for row in known if (row["kind"], row["board"], row["os"], row["fleet"]) == same]
            highest = max(there, key=version_key, default=None)
            if highest is not None and version_key(version) <= version_key(highest) and not force:
                raise SettingsError(
                    f"{candidate.file} is {version}, and {highest} is released for {candidate.board}, {candidate.os}: "
                    "devices take higher versions only; add --force for devices that have none of them yet."
                )
        return {
            "kind": candidate.kind,
            "board": candidate.board,
            "os": candidate.os,
            "fleet": candidate.fleet,
            "version": version,
            "identity": candidate.identity,
        }

    def _store(self, candidate: Candidate) -> tuple[str, int]:
        """Copy a file to where devices fetch it; its SHA-256 and size."""
        place = (self.folder / "targets" / candidate.path).parent
        beside = place / f".{os.urandom(4).hex()}{'.tar' if candidate.kind == 'bundle' else '.tar.zst'}"
        sha256, size = hashlib.sha256(), 0
        try:
            place.mkdir(parents=True, exist_ok=True)
            with open_kept(candidate.file) as source, beside.open("xb") as copy:
                while block := source.read(BLOCK_BYTES):
                    sha256.update(block)
                    size += copy.write(block)
                copy.flush()
                os.fsync(copy.fileno())
            if read_candidate(beside).identity != candidate.identity:
                raise DataError(f"{candidate.file} changed while it was read: try again.")
            beside.replace(self.folder / "targets" / hashed(candidate.path, sha256.hexdigest()))
            sync_folder(place)
        except OSError as error:
            raise StorageError(describe(error, place)) from error
        finally:
            beside.unlink(missing_ok=True)
        return sha256.hexdigest(), size

    def remove(self, path: str, keys: Path) -> None:
        """Stop offering a release, and remove its file."""
        with alone(self.folder):
            targets = self._next_targets()
            if targets.targets.pop(path, None) is not None:
                self._offer(targets=self._sign_targets(targets, offline_keys(keys, "targets")))

    def renew_online(self) -> list[str]:
        """Sign snapshot and timestamp again if half of their lives is over; which were.

        While somebody else changes the repository nothing is done: the next time is early enough.
        """
        if not self._due():
            return []
        with alone(self.folder, wait=False) as free:
            due = self._due() if free else []
            if "snapshot" in due:
                self._publish_snapshot(self._snapshot(), self._online())
                if self._restore_mark.exists():
                    write_durably(self._restore_mark, b"signed online\n")
            elif due:
                self._publish_timestamp(self._timestamp(), self._online())
        return due

    def _due(self) -> list[str]:
        if self._restore_mark.exists() and self._restore_mark.stat().st_size == 0:
            return ["snapshot", "timestamp"]
        left = {"snapshot": self._snapshot().expires, "timestamp": self._timestamp().expires}
        return [role for role, expires in left.items() if expires - self._now() < LIVES[role] / 2]


def _custom(target: TargetFile) -> Mapping[str, str]:
    custom: Mapping[str, str] = target.custom or {}
    return {name: str(custom.get(name, "")) for name in ("kind", "board", "os", "fleet", "version", "identity")}
