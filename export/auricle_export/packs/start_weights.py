"""Trained weights in a pack: taken out, carried from one pack to another."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from auricle.packs.manifest import FileEntry, Start
from auricle.packs.pack import Pack


def without_start(pack: Pack) -> Pack:
    """The pack without what training gave it: what `auricle export build` makes, and makes the same every time."""
    gone = {start.file for start in pack.manifest.start.values()}
    if pack.manifest.negatives is not UNSET:
        gone.add(pack.manifest.negatives.file)
    kept = tuple(entry for entry in pack.manifest.files if entry.path not in gone)
    manifest = msgspec.structs.replace(pack.manifest, start={}, listening=UNSET, negatives=UNSET, files=kept)
    return Pack(manifest, pack.files)


def with_start_of(pack: Pack, other: Pack) -> Pack:
    """The pack with another one's weights to start from: those of models that are the same, for the same words."""
    if pack.labels != other.labels:
        return pack
    same = {
        model: start
        for model, start in other.manifest.start.items()
        if model in pack.tables and pack.tables[model].specs == other.tables[model].specs
    }
    bare = without_start(pack)
    return with_starts(bare, same, {**bare.files, **{start.file: other.files[start.file] for start in same.values()}})


def with_starts(pack: Pack, starts: Mapping[str, Start], files: Mapping[str, bytes]) -> Pack:
    """The pack with these starts and files, the list of files made again."""
    entries = [FileEntry.of(path, data) for path, data in sorted(files.items())]
    return Pack(msgspec.structs.replace(pack.manifest, start=dict(starts), files=tuple(entries)), files)
