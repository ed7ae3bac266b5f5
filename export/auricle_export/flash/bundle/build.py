"""From a board and a fleet to a bundle: `auricle-VERSION-BOARD-OS-IDENTITY.tar`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.errors import SettingsError
from auricle.wire.bundle import MANIFEST_FILE, SIGNATURE_FILE, Manifest, encode, identity_of, sign
from auricle.wire.identity import Identity
from auricle_export.flash.board import Board
from auricle_export.flash.bundle.archive import Part, replace_file, write_tar
from auricle_export.flash.bundle.contents import Contents, contents_of, refuse_containers
from auricle_export.flash.bundle.locks import Target
from auricle_export.flash.bundle.wheelhouse import Progress, silent, wheelhouse
from auricle_export.flash.fleet import Fleet


@dataclass(frozen=True)
class Built:
    """A bundle that was written."""

    path: Path
    identity: str
    manifest: Manifest
    signed_by: str | None
    """Public key in hex."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


def build_bundle(
    board: Board,
    fleet: Fleet,
    out: Path,
    *,
    os: str | None = None,
    key: Path | None = None,
    wheels: Path | None = None,
    progress: Progress = silent,
) -> Built:
    """Write a bundle; the same parameters give the same bytes.

    Parameters
    ----------
    board, fleet
        As `load_board` and `load_fleet` read them.
    out
        Folder that it goes to.
    os
        Id of one of the board's systems; None: the first.
    key
        File of the Ed25519 key that signs, drawn when it is not there; None: it is not signed.
    wheels
        Folder for wheels, with a folder in it for each machine and Python; what is missing there is fetched. None: the
        one in the user's cache.

    Raises
    ------
    AuricleError
        What cannot be had or written, in one sentence.
    """
    system = board.system(os)
    refuse_containers(board, system)
    contents = contents_of(board, system, fleet, wheelhouse(Target.of(system), wheels), progress)
    text = encode(contents.manifest)
    identity = identity_of(text)
    signer = None if key is None else Identity.load_or_create(key)
    refuse_untrusted(fleet, signer)
    parts = {**contents.parts, MANIFEST_FILE: Part(text)}
    if signer is not None:
        parts[SIGNATURE_FILE] = Part(sign(signer, text))
    path = out / f"{name_of(contents, identity)}.tar"
    progress("writing the bundle", 0, 1)
    with replace_file(path) as file:
        write_tar(file, parts)
    return Built(path, identity, contents.manifest, None if signer is None else signer.public.hex())


def refuse_untrusted(fleet: Fleet, signer: Identity | None) -> None:
    """SettingsError: the fleet's devices take only bundles with a signature that this one would not have."""
    trusted = fleet.device.settings.get("updates", {}).get("bundle_key")
    if trusted is not None and (signer is None or signer.public.hex() != trusted):
        raise SettingsError(
            f"The devices of {fleet.name} take bundles signed by {trusted} only: give its file with --key."
        )


def name_of(contents: Contents, identity: str) -> str:
    """What the files of a bundle are called, without an ending."""
    manifest = contents.manifest
    return f"auricle-{manifest.version}-{manifest.board}-{manifest.os}-{identity[:12]}"
