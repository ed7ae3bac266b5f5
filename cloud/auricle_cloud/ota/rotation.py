"""Which keys sign: renewal, new keys in place of old ones, k of n keys, and the signatures of other holders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.signer import CryptoSigner, SSlibKey
from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root, Targets

from auricle.errors import DataError, SettingsError, StorageError
from auricle_cloud.ota.keys import (
    key_file,
    load_key,
    make_key,
    next_key,
    offline_keys,
    public_hex,
    put_in_use,
)
from auricle_cloud.ota.metadata import S
from auricle_cloud.ota.pending import PendingMetadata
from auricle_cloud.storage.release_folder import NEXT, OFFLINE, Offline, alone


class Rotation(PendingMetadata):
    """The metadata in a folder, and who signs them."""

    def renew(self, keys: Path) -> list[str]:
        """Sign the metadata again of each offline role whose key is there; their names.

        What waits for signatures is given one more; a restored coordinator's targets are always new.

        Raises
        ------
        StorageError
            There is no key.
        """
        with alone(self.folder):
            done: list[str] = [role for role in OFFLINE if (keys / f"{role}.key").is_file()]
            if not done:
                raise StorageError(f"There is neither root.key nor targets.key in {keys}.")
            if "root" in done:
                waiting, signers = self._pending_root(), offline_keys(keys, "root")
                self._offer(root=self._again(waiting, signers) or self._sign_root(self._root().signed, signers))
            if "targets" in done:
                there, signers = self._pending_targets(), offline_keys(keys, "targets")
                if self._restore_mark.exists():
                    there = None
                self._offer(targets=self._again(there, signers) or self._sign_targets(self._next_targets(), signers))
        return done

    def _again(self, waiting: Metadata[S] | None, signers: Sequence[CryptoSigner]) -> Metadata[S] | None:
        """What waits, with more signatures."""
        if waiting is None:
            return None
        roots = (self._root().signed, self._next_root())
        for signer in self._allowed_signers(waiting.signed.type, signers, *roots):
            waiting.sign(signer, append=True)
        return waiting

    def replace_online_key(self, keys: Path) -> None:
        """Sign snapshot and timestamp with a new key from now on: the old one may be in other hands.

        Until the end devices may find a timestamp that they do not believe; where it was cut off, do it again.
        """
        with alone(self.folder):
            root, signers = self._next_root(), offline_keys(keys, "root")
            (self.folder / NEXT).unlink(missing_ok=True)
            online = make_key(self.folder, "next", online=True)
            for role in ("snapshot", "timestamp"):
                for old in tuple(root.roles[role].keyids):
                    root.revoke_key(old, role)
                root.add_key(online.public_key, role)
            self._offer(root=self._sign_root(root, signers))

    def replace_key(self, role: Offline, keys: Path, root_keys: Path | None = None) -> bool:
        """Sign root or targets with a new key from now on; where it was cut off, do it again.

        Parameters
        ----------
        role
            Whose key.
        keys
            Where the role's key lies; the new one takes its place, the old one stays beside it as `ROLE.old.key`.
        root_keys
            Where `root.key` lies, if elsewhere: it says which keys the roles have.

        Returns
        -------
        bool
            Whether the new key is in use; False: signatures of others are missing, and then this is to be done again.
        """
        with alone(self.folder):
            root, signers = self._next_root(), offline_keys(root_keys or keys, "root")
            new = next_key(keys, role)
            if new.public_key.keyid not in root.roles[role].keyids:
                root.revoke_key(self._key_to_replace(root, role, keys), role)
                root.add_key(new.public_key, role)
                # Devices believe a new root that the old key has signed as well as the new one.
                signed = self._sign_root(root, [*signers, *([new] if role == "root" else [])])
                self._offer_with_targets(signed, [new] if role == "targets" else [])
            else:
                self._offer_with_targets(None, [new] if role == "targets" else [])
            if new.public_key.keyid not in self._root().signed.roles[role].keyids:
                return False
            put_in_use(keys, role)
        return True

    @staticmethod
    def _key_to_replace(root: Root, role: Offline, keys: Path) -> str:
        """The identity of the key that goes."""
        named = root.roles[role].keyids
        if key_file(keys, role).is_file() and (own := load_key(keys, role).public_key.keyid) in named:
            return own
        if len(named) > 1:
            raise SettingsError(
                f"{key_file(keys, role)} is not one of the keys of {role}: say which goes, with auricle cloud releases "
                f"threshold {role} {root.roles[role].threshold} --add NEW --remove OLD."
            )
        return named[0]

    def set_threshold(
        self,
        role: Offline,
        threshold: int,
        keys: Path,
        *,
        add: Sequence[bytes] = (),
        remove: Sequence[str] = (),
        root_keys: Path | None = None,
    ) -> None:
        """Let k of these n keys sign root or targets from the next root on.

        Parameters
        ----------
        role
            Whose.
        threshold
            How many must sign.
        keys
            Holds `targets.key`, and `root.key` where `root_keys` names no other folder.
        add, remove
            Public keys; those to remove by the first digits.

        Raises
        ------
        SettingsError
            A key is not there, or fewer keys are left than must sign.
        """
        with alone(self.folder):
            root = self._next_root()
            for digits in remove:
                found = [k for k in root.roles[role].keyids if public_hex(root.keys[k]).startswith(digits.lower())]
                if len(found) != 1 or not digits:
                    raise SettingsError(f'"{digits}" does not name one key of {role}: see auricle cloud releases keys.')
                root.revoke_key(found[0], role)
            for public in add:
                root.add_key(_key(public), role)
            if not 1 <= threshold <= len(root.roles[role].keyids):
                raise SettingsError(
                    f"{threshold} of {len(root.roles[role].keyids)} keys cannot sign {role}: add keys with --add, or "
                    "name a smaller number."
                )
            root.roles[role].threshold = threshold
            signed = self._sign_root(root, offline_keys(root_keys or keys, "root"))
            self._offer_with_targets(signed, offline_keys(keys, "targets", required=False) if role == "targets" else [])

    def _offer_with_targets(self, root: Metadata[Root] | None, signers: Sequence[CryptoSigner]) -> None:
        """Offer a root, and targets that devices believe by it where those in use are not."""
        believed = (root or self._pending_root() or self._root()).signed
        there = self._read(f"{self._targets().version}.targets.json", Targets)
        if believed.get_verification_result("targets", there.signed_bytes, there.signatures):
            self._offer(root=root)
        else:
            self._offer(root=root, targets=self._sign_targets(self._next_targets(), signers, believed))

    def publish(self, data: bytes | None = None) -> list[str]:
        """Take the signatures of another holder, and publish what has enough; the roles that were published.

        Parameters
        ----------
        data
            What `releases sign` wrote; None: only look again at what waits.

        Raises
        ------
        DataError
            It is not what waits, or a signature in it is not one of a key that may sign.
        """
        with alone(self.folder):
            if data is None:
                return self._offer()
            try:
                given: Metadata[Root] | Metadata[Targets] = Metadata.from_bytes(data)
            except RepositoryError as error:
                raise DataError(f"This is not signed metadata: {error}.") from error
            if isinstance(given.signed, Root):
                return self._offer(root=self._merge(self._pending_root(), given))
            return self._offer(targets=self._merge(self._pending_targets(), given))

    def _merge(self, waiting: Metadata[S] | None, given: Metadata[Root] | Metadata[Targets]) -> Metadata[S]:
        role = given.signed.type
        if waiting is None or waiting.signed_bytes != given.signed_bytes:
            raise DataError(f"This {role} {given.signed.version} is not what waits here: sign what waits.")
        roots = (self._root().signed, self._next_root())
        good = {
            keyid
            for root in roots
            for keyid in root.get_verification_result(role, waiting.signed_bytes, given.signatures).signed
        }
        for keyid, signature in given.signatures.items():
            if keyid not in good:
                raise DataError(f"A signature of this {role} {given.signed.version} is of no key that may sign it.")
            waiting.signatures[keyid] = signature
        return waiting


def _key(public: bytes) -> SSlibKey:
    try:
        return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{public.hex()} is not an Ed25519 public key.") from error
