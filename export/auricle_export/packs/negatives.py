"""A pack's negatives: sound without keywords, for rounds to train on and to be judged by."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from auricle.packs.listening import write_negatives
from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack
from auricle.speech.features import Energies


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
