"""What the listening bench plays: words of one speaker over background noise, and sound without keywords."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.speech.audio import ClipFile, ClipFolder, read_audio, scan_folder

RATE = 16_000
SPEECH_DBFS = -26.0
"""Loudness of speech: root mean square of the loudest half second."""
NOISE_SECONDS = 15
"""A background lasts so long before the next one."""

FEW = 20
"""Clips below which `auricle fleet run` makes no device of a speaker."""

Sound = NDArray[np.float32]


@dataclass(frozen=True)
class Spoken:
    """A word in a scene."""

    word: str
    start: int
    """First sample of the word itself, not of its clip."""
    end: int


@dataclass(frozen=True)
class Part:
    """A stretch of a scene that holds no keyword."""

    kind: str
    """`words` (other ones, one by one), `speech` (running) or `noise`."""
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Scene:
    """Sound, and what is in it."""

    samples: NDArray[np.int16]
    words: tuple[Spoken, ...] = ()
    """The keywords."""
    parts: tuple[Part, ...] = ()
    """Where there is none."""


def words_scene(
    clips: Sequence[ClipFile], noise: Sequence[Sound], rng: np.random.Generator, snr: tuple[float, float],
    pauses: tuple[float, float] = (1.0, 2.5),
) -> Scene:  # fmt: skip
    """Every clip once, in random order, with pauses of so many seconds, in noise."""
    parts: list[Sound] = []
    words: list[Spoken] = []
    place = 0
    for index in rng.permutation(len(clips)):
        pause = np.zeros(int(rng.uniform(*pauses) * RATE), np.float32)
        clip = _loud(read_audio(clips[index].path), rng)
        begin, end = _spoken(clip)
        place += len(pause)
        words.append(Spoken(clips[index].word, place + begin, place + end))
        parts += [pause, clip]
        place += len(clip)
    parts.append(np.zeros(2 * RATE, np.float32))
    speech = np.concatenate(parts)
    return Scene(_mixed(speech, noise, rng, snr), words=tuple(words))


def other_scene(
    words: Sequence[Path], speech: Sequence[Path], noise: Sequence[Sound], rng: np.random.Generator,
    snr: tuple[float, float], seconds: float,
) -> Scene:  # fmt: skip
    """Sound without keywords: running speech and other words in noise, then every noise alone.

    Parameters
    ----------
    words, speech
        Recordings of single words and of running speech, each used once at most, 0.3 to 1.5 s apart.
    noise
        Recordings of background noise.
    rng
        Draws what, in which order and how loud.
    snr
        Least and greatest signal-to-noise ratio in dB.
    seconds
        Length of the words; the running speech is used whole.
    """
    alone = np.concatenate(list(noise))
    said = _in_turn([speech[i] for i in rng.permutation(len(speech))], rng, np.inf)
    single = _in_turn([words[i] for i in rng.permutation(len(words))], rng, seconds)
    sounds = {
        "speech": _mixed(said, noise, rng, snr), "words": _mixed(single, noise, rng, snr),
        "noise": _pcm(alone * _gain(alone, SPEECH_DBFS - 5)),
    }  # fmt: skip
    ends = np.cumsum([len(sound) for sound in sounds.values()])
    parts = [Part(kind, int(end) - len(sounds[kind]), int(end)) for kind, end in zip(sounds, ends, strict=True)]
    return Scene(np.concatenate(list(sounds.values())), parts=tuple(parts))


def _in_turn(paths: Sequence[Path], rng: np.random.Generator, seconds: float) -> Sound:
    sounds: list[Sound] = [np.zeros(RATE, np.float32)]
    length = 0
    for path in paths:
        if length >= seconds * RATE:
            break
        sounds += [_loud(read_audio(path), rng), np.zeros(int(rng.uniform(0.3, 1.5) * RATE), np.float32)]
        length += len(sounds[-2]) + len(sounds[-1])
    return np.concatenate(sounds)


def speakers(folder: ClipFolder, words: Sequence[str], least: int) -> list[str]:
    """Speakers with at least so many clips of these words, those with most first."""
    counts = Counter(clip.speaker for clip in folder.clips if clip.word in words)
    return sorted((s for s, n in counts.items() if n >= least), key=lambda s: (-counts[s], s))


def other_words(data: Path, keywords: Sequence[str]) -> list[Path]:
    """Recordings of single words that are no keywords, of speakers who say too little to be a device of a fleet.

    Parameters
    ----------
    data
        The folder with `gsc` and, where they are there, `arabic` and `fsdd`.
    keywords
        The pack's.
    """
    clips = scan_folder(data / "gsc").clips
    counts = Counter(clip.speaker for clip in clips)
    paths = [clip.path for clip in clips if clip.word not in keywords and counts[clip.speaker] < FEW]
    for name in ("arabic", "fsdd"):
        if (data / name).is_dir():
            paths += [clip.path for clip in scan_folder(data / name).clips if clip.word not in keywords]
    return paths


def running_speech(data: Path) -> list[Path]:
    """Readings from books. A keyword in them, heard rightly, counts as a false accept: nobody meant the device."""
    return sorted((data / "stream" / "speech").glob("*.flac"))


def _spoken(clip: Sound) -> tuple[int, int]:
    """First and last sample of the word in a clean clip: between them lie 98 % of the energy."""
    energy = np.cumsum(np.square(clip, dtype=np.float64))
    first, last = np.searchsorted(energy, (0.01 * energy[-1], 0.99 * energy[-1]))
    return int(first), int(last)


def _gain(sound: Sound, dbfs: float) -> np.float32:
    """What brings the loudest half second of a recording to a level."""
    half = RATE // 2
    whole = sound[: max(1, len(sound) // half) * half]
    loudest = max(float(np.mean(np.square(part))) for part in np.array_split(whole, max(1, len(whole) // half)))
    return np.float32(10 ** (dbfs / 20) / max(np.sqrt(loudest), 1e-6))


def _loud(sound: Sound, rng: np.random.Generator) -> Sound:
    return sound * _gain(sound, SPEECH_DBFS + rng.uniform(-4, 4))


def _mixed(
    speech: Sound, noise: Sequence[Sound], rng: np.random.Generator, snr: tuple[float, float]
) -> NDArray[np.int16]:
    length = NOISE_SECONDS * RATE
    mixed = speech.copy()
    for start in range(0, len(speech), length):
        recording = noise[rng.integers(len(noise))]
        turned = np.roll(recording, -int(rng.integers(len(recording))))
        bed = np.resize(turned, min(length, len(speech) - start))
        mixed[start : start + len(bed)] += bed * _gain(bed, SPEECH_DBFS - rng.uniform(*snr))
    return _pcm(mixed)


def _pcm(sound: Sound) -> NDArray[np.int16]:
    return np.clip(np.rint(sound * 32767), -32768, 32767).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Sound in which nobody means the device."""

    words: Sequence[Path]
    """Single words that are no keywords."""
    speech: Sequence[Path]
    """Running speech."""
    noise: Sequence[Sound]


def surroundings(data: Path, keywords: Sequence[str]) -> tuple[Surroundings, Surroundings]:
    """Two of them without a speaker, a reader or a noise in common: what devices hear, and what they are judged by."""
    folder = scan_folder(data / "gsc")
    halves = [
        (paths[0], paths[1]) for paths in (
            _halves(other_words(data, keywords)), _halves(running_speech(data)),
        )
    ]  # fmt: skip
    noise = [read_audio(path) for path in folder.noise]
    return tuple(Surroundings(halves[0][i], halves[1][i], noise[i::2]) for i in (0, 1))  # type: ignore[return-value]


def _halves(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Paths by whether their speaker (before the name's first `_` or `-`) is an odd or an even one."""
    of = [path.name.replace("-", "_").split("_")[0] for path in paths]
    even = set(sorted(set(of))[::2])
    return [p for p, s in zip(paths, of, strict=True) if s in even], [
        p for p, s in zip(paths, of, strict=True) if s not in even]  # fmt: skip


def in_room(clip: ClipFile, rng: np.random.Generator) -> NDArray[np.int16]:
    """A clip with a quiet second before and after it."""
    return _pcm(np.pad(_loud(read_audio(clip.path), rng), RATE))
