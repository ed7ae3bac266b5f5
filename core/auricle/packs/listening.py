"""What a pack says of listening: checked against its words, and the negatives it carries read and written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import PackError
from auricle.packs.manifest import SPECIAL_LABELS, Content, Listening, Manifest, Negatives

NEGATIVES_FILE = "negatives/energies.int8"
LARGEST_NEGATIVES = 3 << 20
"""Most bytes of a pack's negatives: about 13 minutes at 40 bands."""
_LEVELS = 255


def check_listening(manifest: Manifest, files: Mapping[str, Content]) -> None:
    """Refuse words that are not the pack's, and negatives of another size than the manifest says.

    Raises
    ------
    PackError
        One of them is wrong; the sentence says which.
    """
    if manifest.listening is not UNSET:
        _check_words(manifest.listening, manifest)
        _check_second_stage(manifest.listening, manifest)
    if manifest.negatives is not UNSET:
        _check_negatives(manifest.negatives, manifest, files)


def _check_second_stage(listening: Listening, manifest: Manifest) -> None:
    model = listening.second_stage
    if model is not UNSET and (model == manifest.plugin or model not in manifest.start):
        raise PackError(
            f"The pack {manifest.name} names {model} as second stage, which is the plug-in or has no trained weights."
        )


def _check_words(listening: Listening, manifest: Manifest) -> None:
    keywords = set(manifest.task.labels) - SPECIAL_LABELS
    for word in (*listening.thresholds, *listening.wake, *listening.commands):
        if word not in keywords:
            raise PackError(f'The pack {manifest.name} listens for "{word}", which is not one of its keywords.')
    if len(set(listening.wake)) != len(listening.wake):
        raise PackError(f"The pack {manifest.name} lists a wake word twice.")
    if listening.wake and not keywords - set(listening.wake):
        raise PackError(f"The pack {manifest.name} has wake words and no command.")


def _check_negatives(negatives: Negatives, manifest: Manifest, files: Mapping[str, Content]) -> None:
    if len(negatives.kinds) != len(negatives.frames):
        raise PackError(f"The negatives of the pack {manifest.name} need one kind for each stretch.")
    size = len(files[negatives.file]) if negatives.file in files else -1
    if size != sum(negatives.frames) * manifest.task.frontend.mels or size > LARGEST_NEGATIVES:
        raise PackError(f"The negatives of the pack {manifest.name} do not have the length that its manifest says.")
    # A value of 127 steps above the offset must stay a finite float32 energy.
    if not (math.isfinite(negatives.offset) and math.isfinite(negatives.step)):
        raise PackError(f"The scale of the negatives of the pack {manifest.name} is not finite.")
    if abs(negatives.offset) + 128 * negatives.step > 80:
        raise PackError(f"The scale of the negatives of the pack {manifest.name} leaves the range of mel energies.")


@dataclass(frozen=True, eq=False)
class Stretch:
    """Sound in a byte a number, of which frames become mel energies when they are taken: a quarter of the memory."""

    numbers: NDArray[np.uint8]
    """(frames, mels)."""
    energies: NDArray[np.float32]
    """(256,) the energy that each number stands for."""

    def __len__(self) -> int:
        """Frames."""
        return len(self.numbers)

    def __getitem__(self, frames: slice) -> NDArray[np.float32]:
        """Mel energies (frames, mels)."""
        taken: NDArray[np.float32] = self.energies[self.numbers[frames]]
        return taken

    def part(self, frames: slice) -> Stretch:
        """Some of its frames."""
        return Stretch(self.numbers[frames], self.energies)


def read_negatives(manifest: Manifest, files: Mapping[str, Content]) -> list[Stretch]:
    """Each stretch of a checked pack; none where it carries no negatives."""
    negatives = manifest.negatives
    if negatives is UNSET:
        return []
    frontend = manifest.task.frontend
    known = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
    energies = np.exp(np.float32(negatives.offset) + np.float32(negatives.step) * known) - np.float32(frontend.floor)
    np.maximum(energies, 0, out=energies)
    numbers = np.frombuffer(files[negatives.file], np.uint8).reshape(-1, frontend.mels)
    return [Stretch(part, energies) for part in np.split(numbers, np.cumsum(negatives.frames)[:-1])]


def write_negatives(stretches: Sequence[tuple[str, NDArray[np.float32]]], floor: float) -> tuple[Negatives, bytes]:
    """Negatives of stretches (kind, energies (frames, mels)), and the content of their file.

    Parameters
    ----------
    stretches
        At least one.
    floor
        The front-end's.

    Raises
    ------
    PackError
        They are larger than `LARGEST_NEGATIVES`.
    """
    logs: NDArray[np.float32] = np.log(np.concatenate([energies for _, energies in stretches]) + np.float32(floor))
    if logs.size > LARGEST_NEGATIVES:
        raise PackError(f"The negatives hold {logs.size} bytes; a pack carries at most {LARGEST_NEGATIVES}.")
    low, high = float(logs.min()), float(logs.max())
    step = max((high - low) / _LEVELS, 1e-6)
    offset = low + 128 * step
    numbers = np.clip(np.rint((logs - offset) / step), -128, 127).astype(np.int8)
    said = Negatives(
        file=NEGATIVES_FILE,
        step=step,
        offset=offset,
        frames=tuple(len(energies) for _, energies in stretches),
        kinds=tuple(kind for kind, _ in stretches),
    )
    return said, numbers.tobytes()
