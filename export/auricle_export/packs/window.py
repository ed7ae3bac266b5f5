"""The task of a pack of one's own: its words, and how long a stretch of sound its models look at."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.frontend import Frontend
from auricle.packs.manifest import SAMPLE_RATE, WINDOWS, Task

NETWORK_WINDOW = 1.6
"""Seconds of a window of a network's vectors at least: it has to see that a word begins and ends."""


def network_task(words: Sequence[str], frontend: Frontend, seconds: float) -> Task:
    """A task for words and phrases, whose models see the vectors of the front-end's network.

    Parameters
    ----------
    words
        The labels, in the classifier's order.
    frontend
        With a network.
    seconds
        That the window has to hold; it is longer by what makes whole vectors, and `NETWORK_WINDOW` at least.

    Raises
    ------
    PackError
        No window of at most 4 s has a whole vector.
    """
    network = frontend.network
    assert network is not UNSET
    per_second = SAMPLE_RATE / frontend.hop
    most = int((WINDOWS[1] * per_second - network.field) // network.stride)
    wanted = math.ceil((max(seconds, NETWORK_WINDOW) * per_second - network.field) / network.stride)
    if most < 0:
        raise PackError(f"A window of {WINDOWS[1]:g} s is too short for the {network.field} frames of {network.name}.")
    frames = network.field + network.stride * max(0, min(wanted, most))
    return Task(tuple(words), clip_samples=frames * frontend.hop, frames=frames, frontend=frontend)


def task_of(words: Sequence[str], mels: int = 40, seconds: float = 1.0) -> Task:
    """A task for words and phrases, with the usual front-end: a frame every 10 ms.

    Parameters
    ----------
    words
        The labels, in the classifier's order.
    mels
        Mel bands of a frame.
    seconds
        Of the window, 0.5 to 4 in whole frames: it has to hold the longest phrase as people say it.

    Raises
    ------
    PackError
        Fewer than two words, a word twice, a window that is too short or too long, or not a whole number of frames.
    """
    if len(words) < 2 or len(set(words)) != len(words):
        named = ", ".join(f'"{word}"' for word in words) or "none"
        raise PackError(f"A task needs at least two different words, separated by commas; this one has {named}.")
    frontend = Frontend(mels=mels)
    task = Task(tuple(words), frontend=frontend)
    samples = seconds * task.sample_rate
    if not WINDOWS[0] <= seconds <= WINDOWS[1]:
        raise PackError(
            f"--window {seconds:g} is not a valid window: give {WINDOWS[0]:g} to {WINDOWS[1]:g} seconds, such as 1.6."
        )
    frames = round(samples / frontend.hop)
    if abs(frames * frontend.hop - samples) > 1e-6 * task.sample_rate:
        raise PackError(
            f"--window {seconds:g} is not a valid window: give whole frames of {frontend.hop / task.sample_rate:g} s, "
            f"such as {frames * frontend.hop / task.sample_rate:g}."
        )
    return Task(tuple(words), clip_samples=frames * frontend.hop, frames=frames, frontend=frontend)
