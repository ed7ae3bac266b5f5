"""A pack's negatives: sound without keywords, made from recordings, for rounds to train on and to be judged by."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.listening import LARGEST_NEGATIVES, write_negatives
from auricle.packs.manifest import FileEntry, Task
from auricle.packs.pack import Pack
from auricle.speech.features import Energies, stream_energies

Recording = tuple[str, NDArray[np.int16]]
"""A stretch's kind (`speech`, `words`, `noise`, ...) and its samples (S,) at the task's rate."""


def energies_of(task: Task, recordings: Sequence[Recording]) -> list[tuple[str, Energies]]:
    """Stretches as a pack carries them: the kind and the mel energies (frames, mels) of each recording.

    Raises
    ------
    PackError
        There are none, one is shorter than a clip, so that nothing in it would be judged, or together they are longer
        than a pack can carry.
    """
    frames = [len(samples) // task.frontend.hop for _, samples in recordings]
    for (kind, _), count in zip(recordings, frames, strict=True):
        if count < task.frames:
            raise PackError(f'A stretch of negatives ("{kind}") is shorter than a clip: join short recordings.')
    if not recordings or sum(frames) * task.frontend.mels > LARGEST_NEGATIVES:
        most = LARGEST_NEGATIVES // task.frontend.mels * task.frontend.hop / task.sample_rate / 60
        raise PackError(f"A pack's negatives are one recording or more of at most {most:.1f} minutes together.")
    return [(kind, stream_energies(task, samples)) for kind, samples in recordings]


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
