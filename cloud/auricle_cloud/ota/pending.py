"""Root and targets that need the signatures of several people: what lacks some waits in `pending/`.

A role has n keys, of which k must sign; a new root needs k of the keys of the root before, and of its own (TUF
specification, 5.3). What has its signatures is published at once; what has not lies in `pending/root.json` or
`pending/targets.json` until the other holders have signed it. A further change is made to what waits, and needs all
signatures again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from securesystemslib.signer import CryptoSigner, Key
from tuf.api.metadata import Metadata, Root, Targets

from auricle.errors import StorageError
from auricle.files import sync_folder, write_durably
from auricle_cloud.ota.keys import load_key, public_hex
from auricle_cloud.ota.metadata import S, SignedMetadata, read_metadata, signed_by
from auricle_cloud.storage.release_folder import NEXT, OFFLINE, ONLINE, PENDING, Offline, alone, pending_file


@dataclass(frozen=True)
class RoleKeys:
    """Who signs for a role."""

    role: Offline
    threshold: int
    keys: tuple[str, ...]
    """Public halves, in hex."""


@dataclass(frozen=True)
class Waiting:
    """Metadata that wait for signatures."""

    role: Offline
    version: int
    expires: datetime
    file: Path
    signed: tuple[str, ...]
    """Public halves of the keys that have signed, in hex."""
    missing: int
    unsigned: tuple[str, ...]
    """Those that may give the missing ones."""

    @property
    def sentence(self) -> str:
        """What it waits for, and what to do."""
        if not self.missing:
            return f"{self.role} {self.version} has its signatures, and waits for what goes with it."
        who = ", ".join(key[:12] for key in self.unsigned)
        return (
            f"{self.role} {self.version} waits for {self.missing} more of {who}: take {self.file} to them for "
            "auricle cloud releases sign, then run auricle cloud releases publish with what they give back."
        )


class PendingMetadata(SignedMetadata):
    """The metadata in a folder, with those that wait for signatures."""

    def role_keys(self) -> list[RoleKeys]:
        """How many of which keys sign root and targets, by the root in use."""
        root = self._root().signed
        return [
            RoleKeys(role, root.roles[role].threshold, tuple(public_hex(root.keys[k]) for k in root.roles[role].keyids))
            for role in OFFLINE
        ]

    def waiting(self) -> list[Waiting]:
        """What waits for signatures: root first."""
        root, targets = self._pending_root(), self._pending_targets()
        found: list[Waiting] = []
        if root is not None:
            result = root.signed.get_root_verification_result(self._root().signed, root.signed_bytes, root.signatures)
            missing = max(result.first.missing, result.second.missing)
            lacking = [half.unsigned for half in (result.first, result.second) if half.missing]
            found.append(
                self._waits("root", root, result.signed, missing, {k: v for x in lacking for k, v in x.items()})
            )
        if targets is not None:
            needed = (root or self._root()).signed.get_verification_result(
                "targets", targets.signed_bytes, targets.signatures
            )
            found.append(self._waits("targets", targets, needed.signed, needed.missing, needed.unsigned))
        return found

    def _waits(
        self, role: Offline, metadata: Metadata[S], signed: dict[str, Key], missing: int, unsigned: dict[str, Key]
    ) -> Waiting:
        part, hexes = metadata.signed, [tuple(map(public_hex, keys.values())) for keys in (signed, unsigned)]
        return Waiting(role, part.version, part.expires, self._place(role), hexes[0], missing, hexes[1])

    # -- what a change begins with

    def _place(self, role: str) -> Path:
        return self.folder / PENDING / f"{role}.json"

    def _pending_root(self) -> Metadata[Root] | None:
        """The root that waits; None without one that can follow the root in use."""
        found = self._read_pending("root", Root)
        return found if found is not None and found.signed.version == self._root().signed.version + 1 else None

    def _pending_targets(self) -> Metadata[Targets] | None:
        found = self._read_pending("targets", Targets)
        return found if found is not None and found.signed.version > self._targets().version else None

    def _read_pending(self, role: str, kind: type[S]) -> Metadata[S] | None:
        file = pending_file(self.folder, f"{role}.json")
        return None if file is None else read_metadata(file, kind)

    def _next_root(self) -> Root:
        """The root to change."""
        return (self._pending_root() or self._root()).signed

    def _next_targets(self) -> Targets:
        """The targets to change."""
        waiting = self._pending_targets()
        return self._targets() if waiting is None else waiting.signed

    # -- signing

    def _sign_root(self, root: Root, signers: Sequence[CryptoSigner]) -> Metadata[Root]:
        """The next root, signed by those that may; StorageError: nobody of them may."""
        old = self._root().signed
        root.version, root.expires = old.version + 1, self._until("root")
        return signed_by(root, *self._allowed_signers("root", signers, old, root))

    def _sign_targets(self, targets: Targets, signers: Sequence[CryptoSigner], *roots: Root) -> Metadata[Targets]:
        """The next targets, signed by those that may; StorageError: nobody of them may."""
        targets.version, targets.expires = self._after(self._targets().version), self._until("targets")
        return signed_by(
            targets, *self._allowed_signers("targets", signers, self._root().signed, self._next_root(), *roots)
        )

    def _allowed_signers(self, role: str, signers: Sequence[CryptoSigner], *roots: Root) -> list[CryptoSigner]:
        named = {keyid for root in roots for keyid in root.roles[role].keyids}
        allowed = [signer for signer in signers if signer.public_key.keyid in named]
        if signers and not allowed:
            raise StorageError(f"The {role} key is not the one of the releases in {self.folder}.")
        return allowed

    # -- publishing

    def _offer(self, root: Metadata[Root] | None = None, targets: Metadata[Targets] | None = None) -> list[str]:
        """Publish what has its signatures, let the rest wait; the roles that were published.

        A root is published only if devices believe the targets of that moment by it: those in use, or those that wait
        and follow at once.
        """
        before = self._files_in_use()
        root, targets = root or self._pending_root(), targets or self._pending_targets()
        new_root, new_targets = self._complete(root, targets)
        if root is not new_root or targets is not new_targets or any(self._place(role).exists() for role in OFFLINE):
            for role, part in (("root", root), ("targets", targets)):
                self._keep(role, None if part is None else part.to_bytes())
        done = []
        if new_root is not None:
            self._publish_root(new_root)
            self._keep("root", None)
            done.append("root")
        self._use_online_key()
        if new_targets is not None:
            self._publish_targets(new_targets)
            self._keep("targets", None)
            done.append("targets")
        self._forget(before)
        return done

    def _complete(
        self, root: Metadata[Root] | None, targets: Metadata[Targets] | None
    ) -> tuple[Metadata[Root] | None, Metadata[Targets] | None]:
        """What can be published now of what waits; targets that the next root does not believe would only delay it."""
        in_use = self._root().signed
        if root is None:
            return None, targets if self._is_ready(in_use, targets) else None
        if not root.signed.get_root_verification_result(in_use, root.signed_bytes, root.signatures):
            return None, targets if self._is_ready(in_use, targets) and self._is_ready(root.signed, targets) else None
        if self._is_ready(root.signed, targets):
            return root, targets
        there = self._read(f"{self._targets().version}.targets.json", Targets)
        believed = root.signed.get_verification_result("targets", there.signed_bytes, there.signatures)
        return root if believed else None, None

    def _is_ready(self, root: Root, targets: Metadata[Targets] | None) -> bool:
        if targets is None or targets.signed.version < self._after(self._targets().version):
            return False
        return bool(root.get_verification_result("targets", targets.signed_bytes, targets.signatures))

    def _use_online_key(self) -> None:
        """Sign with the next online key from the moment on at which the root names it."""
        if not (self.folder / NEXT).is_file():
            return
        online = load_key(self.folder, "next", online=True)
        if online.public_key.keyid in self._root().signed.roles["timestamp"].keyids:
            (self.folder / NEXT).replace(self.folder / ONLINE)
            self._publish_snapshot(self._snapshot(), online)

    def _keep(self, role: str, content: bytes | None) -> None:
        """Let metadata wait for signatures, or not any more."""
        place = self._place(role)
        if content is not None:
            place.parent.mkdir(exist_ok=True)
            write_durably(place, content)
        elif place.exists():
            place.unlink()
            sync_folder(place.parent)

    def drop(self) -> list[str]:
        """Let nothing wait any more: the roles whose changes are dropped, with the files they would have released."""
        with alone(self.folder):
            before = self._files_in_use()
            roles: list[str] = [role for role in OFFLINE if self._place(role).exists()]
            for role in roles:
                self._keep(role, None)
            self._forget(before)
        return roles

    def _forget(self, before: set[str]) -> None:
        """Remove the files that no release names any more."""
        for path in before - self._files_in_use():
            (self.folder / "targets" / path).unlink(missing_ok=True)

    def _files_in_use(self) -> set[str]:
        """The files, below `targets`, of the releases in use and of those that wait."""
        waiting = self._pending_targets()
        parts = [self._targets(), *([] if waiting is None else [waiting.signed])]
        return {hashed(path, file.hashes["sha256"]) for part in parts for path, file in part.targets.items()}


def hashed(path: str, sha256: str) -> str:
    """Where a target lies below `targets`: consistent snapshots put its hash before its name."""
    place, slash, name = path.rpartition("/")
    return f"{place}{slash}{sha256}.{name}"
