"""What espeak-ng is asked from this side: one process for every voice, its speech or its phonemes as the answer."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from auricle.errors import DataError, extra_command
from auricle.speech.audio import SAMPLE_RATE, resample

INSTEAD = "name a folder of recordings with --data DIR instead"
"""What a message advises where espeak-ng does not work."""

SWITCH = re.compile(r"\([a-z0-9-]+\)")
"""Where a voice goes over to the rules of another language."""

_WORKER_SECONDS = 120
_SILENT_BELOW = 0.01
_STRESS = str.maketrans("", "", "ˈˌ")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One text and the way to say it."""

    text: str
    """What is said."""

    rate: int
    """Words a minute."""

    pitch: int
    """0 to 100, around the voice's own at 50."""

    range: int
    """Liveliness, 0 to 100."""


def require_espeak() -> None:
    """Refuse where espeak-ng is not installed.

    Raises
    ------
    DataError
        It is not.
    """
    if find_spec("espeakng_loader") is None:
        raise DataError(f"Synthetic speech needs espeak-ng: {extra_command('fleet')}, or {INSTEAD}.")


def speak(voice: str, utterances: Sequence[Utterance]) -> Iterator[NDArray[np.float32]]:
    """Give the utterances as a voice says them, (samples,) each at 16 kHz, without the silence around them.

    Parameters
    ----------
    voice
        As espeak-ng names it: `en-us+m3` is the language and the variant.

    Raises
    ------
    DataError
        espeak-ng is not there, fails, or says nothing for a text.
    """
    answer = _ask({"voice": voice, "utterances": [asdict(utterance) for utterance in utterances]})
    (rate,) = struct.unpack_from("<I", answer)
    position = 4
    for utterance in utterances:
        (count,) = struct.unpack_from("<I", answer, position)
        samples = np.frombuffer(answer, dtype="<i2", count=count, offset=position + 4)
        position += 4 + 2 * count
        loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > _SILENT_BELOW * 32_768)
        if not len(loud):
            raise DataError(f'espeak-ng said nothing for "{utterance.text}" as {voice}: leave the word out of --words.')
        yield resample(samples[loud[0] : loud[-1] + 1].astype(np.float32) / np.float32(32_768), rate, SAMPLE_RATE)


def phonemes_of(voice: str, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Give the phonemes of every text in the International Phonetic Alphabet, without stress and word boundaries.

    Raises
    ------
    DataError
        espeak-ng is not there or fails.
    """
    require_espeak()
    lines = _ask({"voice": voice, "spell": list(texts)}).decode().splitlines()
    return [tuple(sound for sound in line.translate(_STRESS).replace(" ", "_").split("_") if sound) for line in lines]


def ipa_of(voice: str, text: str) -> str:
    """Give a text in the International Phonetic Alphabet with its stress, the words parted by spaces; without clauses.

    Raises
    ------
    DataError
        espeak-ng is not there or fails.
    """
    require_espeak()
    line = SWITCH.sub("", " ".join(_ask({"voice": voice, "spell": [text]}).decode().split()))
    return line.replace("_", "").replace("\u200d", "")


def _ask(job: Mapping[str, object]) -> bytes:
    command = [sys.executable, "-m", "auricle.speech.espeak_worker"]
    try:
        return subprocess.run(
            command,
            input=json.dumps(job).encode(),
            capture_output=True,
            timeout=_WORKER_SECONDS,
            check=True,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
        ).stdout
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr.decode(errors="replace").strip().splitlines() or [f"exit {error.returncode}"])[-1]
        raise DataError(f"espeak-ng failed as {job['voice']} ({last_line}): {INSTEAD}.") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"espeak-ng did not speak as {job['voice']} ({error}): {INSTEAD}.") from error
