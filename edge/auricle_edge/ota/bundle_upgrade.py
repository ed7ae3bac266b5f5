"""Root's part of an update: fetch the bundle, read it, see that it is for this device, hand it to the slots."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.files import open_kept, read_kept
from auricle.packs.plain_tar import NotPlainError, require_plain
from auricle.wire.bundle import DOMAIN, SIGNATURE_FILE
from auricle.wire.identity import verify
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.board.trusted_time import time_here
from auricle_edge.ota.download import download
from auricle_edge.ota.fitness import Description, require_bundle, require_named, version_order
from auricle_edge.ota.installation import (
    ANSWER,
    BUNDLE,
    LARGEST_BUNDLE_FILE,
    Installation,
    Installed,
    SlotOutcome,
    bundle_facts,
    outcome_reason,
)
from auricle_edge.ota.records import Answer, UpdateLaterError, UpdateRefusedError, Wanted, write_record
from auricle_edge.ota.signed_targets import SignedTarget, SignedTargets, alone
from auricle_edge.ota.update_server import UpdateServer, server_of
from auricle_edge.settings import PATIENCE_FACTOR, EdgeSettings


class BundleSignature(msgspec.Struct, frozen=True):
    """A `bundle.sig`."""

    signature: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{128}\Z")]


def require_bundle_file(archive: Path, signed: Description, key: bytes | None) -> None:
    """See that a bundle is what the metadata says of it, and signed where a key is set.

    Parameters
    ----------
    archive
        The `.tar`.
    signed
        What the metadata says.
    key
        32 bytes; None: the signatures of the metadata will do.

    Raises
    ------
    UpdateRefusedError
        It is not.
    """
    try:
        with open_kept(archive) as file:
            require_plain(file)
            with tarfile.open(fileobj=file, mode="r:") as tar:
                manifest = _content(tar, BUNDLE)
                signature = None if key is None else _content(tar, SIGNATURE_FILE)
        facts = bundle_facts(manifest, "What came")
    except (tarfile.TarError, NotPlainError, KeyError, EOFError) as error:
        raise UpdateRefusedError(f"What came is not a bundle ({error}).") from error
    if hashlib.sha256(manifest).hexdigest() != signed.identity:
        raise UpdateRefusedError(f"What came is not the bundle {signed.identity[:12]} that was signed.")
    said = (signed.version, signed.board, signed.os, signed.fleet)
    if (facts.version, facts.board, facts.os, facts.fleet) != said:
        raise UpdateRefusedError("The bundle says another version, board, system or fleet of itself than the metadata.")
    if key is not None and not _vouches(signature or b"", key, manifest):
        raise UpdateRefusedError("The bundle is not signed by the key that this device was given.")


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    member = tar.getmember(name)
    file = tar.extractfile(member) if member.isreg() and member.size <= LARGEST_BUNDLE_FILE else None
    if file is None:
        raise UpdateRefusedError(f"{name} of the bundle is not a regular file of the right size.")
    return file.read()


def _vouches(signature: bytes, key: bytes, manifest: bytes) -> bool:
    try:
        decoded = msgspec.json.decode(signature, type=BundleSignature)
    except UNDECODABLE:
        return False
    return verify(key, bytes.fromhex(decoded.signature), DOMAIN + manifest)


UNPACKED_FACTOR = 4.0
"""How many times its size a bundle needs beside it: as a slot, and while it is unpacked."""
REFUSED_CODE = 2
"""Exit code of the slots' guard for what it will never do; 1 is for a disk or system that did not let it."""
NOTHING_NEWER = "There is no newer bundle for this device."


class BundleUpgrade:
    """Brings this device to another bundle.

    Parameters
    ----------
    settings
        The device's.
    root
        Everything lies below it, for tests; None: `/`.
    say
        Told in sentences how it goes on.
    """

    def __init__(self, settings: EdgeSettings, root: Path | None, say: Callable[[str], None]) -> None:
        self._settings, self._root, self._say = settings, root, say
        self._installation = Installation(None if root is None else root / "opt/auricle")

    def run(self, wanted: Wanted) -> Answer:
        """Do what can be done now, and write down for the agent what came of it.

        Raises
        ------
        StorageError
            The answer cannot be written.
        """
        place = self._installation.place / ANSWER
        write_record(place, wanted.answer("fetching"))
        answer = wanted.tried(lambda: self._answer(wanted))
        write_record(place, answer)
        return answer

    def _answer(self, wanted: Wanted) -> Answer:
        with alone(self._installation.place / "tuf"):
            staged = self._upgrade(wanted)
        return wanted.answer("staged") if staged else wanted.answer("idle", NOTHING_NEWER)

    def _upgrade(self, wanted: Wanted) -> bool:
        runs = self._installation.running()
        if runs is None:
            raise UpdateRefusedError(f"{self._installation.place} holds no bundle: this agent came another way.")
        if self._installation.journal.trial is not None:
            raise UpdateLaterError("Another bundle is on trial.")
        last, asked = self._installation.journal.last, (wanted.rollout, wanted.identity)
        # After a power cut the note of what was just given back may still lie there.
        if last is not None and last.outcome != "confirmed" and (last.rollout, last.identity) == asked:
            raise UpdateRefusedError(f"It was tried already: {outcome_reason(last)}")
        server = server_of(self._settings.updates.url, self._state)
        place = self._installation.place / "tuf"
        now = time_here(place, runs.slot / "bundle.json")
        targets = SignedTargets(place / "metadata", server, first_root(self._settings.updates.root, runs), now)
        target = newest_bundle(targets, runs, last) if wanted.path is None else targets.find(wanted.path)
        if target is None:
            return False
        require_named(target.description, "bundle", wanted.identity)
        require_bundle(target.description, runs.facts, runs.identity)
        self._install(target, server, wanted)
        return True

    @property
    def _state(self) -> Path:
        folder = self._settings.folder
        return folder if self._root is None else self._root / folder.relative_to(folder.anchor)

    def _install(self, target: SignedTarget, server: UpdateServer, wanted: Wanted) -> None:
        folder = self._installation.place / "download"
        self._say(f"Fetching {target.path}, {target.length} bytes.")
        archive = download(target, server, folder, unpacked=UNPACKED_FACTOR, progress=_Tenths(self._say))
        key = self._settings.updates.bundle_key
        require_bundle_file(archive, target.description, None if key is None else bytes.fromhex(key))
        self._say(f"Installing {target.description.version} into the other slot.")
        self._slots("stage", str(archive), "--identity", target.description.identity)
        archive.unlink()
        deadline = round(PATIENCE_FACTOR * self._settings.updates.health_seconds)
        self._slots("try", f"--rollout={wanted.rollout}", f"--deadline={deadline}")
        self._say(f"{target.description.version} is on trial.")

    def _slots(self, *arguments: str) -> None:
        """Run the guard of the slots, with the system's Python; its refusal is ours."""
        below = [] if self._root is None else ["--root", str(self._root)]
        command = [_system_python(), "-I", str(self._installation.place / "slots.py"), *arguments, *below]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            kind = UpdateRefusedError if done.returncode == REFUSED_CODE else UpdateLaterError
            raise kind(said[-1] if said else f"slots.py {arguments[0]} ended with {done.returncode}.")


class _Tenths:
    """Says every tenth of a download."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, 0

    def __call__(self, come: int, length: int) -> None:
        tenth = 10 * come // max(length, 1)
        if tenth > self._said:
            self._said = tenth
            self._say(f"{come} of {length} bytes.")


def newest_bundle(targets: SignedTargets, runs: Installed, last: SlotOutcome | None) -> SignedTarget | None:
    """The newest bundle that is for this device, and did not fail on it the last time; None: there is none.

    Parameters
    ----------
    targets
        What is on offer.
    runs
        The installed bundle.
    last
        What the newest trial came to.
    """
    failed = None if last is None or last.outcome == "confirmed" else last.identity
    fitting = []
    for target in targets.all():
        try:
            require_named(target.description, "bundle", None)
            require_bundle(target.description, runs.facts, runs.identity)
        except UpdateRefusedError:
            continue
        if target.description.identity != failed:
            fitting.append(target)
    return max(fitting, key=lambda target: version_order(target.description.version or "0"), default=None)


def first_root(named: str | None, runs: Installed | None) -> bytes:
    """The first signed root: of the settings, or of the installed bundle. UpdateRefusedError: there is none."""
    if named is None and runs is None:
        raise UpdateRefusedError("This device was given no root to check updates with: set root in [updates].")
    path = runs.slot / "tuf/root.json" if named is None and runs is not None else Path(named or "")
    try:
        return read_kept(path)
    except OSError as error:
        raise UpdateRefusedError(
            f"This device was given no root to check updates with ({path}: {error.strerror})."
        ) from error


def _system_python() -> str:
    """The interpreter that the slot's environment was made from: the slot may be emptied, this one stays."""
    own = Path(sys.executable)
    below = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(below if below.exists() else own)
