"""What decides the result of a run, so that none is made twice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from auricle.files import read_kept
from auricle.speech.corpora import folder_of
from auricle_fleet.settings.check import labelled_folder
from auricle_fleet.settings.fleet_settings import EARLIER_NAMES, FleetSettings
from auricle_fleet.settings.start_from import model_file


def fingerprint(settings: FleetSettings, version: str) -> bytes:
    """What decides the result of a run, as bytes: settings, version, files by name and size, some of them whole.

    Whole are traces, the pack and the model of another run, the last two wherever they lie.
    """
    listed: list[tuple[str, int | bytes]] = []
    for group in settings.groups:
        if group.trace is not None and (trace := Path(group.trace.file)).is_file():
            listed.append((trace.name, hashlib.sha256(read_kept(trace)).digest()))
    for named in (settings.data, labelled_folder(settings.labelled)):
        path = None if named is None else folder_of(named)
        if path is not None and path.exists():
            files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
            listed += [
                (str(each.relative_to(path) if path.is_dir() else each.name), each.stat().st_size) for each in files
            ]
    pack, first = None if settings.pack is None else Path(settings.pack), model_file(settings.start)
    read = {"pack": pack, "start": first}
    whole = {name: content_hash(path) for name, path in read.items() if path is not None and path.exists()}
    before = {name: earlier for earlier, name in EARLIER_NAMES.items()}  # what is kept stays valid
    values = {**msgspec.to_builtins(settings), **whole}
    if not settings.pictures:
        values.pop("pictures")  # runs of a version without them stay valid
    told = {before.get(name, name): value for name, value in values.items()}
    return msgspec.msgpack.encode((version, told, listed))


def content_hash(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files and their names."""
    if not path.is_dir():
        return hashlib.sha256(read_kept(path)).hexdigest()
    files = sorted(each for each in path.rglob("*") if each.is_file())
    inside = [(str(each.relative_to(path)), hashlib.sha256(read_kept(each)).digest()) for each in files]
    return hashlib.sha256(msgspec.msgpack.encode(inside)).hexdigest()
