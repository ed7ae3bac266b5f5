"""Whether a bundle is whole, what it says of itself, and who vouches for it."""

from __future__ import annotations

import hashlib
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from auricle.files import open_kept
from auricle.packs.plain_tar import require_plain
from auricle.wire.bundle import (
    LARGEST_MANIFEST,
    LARGEST_SIGNATURE,
    MANIFEST_FILE,
    SIGNATURE_FILE,
    BundleError,
    Entry,
    Manifest,
    decode,
    decode_signature,
    identity_of,
)


@dataclass(frozen=True)
class Verified:
    """A bundle in which every file is what its manifest says."""

    identity: str
    manifest: Manifest
    signed_by: str | None
    """Public key in hex; None: it is not signed."""


def verify_bundle(path: Path, key: str | None = None) -> Verified:
    """Compare a bundle with its manifest and its signature.

    Parameters
    ----------
    path
        Its tar, or the folder it was unpacked into.
    key
        Public key in hex that must have signed it; None: one without a signature will do, a false one will not.

    Raises
    ------
    BundleError
        It is not whole, holds something else, or nobody who is trusted vouches for it.
    """
    with _open(path) as files:
        text = files.read(MANIFEST_FILE, LARGEST_MANIFEST)
        manifest = decode(text, str(path))
        signed_by = _signer(files, text, key)
        listed = {entry.path: entry for entry in manifest.files}
        strange = sorted(set(files.names) - set(listed) - {MANIFEST_FILE, SIGNATURE_FILE})
        if strange:
            raise BundleError(f"{path} holds {strange[0]}, which its manifest does not list: do not use it.")
        for entry in manifest.files:
            files.compare(entry)
    return Verified(identity_of(text), manifest, signed_by)


class _Files:
    """The files of a bundle, from its tar or its folder."""

    def __init__(self, path: Path, tar: tarfile.TarFile | None) -> None:
        self._path, self._tar = path, tar
        if tar is None:
            found = [each for each in path.rglob("*") if not each.is_dir() or each.is_symlink()]
            self.names = [each.relative_to(path).as_posix() for each in found]
        else:
            self._members = {member.name: member for member in tar}
            self.names = list(self._members)
            if len(self.names) != len(tar.getmembers()):
                raise BundleError(f"{path} holds a file twice: do not use it.")

    def open(self, name: str) -> IO[bytes]:
        """A regular file. BundleError: it is missing, or something else."""
        if self._tar is not None:
            member = self._members.get(name)
            found = self._tar.extractfile(member) if member is not None and member.isreg() else None
        else:
            place = self._path / name
            plain = place.resolve() == self._path.resolve() / name and place.is_file()
            found = open_kept(place) if plain else None
        if found is None:
            raise BundleError(f"{self._path} has no file {name}: copy the bundle again.")
        return found

    def read(self, name: str, largest: int) -> bytes:
        """A small file. BundleError: as `open`, or it is longer."""
        with self.open(name) as file:
            content = file.read(largest + 1)
        if len(content) > largest:
            raise BundleError(f"{name} in {self._path} has more than {largest} bytes: this is not a bundle.")
        return content

    def compare(self, entry: Entry) -> None:
        """BundleError: a file is not the one that the manifest lists."""
        made, left = hashlib.sha256(), entry.size
        with self.open(entry.path) as file:
            while left >= 0 and (block := file.read(1 << 20)):
                left -= len(block)
                made.update(block)
        if left or made.hexdigest() != entry.sha256:
            raise BundleError(f"{entry.path} in {self._path} is not what its manifest says: copy the bundle again.")
        if self._tar is not None and stat.S_IMODE(self._members[entry.path].mode) != entry.mode:
            raise BundleError(f"{entry.path} in {self._path} has another mode than its manifest says.")


@contextmanager
def _open(path: Path) -> Iterator[_Files]:
    try:
        if path.is_dir():
            yield _Files(path, None)
        else:
            with open_kept(path) as file:
                require_plain(file)
                with tarfile.open(fileobj=file, mode="r:") as tar:
                    yield _Files(path, tar)
    except OSError as error:
        raise BundleError(f"{path} cannot be read ({error.strerror or error}).") from error
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise BundleError(f"{path} is neither a bundle nor the folder of one: {error}.") from error


def _signer(files: _Files, manifest: bytes, key: str | None) -> str | None:
    if SIGNATURE_FILE not in files.names:
        if key is not None:
            raise BundleError("This bundle is not signed: build it with --key, or verify it without.")
        return None
    signature = decode_signature(files.read(SIGNATURE_FILE, LARGEST_SIGNATURE), "this bundle")
    if not signature.vouches(manifest):
        raise BundleError("The signature of this bundle is not one over its manifest: do not use it.")
    if key is not None and signature.keyid != key:
        raise BundleError(f"This bundle is signed by {signature.keyid}, which is not the key that was given.")
    return signature.keyid
