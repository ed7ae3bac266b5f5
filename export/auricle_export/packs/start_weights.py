"""What training gives a pack: weights to start from and negatives; taken out, put in, carried to another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from auricle.packs.listening import write_negatives
from auricle.packs.manifest import FileEntry, Start
from auricle.packs.pack import Pack
from auricle.packs.voter import without_vote
from auricle.speech.features import Energies


def without_start(pack: Pack) -> Pack:
    """The pack without what training gave it: what `auricle export build` makes, and makes the same every time."""
    own = without_vote(pack.manifest)
    gone = {start.file for start in own.start.values()}
    if own.negatives is not UNSET:
        gone.add(own.negatives.file)
    kept = tuple(entry for entry in own.files if entry.path not in gone)
    manifest = msgspec.structs.replace(own, start={}, listening=UNSET, negatives=UNSET, files=kept)
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


def with_negatives(pack: Pack, stretches: Sequence[tuple[str, Energies]]) -> Pack:
    """The pack with these stretches (kind, energies (frames, mels)) as its negatives, in place of those it had.

    A signature is left out: sign the new pack.

    Raises
    ------
    PackError
        They are more than a pack carries.
    """
    said, content = write_negatives(stretches, pack.manifest.task.frontend.floor)
    before = pack.manifest.negatives
    gone = said.file if before is UNSET else before.file
    files = {path: data for path, data in pack.files.items() if path != gone} | {said.file: content}
    entries = tuple(FileEntry.of(path, data) for path, data in sorted(files.items()))
    return Pack(msgspec.structs.replace(pack.manifest, negatives=said, files=entries), files)
