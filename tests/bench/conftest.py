"""Folders of recordings for the benches of hearing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from auricle.hearing.splits import noise_part, part_of
from auricle.speech.audio import SAMPLE_RATE


def _name(part: str, of: str) -> str:
    return next(f"{of}{i}" for i in range(1000) if part_of(f"{of}{i}") == part)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as the benches of hearing want them, of the test and the validation part, with noise for words."""
    soundfile = pytest.importorskip("soundfile", reason="it writes the recordings")
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    speaker, other = _name("test", "a"), _name("validation", "a")
    noise = next(f"n{i}.wav" for i in range(99) if noise_part(f"n{i}.wav") == "test")
    files = {
        f"wakewords/jarvis/{speaker}_nohash_0.wav": 1,
        f"gsc-more/bed/{speaker}_nohash_0.wav": 1,
        f"arabic/wahid/{speaker}_nohash_0.wav": 1,
        f"stream-more/speech/{speaker}-1.wav": 3,
        f"arabic/wahid/{other}_nohash_0.wav": 1,
        f"stream-more/speech/{other}-1.wav": 3,
        f"stream/speech/{speaker}-2.wav": 3,
        "gsc/bed/other_nohash_0.wav": 1,
        f"gsc/_background_noise_/{noise}": 2,
    }
    for name, seconds in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        sound = np.zeros(seconds * SAMPLE_RATE, np.float32)
        sound[4000:-4000] = 0.1 * rng.standard_normal(len(sound) - 8000)
        soundfile.write(path, sound, SAMPLE_RATE)
    return root
