"""Ways to deal clips out: long tails, parts of speakers, other voices, shares by Dirichlet, so many labels each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.speech.split import DeviceClips
from auricle_learning.training.speech_data import split_held_out

Places = NDArray[np.int64]
HELD_OUT = 0.2
"""Share of a device's clips that it never trains on."""
FEWEST_CLIPS = 5
"""Clips that a device gets at least where clips are dealt out: it can hold one out."""
DRAWS = 1000
"""So often is a draw made again in which a device has fewer."""


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


def by_dirichlet(
    targets: Places, count: int, alpha: float, rng: np.random.Generator, fewest: int = FEWEST_CLIPS
) -> list[Places]:
    """Deal each label's clips out by shares drawn from Dirichlet(alpha), again for a device with too few clips.

    The shares of a label are gamma variates of shape alpha by their sum; a device that would have fewer than
    `fewest` draws its own again, for all labels.

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
    weights = rng.standard_gamma(alpha, (len(order), count))
    for _ in range(DRAWS):
        above_zero = np.maximum(weights, np.finfo(np.float64).tiny)
        counts = np.stack([apportioned(row, len(clips)) for row, clips in zip(above_zero, order, strict=True)])
        short = counts.sum(axis=0) < fewest
        if not short.any():
            return _collect(order, counts)
        weights[:, short] = rng.standard_gamma(alpha, (len(order), int(short.sum())))
    raise DataError(
        f"In {DRAWS:,} draws with alpha {alpha:g} some of {count:,} devices had fewer than {fewest} clips: raise "
        "alpha, or lower --devices."
    )


def by_labels(
    targets: Places, count: int, each: int, sigma: float, rng: np.random.Generator, fewest: int = FEWEST_CLIPS
) -> list[Places]:
    """Give every device so many labels, all labels to as many devices as can be, and unequal shares of their clips.

    A label's clips are dealt to those who have it in proportion to exp(s * x), s^2 = ln(1 + sigma^2), x standard normal
    by label and device: clips of a label on a device have a standard deviation of sigma times their mean (FedVSA's
    print has 300, 600, 900 at a mean of 300). For a device with fewer than `fewest` it is drawn again.

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
        short = counts.sum(axis=0) < fewest
        if not sigma or not short.any():
            break
        weights[:, short] = np.exp(deviation * rng.standard_normal((len(labels), int(short.sum()))))
    return _collect(order, counts)


def draw_recordings(targets: Places, recordings: Places, share: float, rng: np.random.Generator) -> Places:
    """Places of clips (N,) of whole recordings, of each label nearly a share: what is cut from one is not divided.

    Label by label recordings are drawn in turn, and each is taken that brings its label nearer to the share; the first
    one is always. A recording may have clips of several labels.
    """
    chosen = np.zeros(len(targets), bool)
    for label in np.unique(targets):
        of_label = targets == label
        wanted = share * int(of_label.sum())
        for recording in rng.permutation(np.unique(recordings[of_label])):
            more = recordings == recording
            before = int((of_label & chosen).sum())
            after = int((of_label & (chosen | more)).sum())
            if not before or abs(after - wanted) < abs(before - wanted):
                chosen |= more
    return np.flatnonzero(chosen)


def deal_held_out(
    own: Sequence[DeviceClips], held: Places, targets: Places, rng: np.random.Generator
) -> list[DeviceClips]:
    """The devices with clips to judge by dealt to them: of each label in proportion to what they train on of it.

    Those of a label that no device trains on are left out.
    """
    labels = np.unique(targets[held])
    order = [rng.permutation(held[targets[held] == label]) for label in labels]
    trained = np.array([[np.sum(targets[each.clips] == label) for each in own] for label in labels], np.float64)
    counts = np.stack(
        [
            apportioned(row, len(clips) if row.any() else 0)
            for row, clips in zip(trained.reshape(len(labels), -1), order, strict=True)
        ]
    )
    return [replace(each, held_out=part) for each, part in zip(own, _collect(order, counts), strict=True)]


def divide_clips(device: DeviceClips, targets: Places, seed: int) -> tuple[Places, Places]:
    """Places of the clips that a device trains on, and of those that it holds out."""
    if device.held_out is not None:
        return device.clips, device.held_out
    train, held = split_held_out(targets[device.clips], HELD_OUT, seed)
    return device.clips[train], device.clips[held]


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
