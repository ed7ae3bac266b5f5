"""A bundle or pack that is to be released: read with limits and verified before anything is done with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.errors import DataError
from auricle.files import open_kept
from auricle.packs.pack import load_pack
from auricle.packs.plain_tar import members
from auricle.wire.bundle import DOMAIN, MANIFEST_FILE, SIGNATURE_FILE
from auricle.wire.identity import verify
from auricle.wire.kinds import FleetName, Key, Sha256, TargetPath, Token, version_key

Kind = Literal["bundle", "pack"]
LARGEST_MANIFEST = 4 << 20
LARGEST_SIGNATURE = 4096
LARGEST_FILE = 2 << 30
MOST_FILES = 10_000
BLOCK_BYTES = 1 << 20

Word = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]


class BundleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a bundle."""

    path: Annotated[str, Meta(min_length=1, max_length=300)]
    size: Annotated[int, Meta(ge=0, le=LARGEST_FILE)]
    sha256: Sha256


class BundleManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a cloud has to know of a `bundle.json`; the device reads the rest."""

    format: Literal[1]
    name: Literal["auricle"]
    version: Token
    board: Word
    os: Word
    fleet: FleetName
    files: Annotated[list[BundleFile], Meta(max_length=MOST_FILES)]


class BundleSignature(msgspec.Struct, frozen=True, kw_only=True):
    """A `bundle.sig`."""

    keyid: Sha256
    """The signer's public key, in hex: as long as a hash."""
    signature: Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z")]


@dataclass(frozen=True)
class Candidate:
    """What is to be released."""

    file: Path
    kind: Kind
    board: str
    """Empty, as `os` and `fleet`, for a pack: it is for all."""
    os: str
    fleet: str
    version: str
    """Of a bundle; empty for a pack, which gets a number when it is released."""
    identity: str

    @property
    def path(self) -> str:
        """Its name among the targets."""
        if self.kind == "pack":
            return f"pack/{self.identity[:12]}.tar.zst"
        return f"bundle/{self.board}/{self.os}/{self.identity[:12]}.tar"


def read_candidate(file: Path, key: bytes | None = None) -> Candidate:
    """Read and verify a bundle (`.tar`) or a pack (`.tar.zst`).

    Parameters
    ----------
    file
        The archive.
    key
        The public key that must have signed it; None: what holds it together are its own hashes.

    Raises
    ------
    AuricleError
        It is neither, is not whole, or was not signed by the key.
    """
    if not file.is_file():
        raise DataError(f"There is no file {file}: give a bundle's .tar or a pack's .tar.zst.")
    if file.name.endswith(".tar.zst"):
        pack = load_pack(file, None if key is None else [key])
        return Candidate(file, "pack", "", "", "", "", pack.identity)
    try:
        manifest, data = _read_bundle(file, key)
    except (EOFError, ValueError, RecursionError) as error:
        raise DataError(f"{file} is not a bundle, or is damaged: {error}.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}).") from error
    version_key(manifest.version)
    identity = hashlib.sha256(data).hexdigest()
    candidate = Candidate(file, "bundle", manifest.board, manifest.os, manifest.fleet, manifest.version, identity)
    msgspec.convert(candidate.path, TargetPath)
    return candidate


def newest(candidates: Iterable[Candidate]) -> list[Candidate]:
    """All packs, and for each board and system the bundle of the highest version, the latest of equals."""
    chosen: dict[str, Candidate] = {}
    for each in candidates:
        slot = each.path if each.kind == "pack" else f"{each.board}/{each.os}"
        if slot not in chosen or _age(chosen[slot]) < _age(each):
            chosen[slot] = each
    return list(chosen.values())


def _age(candidate: Candidate) -> tuple[Key, float]:
    return version_key(candidate.version or "0"), candidate.file.stat().st_mtime


def _read_bundle(file: Path, key: bytes | None) -> tuple[BundleManifest, bytes]:
    """The manifest and its bytes, once every file is what it says."""
    data = signature = None
    found: dict[str, tuple[int, str]] = {}
    with open_kept(file) as archive:
        for member, content in members(archive, MOST_FILES):
            if member.name in found or member.size > LARGEST_FILE:
                raise ValueError(f"{member.name!r} belongs into no bundle")
            if member.name == MANIFEST_FILE:
                data = _small(content, member.size, LARGEST_MANIFEST, MANIFEST_FILE)
            elif member.name == SIGNATURE_FILE:
                signature = _small(content, member.size, LARGEST_SIGNATURE, SIGNATURE_FILE)
            else:
                found[member.name] = (member.size, _hash(content))
    if data is None:
        raise ValueError(f"it has no {MANIFEST_FILE}")
    manifest = msgspec.json.decode(data, type=BundleManifest)
    if {entry.path: (entry.size, entry.sha256) for entry in manifest.files} != found:
        raise ValueError(f"its files are not those that {MANIFEST_FILE} names")
    _require_signature(data, signature, key, file)
    return manifest, data


def _small(content: Iterator[bytes], size: int, most: int, name: str) -> bytes:
    if size > most:
        raise ValueError(f"{name} has more than {most} bytes")
    return b"".join(content)


def _hash(content: Iterator[bytes]) -> str:
    sha256 = hashlib.sha256()
    for block in content:
        sha256.update(block)
    return sha256.hexdigest()


def _require_signature(data: bytes, signature: bytes | None, key: bytes | None, file: Path) -> None:
    """A signature that is there has to be good; with a key it has to be there, and of that key."""
    if signature is None:
        if key is not None:
            raise DataError(f"{file} is not signed: sign it, or leave out --key.")
        return
    given = msgspec.json.decode(signature, type=BundleSignature)
    if not verify(bytes.fromhex(given.keyid), bytes.fromhex(given.signature), DOMAIN + data):
        raise DataError(f"The signature of {file} is not one over its manifest: do not use it.")
    if key is not None and given.keyid != key.hex():
        raise DataError(f"{file} was not signed by {key.hex()[:12]}, but by {given.keyid[:12]}.")
