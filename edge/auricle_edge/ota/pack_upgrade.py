"""Fetches a pack and puts it on trial: `python -m auricle_edge.ota.pack_upgrade` with a `PackJob` on its input.

A process of its own, so that the client of the signed metadata, and a pack that crashes what tries it, cost the device
that listens no memory and no life.
"""

from __future__ import annotations

import sys

import msgspec

from auricle.errors import PackError
from auricle.packs.pack import load_pack
from auricle.packs.signature import read_trusted_key
from auricle_edge.board.memory import be_small
from auricle_edge.board.priority import yield_to_detection
from auricle_edge.board.trusted_time import time_here
from auricle_edge.ota.bundle_upgrade import first_root
from auricle_edge.ota.download import download
from auricle_edge.ota.fitness import require_named, require_pack
from auricle_edge.ota.installation import BUNDLE, Installation
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.ota.pack_trial import Trials
from auricle_edge.ota.records import FOLDER, Answer, UpdateRefusedError, Wanted
from auricle_edge.ota.signed_targets import SignedTargets, alone
from auricle_edge.ota.update_server import server_of
from auricle_edge.settings import EdgeSettings
from auricle_edge.training.own_model import own_model


class PackJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    settings: EdgeSettings
    wanted: Wanted


def fetch_pack(job: PackJob) -> None:
    """Bring the pack that is wanted onto the shelf, on trial.

    Raises
    ------
    UpdateRefusedError
        It is not in order, or not for this device; what runs goes on.
    UpdateLaterError
        It cannot be had now.
    StorageError
        The disk cannot take it.
    """
    settings, wanted = job.settings, job.wanted
    assert wanted.path is not None
    assert wanted.identity is not None
    folder, installed = settings.folder / FOLDER, Installation().running()
    root = settings.updates.root
    server = server_of(settings.updates.url, settings.folder)
    now = time_here(folder / "tuf", None if installed is None else installed.slot / BUNDLE)
    target = SignedTargets(folder / "tuf/metadata", server, first_root(root, installed), now).find(wanted.path)
    require_named(target.description, "pack", wanted.identity)
    shelf = PackShelf(settings.folder, settings.pack, read_trusted_key(settings.pack_key))
    trials = Trials(settings.folder, shelf)
    require_pack(target.description, settings.fleet, None if installed is None else installed.facts, trials.kept)
    fetched = download(target, server, folder / "download")
    try:
        pack = load_pack(fetched, read_trusted_key(settings.pack_key))
        if pack.identity != wanted.identity:
            raise UpdateRefusedError(f"What came is the pack {pack.identity[:12]}, not {wanted.identity[:12]}.")
        own_model(pack, settings.local, settings.start)
        trials.install(fetched, wanted.identity, target.description.version or "")
    except PackError as error:
        raise UpdateRefusedError(str(error)) from error
    fetched.unlink()


def main() -> int:
    """Do it and say on standard output what came of it."""
    be_small()
    yield_to_detection()
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=PackJob)
    sys.stdout.buffer.write(msgspec.json.encode(job.wanted.tried(lambda: _answer(job))))
    return 0


def _answer(job: PackJob) -> Answer:
    with alone(job.settings.folder / FOLDER / "tuf"):
        fetch_pack(job)
    return job.wanted.answer("staged")


if __name__ == "__main__":
    sys.exit(main())
