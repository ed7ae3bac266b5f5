"""Bundles and signed metadata: what a device installs, read by its guard, its agent, the coordinator and `flash`."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.formats import encode_canonical
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]
from tuf.api.metadata import Root

from auricle.errors import AuricleError
from auricle.wire.bundle import DOMAIN, decode, decode_signature
from auricle.wire.identity import Identity
from auricle_cloud.ota.candidate import read_candidate
from auricle_cloud.ota.metadata import read_metadata
from auricle_edge.ota.bundle_upgrade import require_bundle_file
from auricle_edge.ota.fitness import Description
from auricle_edge.ota.records import UpdateLaterError
from auricle_edge.ota.signed_targets import SignedTargets
from auricle_edge.ota.slots.bundle import Bundle, Refused, read_manifest
from auricle_edge.ota.slots.journal import Journal, Last, Place, Trial, read_journal
from auricle_edge.ota.slots.trial import healthy
from auricle_edge.ota.update_server import NotThereError
from auricle_export.flash.bundle.verify import verify_bundle
from tests.core.tars import tar_of
from tests.edge.slots_bundle import FACTS
from tests.edge.update_site import NOW, ROLES, Repository, at
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target
from tests.fuzz.targets.packs import summed
from tests.fuzz.targets.wire import HASH

KEY = Identity(bytes(range(32)))


def manifest() -> bytes:
    """The `bundle.json` of a small bundle."""
    files = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mode": 0o644}
        for path, data in sorted(contents().items())
    ]
    return json.dumps({**FACTS, "version": "1.0", "files": files}).encode()


def contents() -> dict[str, bytes]:
    """The files of a small bundle."""
    unit = b"[Service]\nExecStart=/bin/true\n"
    names = ("slots.py", "pack.tar.zst", "etc/edge.toml", "install")
    return {name: name.encode() for name in names} | {"systemd/auricle-edge.service": unit}


def signature() -> bytes:
    """Who vouches for it."""
    made = {"format": 1, "keyid": KEY.public.hex(), "signature": KEY.sign(DOMAIN + manifest()).hex()}
    return json.dumps(made).encode()


def bundle() -> bytes:
    """All of it as a tar."""
    files = {"bundle.json": manifest(), "bundle.sig": signature(), **contents()}
    return tar_of(*files.items(), form=tarfile.USTAR_FORMAT)


@target(
    "bundle-manifest",
    "auricle_edge.ota.slots.bundle auricle.wire.bundle",
    examples=lambda: {"bundle": manifest()},
    form="json",
    refusals=(Refused, AuricleError),
)
def bundle_manifest(data: bytes) -> object:
    """What a bundle says of itself, as the guard on the device reads it, and `flash`."""
    read = read_manifest(data)
    for entry in read.files:
        assert not entry.path.startswith("/") and ".." not in entry.path.split("/")
    decode(data, "the bundle")
    return len(read.files)


@target("bundle-signature", "auricle.wire.bundle", examples=lambda: {"bundle": signature()}, form="json")
def bundle_signature(data: bytes) -> object:
    """Who vouches for a bundle."""
    return decode_signature(data, "the bundle").vouches(manifest())


@target(
    "bundle",
    "auricle_edge.ota.slots.bundle auricle_export.flash.bundle.verify auricle_edge.ota.bundle_upgrade",
    "auricle_cloud.ota.candidate",
    examples=lambda: {"bundle": bundle()},
    refusals=(Refused, AuricleError),
    mend=summed,
)
def whole_bundle(data: bytes) -> object:
    """A bundle's tar, read by all four that read one: who takes it takes the same files."""
    path = written(data, "bundle.tar")
    said = Description(kind="bundle", identity=hashlib.sha256(manifest()).hexdigest(), version="1.0")
    for read in (lambda: read_candidate(path), lambda: require_bundle_file(path, said, KEY.public)):
        try:
            read()
        except AuricleError:
            """One more reader, in any case."""
    verified = verify_bundle(path)
    opened = Bundle(path)
    try:
        opened.verify()
        assert opened.manifest.identity == verified.identity
    finally:
        opened.close()
    return verified.signed_by


JOURNAL = Journal(
    "a",
    False,
    "b",
    Trial("a", HASH, "boot", 300, 12.5, 1, "r1"),
    Last(HASH, "1.0", "r1", "reverted", "it was not well"),
)


@target(
    "slots-journal",
    "auricle_edge.ota.slots.journal",
    examples=lambda: {"journal": json.dumps({"format": 1, **asdict(JOURNAL)}).encode()},
    form="json",
    refusals=(Refused,),
)
def slots_journal(data: bytes) -> object:
    """What is installed, after a power cut or another program's hand."""
    written(data, "root/opt/auricle/slots.json")
    found = read_journal(Place(scratch() / "root"))
    assert found is None or found.active in ("a", "b")
    return found is None


def _health() -> bytes:
    return json.dumps({"format": 1, "identity": HASH, "healthy": True}).encode()


@target("health", "auricle_edge.ota.slots.trial", examples=lambda: {"well": _health()}, form="json", refusals=())
def health(data: bytes) -> object:
    """What an agent on trial says of itself, to a guard with more rights."""
    written(data, "root/run/auricle/health.json")
    assert JOURNAL.trial is not None
    return healthy(Place(scratch() / "root"), JOURNAL.trial)


@cache
def _repository() -> Repository:
    keys = {role: Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number, role in enumerate(ROLES)}
    made = Repository({role: [CryptoSigner(key)] for role, key in keys.items()})
    made.add("packs/home-2.tar.zst", b"pack", {"kind": "pack", "identity": HASH, "version": "2"})
    return made


class _Offering:
    """Gives what a repository has, with one file changed."""

    url = "https://hub.lan/v1/updates"

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def pieces(self, url: str) -> Iterator[bytes]:
        """A file, in one piece."""
        name = url.removeprefix(f"{self.url}/")
        if name not in self._files:
            raise NotThereError(f"There is no {name}.")
        yield self._files[name]


NAMES = {"timestamp": "timestamp.json", "snapshot": "{}.snapshot.json", "targets": "{}.targets.json"}


def _parts() -> dict[str, bytes]:
    return {role: json.dumps(_repository().parts[role].to_dict()).encode() for role in (*NAMES, "root")}


@target(
    "update-metadata",
    "auricle_edge.ota.signed_targets auricle_edge.ota.fitness",
    examples=_parts,
    form="json",
    refusals=(AuricleError, UpdateLaterError),
    seconds=2.0,
)
def update_metadata(data: bytes) -> object:
    """Signed metadata that says odd things under the right keys: a key may have been stolen."""
    repository, folder = _repository(), scratch() / "tuf"
    shutil.rmtree(folder, ignore_errors=True)
    role, content = _signed(data, repository)
    version = repository.parts[role].version if role in NAMES else 2
    name = NAMES.get(role, "{}.root.json").format(version)
    files = {**repository.files, f"metadata/{name}": content}
    found = SignedTargets(folder, _Offering(files), repository.root, at(NOW))  # type: ignore[arg-type]
    found.all()
    return found.find("packs/home-2.tar.zst").length


def _signed(data: bytes, repository: Repository) -> tuple[str, bytes]:
    """A role, and metadata that its keys have signed where the text can be; as it is where it cannot."""
    try:
        signed: Any = json.loads(data)
        role = str(signed.get("_type"))
        role = role if role in (*NAMES, "root") else "timestamp"
        if role == "root":
            signed["version"] = 2
        signatures = [signer.sign(encode_canonical(signed).encode()) for signer in repository.signers[role]]
        made = {"signatures": [each.to_dict() for each in signatures], "signed": signed}
        return role, json.dumps(made).encode()
    except Exception:  # noqa: BLE001  # whatever the library makes of it: it is then sent without a signature
        return "timestamp", data


@target(
    "countersigned",
    "auricle_cloud.ota.metadata",
    examples=lambda: {"root": _signed(_parts()["root"], _repository())[1]},
    form="json",
)
def countersigned(data: bytes) -> object:
    """A new root that another holder of keys has signed and sent back."""
    return read_metadata(written(data, "root.json"), Root).signed.version
