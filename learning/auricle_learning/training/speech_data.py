"""A device's labelled clips as mel energies, split into a part to train on and a part that is never trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.pack import Pack
from auricle.speech.audio import fit_clip
from auricle.speech.augment import noise_energies
from auricle.speech.clip_folder import ClipFile, scan_folder
from auricle.speech.clip_reader import read_each, read_labelled
from auricle.speech.features import Energies, LogMel
from auricle.speech.sound_faults import Finding, SoundError, SoundFault, nothing_usable
from auricle_learning.training.vector_shelf import VectorShelf


@dataclass(frozen=True, eq=False)
class Clips:
    """Clips of one device."""

    energies: Energies
    """(N, T, mels) mel energies."""
    targets: NDArray[np.int64]
    """(N,) index of the label."""
    weights: NDArray[np.float32] = field(default=None)  # type: ignore[arg-type]
    """(N,) how much each counts beside the others, finite and not negative; 1 each where none are given."""

    def __post_init__(self) -> None:
        """Fill in weights of 1; DataError where energies, targets and weights are not of one length or not sound."""
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.targets), np.float32))
        if not len(self.energies) == len(self.targets) == len(self.weights):
            raise DataError("Clips need as many energies and weights as labels.")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all()):
            raise DataError("The weight of a clip is a finite number, zero or more.")

    def __len__(self) -> int:
        """Count the clips."""
        return len(self.targets)

    def chosen(self, indices: NDArray[np.int64]) -> Clips:
        """Keep the clips at these positions."""
        return Clips(self.energies[indices], self.targets[indices], self.weights[indices])

    def silenced(self) -> Clips:
        """The same without their sound: who trains on them by mistake sees that nothing is a number."""
        nothing = np.broadcast_to(np.float32(np.nan), self.energies.shape)
        return Clips(nothing, self.targets, self.weights)


@dataclass(frozen=True, eq=False)
class DeviceData:
    """What a device learns from and judges itself by."""

    train: Clips
    held_out: Clips
    noise: NDArray[np.float32] | None
    """Mel energies (F, mels) of background noise; None where none was recorded."""
    unlabelled: Clips | None = None
    """Clips whose targets mean nothing: what they teach is what the fleet's model is sure of (FixMatch)."""
    vectors: VectorShelf | None = None
    """Where a frozen network's vectors of the clips are kept; None: in memory alone."""

    def silenced(self) -> DeviceData:
        """How many clips of which labels there are, without their sound: a hundredth of the memory."""
        unlabelled = None if self.unlabelled is None else self.unlabelled.silenced()
        return DeviceData(self.train.silenced(), self.held_out.silenced(), None, unlabelled)


@dataclass(frozen=True)
class DataSource:
    """Where a device's clips come from, when they change while it runs."""

    read: Callable[[], DeviceData]
    """The clips as they are now; called in the training thread."""
    generation: Callable[[], int]
    """A number that grows with every change; cheap."""


def split_held_out(targets: NDArray[np.int64], share: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions to train on and to hold out: about `share` of each label; of each at least one clip stays in training.

    Parameters
    ----------
    targets
        (N,) labels.
    share
        Part to hold out, 0 to 0.5. The counts are rounded down per label; what rounding left over is then held out
        from the labels with most clips, so that the total is close to share * N.
    seed
        The same seed holds out the same clips.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(targets))
    wanted = int(share * len(targets) + 1e-9)
    held: list[int] = []
    by_label = [[int(i) for i in order if targets[i] == label] for label in rng.permutation(np.unique(targets))]
    for of_label in by_label:
        for _ in range(min(int(share * len(of_label) + 1e-9), len(of_label) - 1)):
            held.append(of_label.pop())
    while len(held) < wanted:
        largest = max(by_label, key=len)
        if len(largest) < 2:
            break
        held.append(largest.pop())
    held_out = np.sort(np.array(held, np.int64))
    return np.setdiff1d(np.arange(len(targets)), held_out), held_out


def device_data(
    frontend: LogMel,
    audio: NDArray[Any],
    targets: NDArray[np.int64],
    noise: NDArray[np.float32] | None,
    *,
    held_out: float = 0.2,
    seed: int = 0,
) -> DeviceData:
    """Compute a device's clips from audio (N, samples) and split them."""
    clips = Clips(frontend.energies(audio), targets)
    train, held = split_held_out(targets, held_out, seed)
    return DeviceData(clips.chosen(train), clips.chosen(held), noise)


def load_clips(
    folder: Path, pack: Pack, *, speaker: str | None = None, held_out: float = 0.2, seed: int = 0
) -> tuple[DeviceData, tuple[Finding, ...]]:
    """Read a folder of labelled clips, `<word>/<speaker>_nohash_<n>.(wav|flac)`, for the words of a pack.

    Parameters
    ----------
    folder
        The folder; words that the pack does not know are passed over, `_background_noise_` is the noise.
    pack
        Gives the labels and the front-end.
    speaker
        Only this speaker's clips; all without.
    held_out, seed
        As in `split_held_out`.

    Returns
    -------
    tuple
        The data, and what was found in files that could not be read, or not as they stand.

    Raises
    ------
    DataError
        No such folder, or no readable clip of a known word in it.
    """
    found = scan_folder(folder, phrases=pack.labels)
    known = {label: i for i, label in enumerate(pack.labels)}
    audio, targets, findings = [], [], list(found.findings)
    unknown: list[ClipFile] = []
    for clip in found.clips:
        if speaker is not None and clip.speaker != speaker:
            continue
        if clip.word not in known:
            unknown.append(clip)
            continue
        try:
            recording = read_labelled(clip)
        except SoundError as error:
            findings.append(error.finding)
            continue
        audio.append(fit_clip(recording.samples, pack.manifest.task.clip_samples))
        targets.append(known[clip.word])
        findings += recording.findings
    if not audio:
        if len(findings) > len(found.findings):
            raise DataError(nothing_usable(folder, findings[len(found.findings) :], "clip"))
        whose = f" of speaker {speaker}" if speaker else ""
        raise DataError(
            f"{folder} has no readable clip{whose} of the words of the pack {pack.manifest.name}: "
            "name a pack of the folder's words with --pack."
        )
    frontend = LogMel(pack.manifest.task)
    recordings, of_noise = read_each(found.noise)
    noise = noise_energies(frontend, recordings)
    data = device_data(frontend, np.stack(audio), np.array(targets, np.int64), noise, held_out=held_out, seed=seed)
    said = f"of a word that the pack {pack.manifest.name} does not know: passed over."
    passed_over = [SoundFault.NOT_CHOSEN.finding(f"{clip.path} is {said}") for clip in unknown]
    return data, (*findings, *of_noise, *passed_over)
