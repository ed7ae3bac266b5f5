"""A set of labelled clips, all of one length, each with its speaker; and the mel energies of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.manifest import UNKNOWN, WINDOWS
from auricle.speech.audio import CLIP_SAMPLES, SAMPLE_RATE
from auricle.speech.features import Energies, LogMel
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.sound_faults import Finding, count_findings, sentences_of

_PART = 256


def energy_rows(
    frontend: LogMel,
    read: Callable[[NDArray[np.int64]], NDArray[np.int16]],
    clips: NDArray[np.int64],
    *,
    spill: Spill | None = None,
    progress: Progress | None = None,
) -> Energies:
    """Compute the energies of chosen clips, 16 kB a clip of 100 frames and 40 mels.

    They stay float32: at the front-end's floor of 1e-6 float16 has four bits left.

    Parameters
    ----------
    frontend
        Of the task.
    read
        Gives the audio (k, samples) of clips by their places (k,).
    clips
        (n,) places.
    spill
        Where many rows go instead of into memory.
    progress
        Called with the clips done and the clips in all.

    Returns
    -------
    Energies
        (n, frames, mels).

    Raises
    ------
    StorageError
        There is no room where `spill` puts them.
    """
    rows = RowStore(len(clips), (frontend.task.frames, frontend.task.frontend.mels), np.float32, spill)
    for start in range(0, len(clips), _PART):
        part = clips[start : start + _PART]
        rows.put(frontend.energies(read(part)))
        if progress:
            progress(start + len(part), len(clips))
    return rows.finish()


Progress = Callable[[int, int], None]
"""Called with what is done and what there is to do in all."""

FULL_SCALE = 32_768.0
"""The int16 step count of a sample of 1.0."""

CUT_SHARE = 0.02
"""Share of a recording's energy outside its clip from which the clip counts as cut."""

_QUIET = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class SpeechSet:
    """Clips of several speakers, labelled; arrays are read-only."""

    labels: tuple[str, ...]
    """What a target's number stands for."""

    audio: NDArray[np.int16]
    """(clips, samples): mono, 16 kHz; in memory, or mapped from a file when there are many (`row_store`)."""

    targets: NDArray[np.int64]
    """(clips,): places in `labels`."""

    speakers: NDArray[np.int64]
    """(clips,): places in `speaker_names`."""

    speaker_names: tuple[str, ...]
    """The speakers, by the alphabet; each has at least one clip."""

    noise: tuple[NDArray[np.float32], ...] = ()
    """Background recordings, (samples,) each at 16 kHz, of any length."""

    findings: tuple[Finding, ...] = ()
    """What was found in files that could not be used, or not as they stand."""

    other_clips_left_out: int = 0
    """Clips of words not chosen that stand for nothing, since `_unknown_` takes as many as a word has on average."""

    cut: Mapping[str, int] = field(default_factory=dict)
    """By word, clips of which more than `CUT_SHARE` of the recording's energy lies outside."""

    def __post_init__(self) -> None:
        clips = len(self.audio)
        if self.audio.ndim != 2 or self.audio.dtype != np.int16:
            raise ValueError(f"audio must be (clips, samples) int16, not {self.audio.shape} {self.audio.dtype}")
        if self.targets.shape != (clips,) or self.speakers.shape != (clips,):
            raise ValueError(f"{clips} clips need as many targets and speakers")
        for array in (self.audio, self.targets, self.speakers):
            array.setflags(write=False)
        for recording in self.noise:
            recording.setflags(write=False)

    @property
    def skipped(self) -> tuple[str, ...]:
        """What could not be used, each as a sentence that names the file and the reason."""
        return sentences_of(self.findings)

    def __len__(self) -> int:
        """Count the clips."""
        return len(self.audio)

    def clips_per_speaker(self) -> NDArray[np.int64]:
        """Count the clips of every speaker: (speakers,)."""
        return np.bincount(self.speakers, minlength=len(self.speaker_names)).astype(np.int64)

    def clips_per_label(self) -> dict[str, int]:
        """Count the clips of every label."""
        counts = np.bincount(self.targets, minlength=len(self.labels))
        return dict(zip(self.labels, counts.tolist(), strict=True))

    def describe_others(self) -> str:
        """Say how much of the other words `_unknown_` has, as in "_unknown_ has 202 of 1,261 clips of other words".

        Empty where no clip is left out.
        """
        if not self.other_clips_left_out:
            return ""
        used = self.clips_per_label()[UNKNOWN]
        return f"{UNKNOWN} has {used:,} of {used + self.other_clips_left_out:,} clips of other words"

    def describe_cut(self) -> str:
        """Say of how many recordings a clip holds less than all that is said, and what holds more; "" where of none."""
        if not self.cut:
            return ""
        label = max(self.cut, key=lambda name: (self.cut[name], name))
        seconds = self.audio.shape[1] / SAMPLE_RATE
        said = f'{self.cut[label]:,} of {self.clips_per_label()[label]:,} clips of "{label}" are cut to {seconds:g} s'
        return said if seconds >= WINDOWS[1] else f"{said}, the pack's window: build one with a longer --window"


def to_int16(audio: NDArray[np.float32]) -> NDArray[np.int16]:
    """Round samples with full scale at 1 to 16 bits; what came from 16 bits comes back unchanged."""
    return np.asarray(np.clip(np.rint(audio * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1), dtype=np.int16)


def to_float(audio: NDArray[np.int16]) -> NDArray[np.float32]:
    """Give 16-bit samples as float32 with full scale at 1."""
    samples: NDArray[np.float32] = audio.astype(np.float32)
    samples /= np.float32(FULL_SCALE)
    return samples


def build_speech_set(
    labels: tuple[str, ...],
    audio: NDArray[np.int16],
    clip_labels: Sequence[str],
    clip_speakers: Sequence[str],
    *,
    noise: Sequence[NDArray[np.float32]] = (),
    findings: Sequence[Finding] = (),
    other_clips_left_out: int = 0,
    cut: Mapping[str, int] | None = None,
) -> SpeechSet:
    """Number labels and speakers and check that every label has a clip.

    Parameters
    ----------
    labels
        In the order that the model's outputs take.
    audio
        (clips, samples).
    clip_labels, clip_speakers
        One a clip.

    Raises
    ------
    DataError
        A label has no clip.
    """
    place = {label: index for index, label in enumerate(labels)}
    names = tuple(sorted(set(clip_speakers)))
    speaker_place = {name: index for index, name in enumerate(names)}
    missing = set(labels) - set(clip_labels)
    if missing:
        left_out = [row for row in count_findings(findings) if not row.is_used]
        hint = f" ({left_out[0].files:,} files: {left_out[0].reason}; {left_out[0].example})" if left_out else ""
        raise DataError(f'No clip of "{min(missing)}" could be used{hint}: leave it out of --words or add recordings.')
    return SpeechSet(
        labels=labels,
        audio=audio,
        targets=np.array([place[label] for label in clip_labels], dtype=np.int64),
        speakers=np.array([speaker_place[name] for name in clip_speakers], dtype=np.int64),
        speaker_names=names,
        noise=tuple(noise),
        findings=tuple(findings),
        other_clips_left_out=other_clips_left_out,
        cut=dict(cut or {}),
    )


def set_without_sound(
    labels: tuple[str, ...],
    clip_labels: Sequence[str],
    clip_speakers: Sequence[str],
    clip_samples: int = CLIP_SAMPLES,
) -> SpeechSet:
    """A set of which only labels and speakers are known: its clips are silence, and take no memory.

    Raises
    ------
    DataError
        As `build_speech_set`.
    """
    audio = np.broadcast_to(np.zeros(1, np.int16), (len(clip_labels), clip_samples))
    return build_speech_set(labels, audio, clip_labels, clip_speakers)


def mean_word_clips(word_clips: int, words: int) -> int:
    """Give how many clips `_unknown_` and `_silence_` get: as many as a word has on average, at least one."""
    return max(1, round(word_clips / max(1, words)))


def silence_clips(
    noise: Sequence[NDArray[np.float32]], count: int, rng: np.random.Generator, clip_samples: int = CLIP_SAMPLES
) -> NDArray[np.int16]:
    """Make clips in which nobody speaks.

    Each is a random clip of a random background recording, at a gain between 0 and 1 as in Warden 2018, section 5;
    where there is none, it is white noise at about -60 dBFS.

    Returns
    -------
    NDArray[np.int16]
        (count, clip_samples), none of them all zeros.
    """
    long_enough = [recording for recording in noise if len(recording) >= clip_samples]
    clips = np.empty((count, clip_samples), dtype=np.int16)
    for clip in clips:
        quiet = rng.standard_normal(clip_samples, dtype=np.float32) * np.float32(_QUIET)
        if long_enough:
            recording = long_enough[int(rng.integers(len(long_enough)))]
            start = int(rng.integers(len(recording) - clip_samples + 1))
            excerpt = recording[start : start + clip_samples] * np.float32(rng.uniform())
            quiet = excerpt + quiet * np.float32(0.1)
        clip[:] = to_int16(quiet)
    return clips
