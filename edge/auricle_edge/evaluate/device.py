"""What a device does with scenes: the detector itself, with its gate and states, and what became of each wake word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.command_counts import CommandCounts, command_counts, counts_over_speech, wakes_heard
from auricle.hearing.origins import Origins, Recordings
from auricle.hearing.scenes import Scene
from auricle.hearing.waking import Heard
from auricle.speech.audio import SAMPLE_RATE
from auricle.speech.features import LogMel
from auricle_edge.evaluate.clips import Share
from auricle_edge.evaluate.levels import shares_around
from auricle_edge.evaluate.report import DeviceEvents, Events, recordings_of
from auricle_edge.listening.detect import Detector, DetectSettings, Recognise
from auricle_edge.listening.detect.vote import Voter
from auricle_edge.listening.sound import RATE, Block


def hear_by_detector(
    samples: NDArray[np.int16],
    frontend: LogMel,
    labels: Sequence[str],
    recognise: Recognise,
    settings: DetectSettings,
    vote: Voter | None = None,
) -> list[Heard]:
    """Every wake word and command that a detector hears in a recording (S,) at 16 kHz, at the hop that decided it.

    Raises
    ------
    SettingsError
        As of `Detector`.
    """
    detector, hop = Detector(frontend, labels, recognise, settings, vote=vote), round(settings.hop * RATE)
    return [
        Heard(found.word, start + hop, command=found.kind == "detection")
        for start in range(0, len(samples) - hop + 1, hop)
        for found in detector.feed(Block(samples[start : start + hop], start, 0.0))
    ]


def device_events(
    scenes: Sequence[Scene],
    found: Sequence[Sequence[Heard]],
    wake: Sequence[str],
    window: float,
    clear: Collection[str] = (),
) -> DeviceEvents:
    """Judge what was heard in each scene, by kind.

    Parameters
    ----------
    window
        Seconds in which commands count after a wake word.
    clear
        Fingerprints of the recordings that are named rightly alone.
    """
    said = [each for scene, heard in zip(scenes, found, strict=True) for each in wakes_heard(scene, heard, wake)]
    pairs = list(zip(scenes, found, strict=True))
    counts = [command_counts(scene, heard, window, clear) for scene, heard in pairs]
    over = [counts_over_speech(scene, heard, window, clear) for scene, heard in pairs]
    wakes, commands = ([[h for h in heard if h.command == kind] for heard in found] for kind in (False, True))
    return DeviceEvents(
        _shares((word.kind, heard) for word, heard in said),
        _shares((word.word, heard) for word, heard in said),
        sum(counts, start=CommandCounts()),
        _false(scenes, wakes),
        _false(scenes, commands),
        sum(over, start=CommandCounts()),
        _recordings(scenes, wakes),
        _recordings(scenes, commands),
        shares_around(said),
    )


def _recordings(scenes: Sequence[Scene], found: Sequence[Sequence[Heard]]) -> dict[str, Recordings]:
    origins = Origins()
    for scene, heard in zip(scenes, found, strict=True):
        origins.hear(scene)
        for part in scene.stretches:
            decided = np.array([h.decided for h in heard if part.start <= h.decided < part.end], np.int64)
            origins.add(scene, part, decided, np.zeros(len(decided), np.int64), 1)
    return recordings_of(origins)


def _shares(heard: Iterable[tuple[str, bool]]) -> dict[str, Share]:
    made: dict[str, Share] = {}
    for name, right in heard:
        before = made.get(name, Share(0, 0))
        made[name] = Share(before.right + right, before.of + 1)
    return made


def _false(scenes: Sequence[Scene], found: Sequence[Sequence[Heard]]) -> Mapping[str, Events]:
    """Whatever was decided in sound without keywords, by its kind."""
    made: dict[str, Events] = {}
    for scene, heard in zip(scenes, found, strict=True):
        for part in scene.stretches:
            before, hours = made.get(part.kind, Events(0, 0.0)), (part.end - part.start) / SAMPLE_RATE / 3600
            inside = sum(part.start <= h.decided < part.end for h in heard)
            made[part.kind] = Events(before.count + inside, before.hours + hours)
    return made
