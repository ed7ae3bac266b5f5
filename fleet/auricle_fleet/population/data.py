"""From settings to speech: what the devices hear and what the unseen speakers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack, load_pack
from auricle.process.times import how_many
from auricle.speech import download
from auricle.speech.audio import CLIP_SAMPLES
from auricle.speech.augment import noise_energies
from auricle.speech.clip_folder import scan_folder
from auricle.speech.corpora import split_corpus
from auricle.speech.features import LogMel
from auricle.speech.folder import load_folder
from auricle.speech.row_store import RowStore, Spill
from auricle.speech.sound_faults import Finding, sentences_of
from auricle.speech.speech_set import SpeechSet, energy_rows
from auricle.speech.split import FleetSplit
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle.speech.voices import most_voices
from auricle.speech.words import MIN_WORD_CLIPS, WORD_SETS
from auricle_fleet.population.conditions import ReadAudio, audio_reader
from auricle_fleet.population.dealing import divide_clips
from auricle_fleet.population.fleet_clips import FleetClips
from auricle_fleet.population.partition import divided, least_clips
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import require_room
from auricle_fleet.settings.left_open import SYNTHETIC_UNSEEN, WORDS
from auricle_learning.training.speech_data import Clips, DeviceData

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it, of how much."""

SYNTHETIC_DEVICES = 20
PIECE_CLIPS = 256
"""Clips whose features are computed at once."""


@dataclass(frozen=True, eq=False)
class FleetData:
    """The speech of one run, as mel energies."""

    pack: Pack
    devices: Sequence[tuple[str, DeviceData]]
    """Speaker and clips of each device, of one array, which lies in a file where it is large (`row_store`)."""
    unseen: Clips
    """Clips of the speakers no device has."""
    unseen_speakers: int
    unseen_groups: NDArray[np.int64]
    """(N,) 0 or 1 for each unseen clip, the same for all of a speaker: two halves without a speaker in common."""
    findings: tuple[Finding, ...]
    """What was found in files that could not be used, or not as they stand."""
    origin: Pack | None = None
    """The pack that `pack` is with other words, when it is not `pack` itself."""
    validation: Clips | None = None
    """Clips of the speakers by whom values are chosen; None where none are kept apart."""
    validation_speakers: int = 0
    labelled: Clips | None = None
    """The coordinator's, where they are not of a folder of its own."""
    others: str = ""
    """How much of the words not chosen `_unknown_` has, when it is not everything."""
    cut: str = ""
    """How many clips of the word that is cut most often are, when the pack's window is too short for it."""

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """(D, 2) clips of each device that it trains on, and that it holds out."""
        if isinstance(self.devices, FleetClips):
            return self.devices.counts
        return np.array([(len(data.train), len(data.held_out)) for _, data in self.devices], np.int64).reshape(-1, 2)

    @property
    def speakers(self) -> Sequence[str]:
        """(D,) whose voice each device hears."""
        if isinstance(self.devices, FleetClips):
            return self.devices.speakers
        return [speaker for speaker, _ in self.devices]

    @property
    def training_clips(self) -> int:
        """Clips that the devices train on."""
        return int(self.counts[:, 0].sum())

    @property
    def label_clips(self) -> NDArray[np.int64]:
        """(L,) clips that the devices train on by what is said in them."""
        if isinstance(self.devices, FleetClips):
            trained = self.devices.trained
        else:
            trained = np.concatenate([np.zeros(0, np.int64), *(data.train.targets for _, data in self.devices)])
        return np.bincount(trained, minlength=len(self.pack.labels))

    @property
    def skipped(self) -> tuple[str, ...]:
        """Files that could not be used, each as a sentence."""
        return sentences_of(self.findings)

    @property
    def caution(self) -> str:
        """What accuracies of the devices' own models do not show; empty where each holds out a clip of each label.

        A clip held out of few leaves its label rarer in training: a model that has learnt nothing else takes it for
        another, always.
        """
        held = int(self.counts[:, 1].sum())
        if held >= len(self.devices) * len(self.pack.labels):
            return ""
        return f"{how_many(held, 'held-out clip')}, not one of each word on each device: personal accuracy says little"


def to_synthesise(
    settings: FleetSettings, words: str, clip_samples: int = CLIP_SAMPLES
) -> tuple[int, int, SynthesisSettings]:
    """Devices, unseen speakers and what is spoken of a run on synthetic speech.

    Raises
    ------
    SettingsError
        There are fewer voices than speakers, or fewer devices than the groups ask for.
    DataError
        espeak-ng is not installed.
    """
    devices = SYNTHETIC_DEVICES if settings.devices is None else settings.devices
    unseen = SYNTHETIC_UNSEEN if settings.unseen is None else settings.unseen
    require_room(settings.groups, devices)
    speakers, most = devices + unseen, most_voices()
    if speakers > most and not settings.partition.deals:
        raise SettingsError(
            f"There are {most} synthetic speakers; {devices} devices and {unseen} unseen speakers need {speakers}: "
            "lower --devices or --unseen."
        )
    told = SynthesisSettings(words, min(speakers, most), settings.takes, seed=settings.seed, clip_samples=clip_samples)
    return devices, unseen, told


def load_data(settings: FleetSettings, progress: Progress = lambda *_: None, spill: Spill | None = None) -> FleetData:
    """Get the speech of a run, split it by speaker and compute its mel energies.

    Parameters
    ----------
    settings
        Of the run.
    progress
        Told what is done.
    spill
        Where the devices' energies go instead of into memory where they are many.

    Raises
    ------
    DataError, SettingsError
        No such folder, no audio, a word with too few clips, more devices than speakers.
    PackError
        The pack named cannot be read, or lacks a local model.
    StorageError
        The disk has not enough space for energies that go there.
    """
    devices, unseen, own = settings.devices, settings.unseen, own_pack(settings)
    words = settings.words or (",".join(own.labels) if own else usual_words(settings.data))
    length = own.manifest.task.clip_samples if own else CLIP_SAMPLES
    if settings.data == "synthetic":
        devices, unseen, spoken = to_synthesise(settings, words, length)
        speech = synthesise(spoken, lambda done, total: progress("synthesising speakers", done, total))
    else:
        root = Path(settings.data)
        if settings.data == "speech-commands":
            root = download.fetch(
                progress=lambda done, total: progress("downloading Speech Commands", done, total),
                unpacking=lambda done, total: progress("unpacking Speech Commands", done, total),
            )
        speech = load_folder(
            root,
            words,
            seed=settings.seed,
            clip_samples=length,
            progress=lambda done, total: progress("reading clips", done, total),
        )
    least = least_clips(settings, speech)
    split = divided(settings, speech, least, devices, unseen)
    pack, origin = task_pack(speech.labels, own)
    frontend = LogMel(pack.manifest.task)
    noise = noise_energies(frontend, list(speech.noise))
    read = audio_reader(speech.audio, settings.white_noise, settings.seed)
    clips = _of_devices(split, speech, read, frontend, noise, progress, spill)

    def of_others(places: NDArray[np.int64]) -> Clips:
        return Clips(energy_rows(frontend, read, places), speech.targets[places])

    groups = np.unique(speech.speakers[split.unseen], return_inverse=True)[1] % 2
    return FleetData(
        pack=pack,
        devices=clips,
        unseen=of_others(split.unseen),
        unseen_speakers=len(split.unseen_speakers),
        unseen_groups=groups,
        findings=speech.findings,
        origin=origin,
        validation=of_others(split.validation) if len(split.validation) else None,
        validation_speakers=len(split.validation_speakers),
        labelled=of_others(split.labelled) if len(split.labelled) else None,
        others=speech.describe_others(),
        cut=speech.describe_cut(),
    )


def _of_devices(
    split: FleetSplit,
    speech: SpeechSet,
    read: ReadAudio,
    frontend: LogMel,
    noise: NDArray[np.float32] | None,
    progress: Progress,
    spill: Spill | None,
) -> FleetClips:
    """The clips of all devices: those of each behind one another, and only once those that several devices have."""
    parts, warps = [], np.array([each.warp for each in split.devices])
    bounds = np.zeros((len(split.devices), 3), np.int64)
    for i, each in enumerate(split.devices):
        train, held = divide_clips(each, speech.targets, i)
        parts += [train, held]
        bounds[i] = np.cumsum([bounds[i - 1, 2] if i else 0, len(train), len(held)])
    places = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    rows, order = places, None
    if len(np.unique(places)) < len(places):
        rows, order = np.unique(places, return_inverse=True)
    task = frontend.task
    store = RowStore(len(rows), (task.frames, task.frontend.mels), np.float32, spill)
    for i in range(0, len(rows), PIECE_CLIPS):
        progress("computing features", i, len(rows))
        store.put(frontend.energies(read(rows[i : i + PIECE_CLIPS])))
    progress("computing features", len(rows), len(rows))
    speakers = tuple(each.speaker for each in split.devices)
    targets = speech.targets[rows]
    stretched = None if (warps == 1).all() else warps
    return FleetClips(store.finish(), targets, speakers, bounds, noise, order, stretched, store.file)


def usual_words(data: str) -> str:
    """What is learnt from these recordings when neither words nor a pack are named, as `--words` says it.

    The labels of a corpus; the shipped words, where a folder has them; else those of its own words of which there are
    enough clips.

    Raises
    ------
    DataError
        There is no such folder, or no audio in it.
    """
    if data in ("synthetic", "speech-commands"):
        return WORDS
    named = split_corpus(data)
    if named is not None:
        return named[0].words
    counts = scan_folder(Path(data)).counts()
    common = {word for word, count in counts.items() if count >= MIN_WORD_CLIPS}
    shipped = set(WORD_SETS[WORDS]) - SPECIAL_LABELS
    if shipped <= common and counts.keys() - shipped:  # the others stand for `_unknown_`
        return WORDS
    return next((name for name, words in WORD_SETS.items() if set(words) == common), f"common:{MIN_WORD_CLIPS}")


def own_pack(settings: FleetSettings) -> Pack | None:
    """The pack that the settings name, when it has their local models."""
    if settings.pack is None:
        return None
    pack = load_pack(settings.pack)
    for name in settings.architectures(pack):
        pack.table(name)
    return pack


def task_pack(labels: tuple[str, ...], own: Pack | None = None) -> tuple[Pack, Pack]:
    """The pack of these words, or the same models for other words; and the pack that this comes from.

    Without a pack of one's own it is a shipped one.
    """
    if own is not None:
        return (own if own.labels == labels else own.with_labels(labels)), own
    for name in ("gsc12", "digits", "gsc35"):
        pack = load_pack(name)
        if pack.labels == labels:
            return pack, pack
    every = load_pack("gsc35")
    return every.with_labels(labels), every
