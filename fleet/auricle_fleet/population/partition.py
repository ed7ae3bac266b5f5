"""Clips dealt out to devices: each speaker's own, or as the papers' experiments have them. A clip is on one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.speech.speech_set import SpeechSet
from auricle.speech.split import DeviceClips, FleetSplit, split_by_speaker
from auricle_fleet.settings.check import VALIDATION, labelled_share
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Fresh, Partition

Places = NDArray[np.int64]
FEWEST_CLIPS = 5
"""Clips that a device gets at least where clips are dealt out: it can hold one out."""
DRAWS = 1000
"""So often is a draw made again in which a device has fewer."""


def divided(
    settings: FleetSettings, speech: SpeechSet, least: int, devices: int | None, unseen: int | None
) -> FleetSplit:
    """Who of a run's devices has which clips, and whose are heard by none.

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
        As `split_by_speaker`; or there are too few clips for so many devices.
    """
    partition, seed = settings.partition, settings.seed
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
    if partition.deals:
        own = _dealt(own, pool, speech.targets, partition, len(own) if devices is None else devices, rng)
    if partition.tail == "device":
        own = [
            replace(each, clips=each.clips[own_tail(speech.targets[each.clips], partition.imbalance, rng)])
            for each in own
        ]
    labelled = split.labelled
    if share is not None:
        held = np.unique(np.concatenate([each.clips for each in own]))
        labelled = held[taken(speech.targets[held], share, np.random.default_rng([seed, 43]))]
        own = [replace(each, clips=np.setdiff1d(each.clips, labelled)) for each in own]
    short = min(own, key=lambda device: len(device.clips))
    if len(short.clips) < FEWEST_CLIPS:
        raise DataError(
            f'The device "{short.speaker}" would have {len(short.clips)} clips and needs {FEWEST_CLIPS}: lower '
            "--devices, or imbalance or sigma of the partition, or the share of --labelled."
        )
    if partition.fresh is not None:
        _require_first(own, speech, partition.fresh, seed)
    return replace(split, devices=tuple(own), labelled=labelled)


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

    Fresh label j of a device, from 0, begins in round `fresh.round` + j `fresh.every`; one of its labels is never.

    Parameters
    ----------
    targets
        (N,) labels of all clips that it has in the end.
    seed
        The device's.
    """
    begins = np.ones(labels, np.int64)
    if fresh is not None:
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
    if partition.kind == "dirichlet":
        parts = by_dirichlet(targets[pool], count, partition.alpha, rng)
    else:
        parts = by_labels(targets[pool], count, partition.labels, partition.sigma, rng)
    return [DeviceClips(f"part-{number:05d}", pool[part]) for number, part in enumerate(parts, 1)]


def long_tail(targets: Places, labels: int, imbalance: float, rng: np.random.Generator) -> Places:
    """Places of the clips (N,) that stay when label c keeps n0 * imbalance^(-c / (labels - 1)) clips, rounded down.

    n0 is the largest number for which every label has as many; each keeps one at least.
    """
    if imbalance == 1:
        return np.arange(len(targets))
    there = np.bincount(targets, minlength=labels)
    shares = imbalance ** -(np.arange(labels) / max(1, labels - 1))
    largest = (there / shares)[there > 0].min(initial=np.inf)
    wanted = np.maximum(np.floor(largest * shares + 1e-9).astype(np.int64), 1)
    kept = [rng.permutation(np.flatnonzero(targets == label))[: wanted[label]] for label in range(labels)]
    return np.sort(np.concatenate(kept))


def own_tail(targets: Places, imbalance: float, rng: np.random.Generator) -> Places:
    """Places of a device's clips (N,) that stay when its labels have a long tail, in an order drawn for it.

    As `long_tail`, with c the place of a label in that order, of the C labels that the device has.
    """
    own = rng.permutation(np.unique(targets))
    ranks = np.empty(int(targets.max(initial=0)) + 1, np.int64)
    ranks[own] = np.arange(len(own))
    return long_tail(ranks[targets], len(own), imbalance, rng)


def split_speakers(own: Sequence[DeviceClips], targets: Places, count: int) -> list[DeviceClips]:
    """So many devices, each with clips of one speaker: the more clips a speaker has, the more devices are that speaker.

    Each speaker is one at least; its clips are dealt to its devices in turn, label by label.
    """
    if count < len(own):
        raise DataError(
            f"{count} devices are fewer than the {len(own)} speakers that are divided among them: raise --devices or "
            "--unseen, or leave the partition out."
        )
    sizes = np.array([len(each.clips) for each in own], np.float64)
    devices = np.ones(len(own), np.int64)
    for _ in range(count - len(own)):
        devices[np.argmax(sizes / devices)] += 1
    made = []
    for each, several in zip(own, devices, strict=True):
        in_turn = each.clips[np.argsort(targets[each.clips], kind="stable")]
        for part in range(several):
            name = each.speaker if several == 1 else f"{each.speaker}-{part + 1}"
            made.append(DeviceClips(name, np.sort(in_turn[part::several])))
    return made


def drawn_voices(
    own: Sequence[DeviceClips], count: int, clips: int, warp: float, rng: np.random.Generator
) -> list[DeviceClips]:
    """So many devices, the speakers in turn: the first time as they are, then each time with another vocal tract.

    Each hears so many clips of its speaker at most, drawn for it; a stretch of the mel axis is drawn from 1 - `warp` to
    1 + `warp` (vocal tract length perturbation, Jaitly and Hinton 2013). Devices of one speaker may share recordings.
    """
    able = [each for each in own if len(each.clips) >= FEWEST_CLIPS]
    if not able:
        raise DataError(
            f"No speaker has the {FEWEST_CLIPS} clips that a device needs: lower --unseen, or take more speech."
        )
    drawn = []
    for device in range(count):
        turn, place = divmod(device, len(able))
        each = able[place]
        chosen = np.sort(rng.permutation(each.clips)[:clips])
        if turn:
            drawn.append(DeviceClips(f"{each.speaker}-{turn + 1}", chosen, float(1 + rng.uniform(-warp, warp))))
        else:
            drawn.append(DeviceClips(each.speaker, chosen))
    return drawn


def by_dirichlet(targets: Places, count: int, alpha: float, rng: np.random.Generator) -> list[Places]:
    """Deal each label's clips out by shares that are drawn from Dirichlet(alpha), again where a device has too few.

    Returns
    -------
    list
        Places in `targets`, ascending, for each device; every clip is on one.

    Raises
    ------
    DataError
        No draw gave every device enough.
    """
    order = [rng.permutation(np.flatnonzero(targets == label)) for label in np.unique(targets)]
    for _ in range(DRAWS):
        counts = np.stack([apportioned(rng.dirichlet(np.full(count, alpha)), len(clips)) for clips in order])
        if counts.sum(axis=0).min() >= FEWEST_CLIPS:
            return _collect(order, counts)
    raise DataError(
        f"In {DRAWS:,} draws with alpha {alpha:g} some of {count:,} devices had fewer than {FEWEST_CLIPS} clips: raise "
        "alpha, or lower --devices."
    )


def by_labels(targets: Places, count: int, each: int, sigma: float, rng: np.random.Generator) -> list[Places]:
    """Give every device so many labels, all labels to as many devices as can be, and unequal shares of their clips.

    A label's clips are dealt to those who have it in proportion to exp(s * x), s^2 = ln(1 + sigma^2), x standard normal
    by label and device: clips of a label on a device have a standard deviation of sigma times their mean (FedVSA's
    print has 300, 600, 900 at a mean of 300). For a device with fewer than `FEWEST_CLIPS` it is drawn again.

    Parameters
    ----------
    each
        Labels of a device; all where there are not so many.
    sigma
        0: equal parts.
    """
    labels = np.unique(targets)
    each = min(each, len(labels))
    left: list[int] = []
    has = np.zeros((len(labels), count), bool)
    for slot in range(count * each):  # a stack of all labels, shuffled, and the next one when it is empty
        device = slot // each
        if all(has[label, device] for label in left):
            left += rng.permutation(len(labels)).tolist()
        label = next(label for label in left if not has[label, device])
        left.remove(label)
        has[label, device] = True
    deviation = np.sqrt(np.log1p(sigma**2))
    weights = np.exp(deviation * rng.standard_normal(has.shape))
    order = [rng.permutation(np.flatnonzero(targets == label)) for label in labels]
    wholes = [len(clips) if holders.any() else 0 for holders, clips in zip(has, order, strict=True)]
    for _ in range(DRAWS):
        counts = np.stack([apportioned(row, whole) for row, whole in zip(has * weights, wholes, strict=True)])
        short = counts.sum(axis=0) < FEWEST_CLIPS
        if not sigma or not short.any():
            break
        weights[:, short] = np.exp(deviation * rng.standard_normal((len(labels), int(short.sum()))))
    return _collect(order, counts)


def apportioned(shares: NDArray[np.float64], whole: int) -> Places:
    """Whole numbers (D,) with this sum, in proportion to shares: rounded down, and the largest rests get one more."""
    if not whole:
        return np.zeros(len(shares), np.int64)
    exact = shares / shares.sum() * whole
    counts: Places = np.floor(exact).astype(np.int64)
    rest = np.argsort(counts - exact, kind="stable")[: whole - int(counts.sum())]
    counts[rest] += 1
    return counts


def _collect(order: Sequence[Places], counts: NDArray[np.int64]) -> list[Places]:
    """For each device the first so many of each label's clips that are not yet taken."""
    ends = np.cumsum(counts, axis=1)
    return [
        np.sort(np.concatenate([clips[e[d] - c[d] : e[d]] for clips, e, c in zip(order, ends, counts, strict=True)]))
        for d in range(counts.shape[1])
    ]
