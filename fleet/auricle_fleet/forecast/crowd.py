"""Who will be in a run and with how many clips, by names and counts alone: nothing is synthesised or read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.packs.pack import Pack
from auricle.speech import download
from auricle.speech.folder import list_folder
from auricle.speech.speech_set import SpeechSet
from auricle.speech.split import DeviceClips
from auricle.speech.synthesis import list_synthesis
from auricle_fleet.population.data import (
    own_pack,
    task_pack,
    to_synthesise,
    usual_words,
)
from auricle_fleet.population.dealing import HELD_OUT
from auricle_fleet.population.partition import divided, least_clips
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group, assigned


@dataclass(frozen=True, eq=False)
class Crowd:
    """Those who will be in a run."""

    pack: Pack
    """As the run will train with it."""
    origin: Pack
    """That it is with other words, or itself."""
    models: tuple[str, ...]
    """Architecture of each device's own model."""
    groups: tuple[Group | None, ...]
    """Group of each device."""
    trained: NDArray[np.int64]
    """(D,) clips that each device trains on."""
    held_out: NDArray[np.int64]
    """(D,) clips that each judges itself by."""
    unseen: int
    """Clips that the plug-in is measured on after each round, those of validation speakers included."""
    clips: int
    """Clips of all speakers, whose sound is in memory while features are computed."""
    synthetic: bool
    """Whether they are synthesised."""
    labelled: int = 0
    """Clips of the coordinator, where they are not of a folder of its own."""

    @property
    def devices(self) -> int:
        """How many there are."""
        return len(self.models)


def crowd_of(settings: FleetSettings) -> Crowd:
    """Count a run's crowd as `load_data` will divide it, in a second or so.

    In a folder, silent clips may be given to other speakers than in the run, and files that cannot be read count.

    Raises
    ------
    DataError, SettingsError, PackError
        As `load_data`; and where Speech Commands would have to be downloaded first.
    """
    own = own_pack(settings)
    words = settings.words or (",".join(own.labels) if own else usual_words(settings.data))
    synthetic, devices, unseen = settings.data == "synthetic", settings.devices, settings.unseen
    if synthetic:
        devices, unseen, spoken = to_synthesise(settings, words)
        speech = list_synthesis(spoken)
    else:
        speech = list_folder(_folder(settings.data), words, seed=settings.seed)
    least = least_clips(settings, speech)
    split = divided(settings, speech, least, devices, unseen)
    pack, origin = task_pack(speech.labels, own)
    counts = np.array([clip_counts(speech, device) for device in split.devices], np.int64).reshape(-1, 2)
    groups = assigned(settings.groups, len(counts), settings.seed)
    return Crowd(
        pack,
        origin,
        tuple(settings.own_models(groups, pack)),
        tuple(groups),
        counts[:, 0],
        counts[:, 1],
        len(split.unseen) + len(split.validation),
        len(speech.targets),
        synthetic,
        len(split.labelled),
    )


def clip_counts(speech: SpeechSet, device: DeviceClips) -> tuple[int, int]:
    """How many clips a device trains on, and how many it holds out."""
    if device.held_out is not None:
        return len(device.clips), len(device.held_out)
    held = held_out(speech, device.clips)
    return len(device.clips) - held, held


def held_out(speech: SpeechSet, clips: NDArray[np.int64]) -> int:
    """How many of a device's clips `split_held_out` holds out: of each label one stays in training."""
    return min(int(HELD_OUT * len(clips) + 1e-9), len(clips) - len(np.unique(speech.targets[clips])))


def is_missing(data: str) -> bool:
    """Whether the recordings have to be downloaded first."""
    return data == "speech-commands" and not _download_folder().is_dir()


def _download_folder() -> Path:
    return download.cache_folder() / download.SPEECH_COMMANDS.name


def _folder(data: str) -> Path:
    if is_missing(data):
        raise DataError(
            "Speech Commands is not on this machine, so that its speakers cannot be counted: `auricle fleet run --data "
            "speech-commands` downloads it first (2.4 GB), or name a folder with --data."
        )
    return _download_folder() if data == "speech-commands" else Path(data)
