"""Clips dealt out to devices: each speaker's own, or as the papers' experiments have them. A clip is on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, SettingsError
from auricle.speech.corpora import split_corpus
from auricle.speech.speech_set import SpeechSet
from auricle.speech.split import DEFAULT_MIN_CLIPS, DeviceClips, FleetSplit, split_by_speaker
from auricle_fleet.population.dealing import (
    FEWEST_CLIPS,
    HELD_OUT,
    by_dirichlet,
    by_labels,
    deal_held_out,
    draw_recordings,
    drawn_voices,
    long_tail,
    own_tail,
    split_speakers,
)
from auricle_fleet.settings.check import VALIDATION, labelled_share
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import DEALT_AFRESH, Fresh, Partition

Places = NDArray[np.int64]


def divided(
    settings: FleetSettings, speech: SpeechSet, least: int, devices: int | None, unseen: int | None
) -> FleetSplit:
    """Who of a run's devices has which clips, and whose are heard by none.

    Where clips are nobody's, those of one recording are never both trained on and judged by.

    Parameters
    ----------
    least
        A speaker with fewer clips counts as unseen.
    devices
        How many there shall be; None: as many as there are speakers for.
    unseen
        Speakers held out, as of `split_by_speaker`.

    Raises
    ------
    DataError, SettingsError
        As `split_by_speaker`; or there are too few clips for so many devices, or they are nobody's and not dealt
        afresh.
    """
    partition, seed = settings.partition, settings.seed
    recordings = _recordings(settings, speech)
    of_speakers = None if partition.deals else devices
    split = split_by_speaker(
        speech, devices=of_speakers, min_clips=least, unseen=unseen, seed=seed, validation=settings.validation
    )
    share = labelled_share(settings.labelled)
    if settings.labelled == VALIDATION:
        split = replace(split, labelled=split.validation)
    if partition == Partition() and share is None:
        return split
    rng = np.random.default_rng([seed, 37])
    pool = np.sort(np.concatenate([each.clips for each in split.devices]))
    if partition.tail == "fleet":
        pool = pool[long_tail(speech.targets[pool], len(speech.labels), partition.imbalance, rng)]
    own = [DeviceClips(each.speaker, np.intersect1d(each.clips, pool)) for each in split.devices]
    labelled = split.labelled
    if share is not None and partition.kind in DEALT_AFRESH:  # before, so that every device has enough
        labelled, own = _without_share(own, speech.targets, share, seed, recordings)
        pool = np.setdiff1d(pool, labelled)
    held = np.zeros(0, np.int64)
    if recordings is not None:
        held = pool[draw_recordings(speech.targets[pool], recordings[pool], HELD_OUT, rng)]
        pool = np.setdiff1d(pool, held)
    if partition.deals:
        late = _is_late(speech, pool, partition.fresh)
        count = len(own) if devices is None else devices
        own = _dealt(own, pool[~late], speech.targets, partition, count, rng)
        if late.any():
            own = _with_late(own, pool[late], speech.targets, partition, rng)
    if partition.tail == "device":
        own = [
            replace(each, clips=each.clips[own_tail(speech.targets[each.clips], partition.imbalance, rng)])
            for each in own
        ]
    if share is not None and partition.kind not in DEALT_AFRESH:
        labelled, own = _without_share(own, speech.targets, share, seed)
    short = min(own, key=lambda device: len(device.clips))
    if len(short.clips) < FEWEST_CLIPS:
        raise DataError(
            f'The device "{short.speaker}" would have {len(short.clips)} clips and needs {FEWEST_CLIPS}: lower '
            "--devices, or imbalance or sigma of the partition, or the share of --labelled."
        )
    if partition.fresh is not None:
        _require_first(own, speech, partition.fresh, seed)
    if recordings is not None:
        own = deal_held_out(own, held, speech.targets, rng)
    return replace(split, devices=tuple(own), labelled=labelled)


def _recordings(settings: FleetSettings, speech: SpeechSet) -> Places | None:
    """(N,) the recording of each clip where clips are nobody's; None where a speaker is a person."""
    named = split_corpus(settings.data)
    if named is None or named[0].has_speakers:
        return None
    if settings.partition.kind not in DEALT_AFRESH:
        raise SettingsError(
            f"A clip of {named[0].title} is nobody's, so that the partition {settings.partition.kind} has no speakers: "
            f"take the kind {' or '.join(DEALT_AFRESH)}."
        )
    return speech.speakers


def least_clips(settings: FleetSettings, speech: SpeechSet) -> int:
    """How many clips make a speaker a device: where nobody said so, fewer than usual where no two have so many.

    One where clips are nobody's.
    """
    if settings.min_clips is not None:
        return settings.min_clips
    named = split_corpus(settings.data)
    if named is not None and not named[0].has_speakers:
        return 1
    counts = np.sort(speech.clips_per_speaker())[::-1]
    if len(counts) < 2 or counts[1] >= DEFAULT_MIN_CLIPS:
        return DEFAULT_MIN_CLIPS
    return max(FEWEST_CLIPS, int(counts[(len(counts) - 1) // 2]))  # half of them


def _without_share(
    own: Sequence[DeviceClips], targets: Places, share: float, seed: int, recordings: Places | None = None
) -> tuple[Places, list[DeviceClips]]:
    """The clips that the coordinator takes, a share of each label's, and what is left of each device's."""
    held, rng = np.unique(np.concatenate([each.clips for each in own])), np.random.default_rng([seed, 43])
    if recordings is None:
        labelled = held[taken(targets[held], share, rng)]
    else:
        labelled = held[draw_recordings(targets[held], recordings[held], share, rng)]
    return labelled, [replace(each, clips=np.setdiff1d(each.clips, labelled)) for each in own]


def taken(targets: Places, share: float, rng: np.random.Generator) -> Places:
    """Places of a share of the clips, drawn label by label: of each label its share to the nearest, at least one."""
    parts = []
    for label in np.unique(targets):
        own = rng.permutation(np.flatnonzero(targets == label))
        parts.append(own[: max(1, round(share * len(own)))])
    return np.sort(np.concatenate(parts))


def _require_first(own: Sequence[DeviceClips], speech: SpeechSet, fresh: Fresh, seed: int) -> None:
    """DataError where a device has too few clips before its fresh labels come."""
    for place, device in enumerate(own):
        targets = speech.targets[device.clips]
        begins = fresh_labels(targets, len(speech.labels), fresh, device_seed(seed, place))
        first = int((begins[targets] == 1).sum())
        if first < FEWEST_CLIPS:
            raise DataError(
                f'The device "{device.speaker}" would begin with {first} clips and needs {FEWEST_CLIPS}: lower '
                "labels of fresh, or --devices."
            )


def device_seed(seed: int, device: int) -> int:
    """Of everything that a device of a run draws, the devices counted from 0."""
    return seed * 100_003 + device + 1


def fresh_labels(targets: Places, labels: int, fresh: Fresh | None, seed: int) -> Places:
    """The first round (labels,) in which a device has clips of each label: 1, but for those drawn to be fresh.

    Fresh label j of a device, from 0, begins in round `fresh.round` + j `fresh.every`; one of its labels is never. Of a
    share they are the last labels, in their order.

    Parameters
    ----------
    targets
        (N,) labels of all clips that it has in the end.
    seed
        The device's.
    """
    begins = np.ones(labels, np.int64)
    if fresh is not None and fresh.labels is None:
        count = fresh.late_labels(labels)
        begins[labels - count :] = fresh.round + fresh.every * np.arange(count)
    elif fresh is not None and fresh.labels is not None:
        own = np.random.default_rng([seed, 41]).permutation(np.unique(targets))
        late = own[: min(fresh.labels, len(own) - 1)]
        begins[late] = fresh.round + fresh.every * np.arange(len(late))
    return begins


def _dealt(
    own: Sequence[DeviceClips],
    pool: Places,
    targets: Places,
    partition: Partition,
    count: int,
    rng: np.random.Generator,
) -> list[DeviceClips]:
    """The clips of the pool on so many devices; `own` says whose they are."""
    if partition.kind == "voices":
        return drawn_voices(own, count, partition.clips, partition.warp, rng)
    if count * FEWEST_CLIPS > len(pool):
        raise DataError(
            f"{len(pool):,} clips are too few for {count:,} devices, of which each needs {FEWEST_CLIPS}: lower "
            "--devices to "
            f"{len(pool) // FEWEST_CLIPS:,} or less."
        )
    if partition.kind == "split":
        return split_speakers(own, targets, count)
    parts = _parts(targets[pool], count, partition, rng, FEWEST_CLIPS)
    return [DeviceClips(f"part-{number:05d}", pool[part]) for number, part in enumerate(parts, 1)]


def _parts(targets: Places, count: int, partition: Partition, rng: np.random.Generator, fewest: int) -> list[Places]:
    """Places in `targets` for each device, of a kind that is dealt afresh."""
    if partition.kind == "dirichlet":
        return by_dirichlet(targets, count, partition.alpha, rng, fewest)
    return by_labels(targets, count, partition.labels, partition.sigma, rng, fewest)


def _is_late(speech: SpeechSet, pool: Places, fresh: Fresh | None) -> NDArray[np.bool_]:
    """Which clips of the pool are of labels that come late on all devices."""
    late = 0 if fresh is None else fresh.late_labels(len(speech.labels))
    found: NDArray[np.bool_] = speech.targets[pool] >= len(speech.labels) - late
    return found


def _with_late(
    own: Sequence[DeviceClips], pool: Places, targets: Places, partition: Partition, rng: np.random.Generator
) -> list[DeviceClips]:
    """The devices with the pool dealt out beside what they have, by the same partition."""
    parts = _parts(targets[pool], len(own), partition, rng, 0)
    return [
        replace(each, clips=np.sort(np.concatenate([each.clips, pool[part]])))
        for each, part in zip(own, parts, strict=True)
    ]
