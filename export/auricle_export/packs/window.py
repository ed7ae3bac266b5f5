"""The task of a pack of one's own: its words, and how long a stretch of sound its models look at."""

from __future__ import annotations

from collections.abc import Sequence

from auricle.errors import PackError
from auricle.packs.frontend import Frontend
from auricle.packs.manifest import WINDOWS, Task


def task_of(words: Sequence[str], mels: int = 40, seconds: float = 1.0) -> Task:
    """A task for words and phrases, with the usual front-end: a frame every 10 ms.

    Parameters
    ----------
    words
        The labels, in the classifier's order.
    mels
        Mel bands of a frame.
    seconds
        Of the window, 0.5 to 2 in whole frames: it has to hold the longest phrase as people say it.

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
