"""A device's clips: which are trained on, which are held out, and what a folder gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from auricle.errors import DataError
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle.speech.sound_faults import SoundFault
from auricle_learning.training.speech_data import Clips, device_data, load_clips, split_held_out

PACK = load_pack("gsc12")


def _counts(targets: np.ndarray, chosen: np.ndarray) -> list[int]:
    return [int((targets[chosen] == label).sum()) for label in np.unique(targets)]


@pytest.mark.parametrize(
    ("counts", "share", "seed", "held_out"),
    [([10, 5, 20], 0.2, 0, [2, 1, 4]), ([4, 9, 7], 0.2, 0, [0, 3, 1]), ([2, 10], 0.5, 3, [1, 5])],
    ids=["a fifth", "what rounding left", "a half"],
)
def test_a_share_of_each_label_is_held_out(counts: list[int], share: float, seed: int, held_out: list[int]) -> None:
    """Floors of 0.2 x (4, 9, 7) are 0, 1, 1; the two that 0.2 x 20 = 4 still lacks come from 8 and then from 7."""
    targets = np.repeat(np.arange(len(counts)), counts)
    train, held = split_held_out(targets, share, seed)
    assert _counts(targets, held) == held_out
    assert _counts(targets, train) == [count - out for count, out in zip(counts, held_out, strict=True)]


@given(
    targets=st.lists(st.integers(0, 5), max_size=60).map(lambda t: np.array(t, np.int64)),
    share=st.floats(0, 0.5),
    seed=st.integers(0, 1000),
)
def test_a_split_is_a_partition_and_keeps_every_label_in_training(targets: np.ndarray, share: float, seed: int) -> None:
    train, held = split_held_out(targets, share, seed)
    assert sorted([*train, *held]) == list(range(len(targets)))
    assert set(targets[train]) == set(targets)
    assert len(held) <= share * len(targets) + 1e-6
    again = split_held_out(targets, share, seed)
    assert np.array_equal(held, again[1])
    spare = len(targets) - len(np.unique(targets))
    assert len(held) == min(int(share * len(targets) + 1e-9), spare)


def test_another_seed_holds_out_other_clips() -> None:
    targets = np.zeros(100, np.int64)
    assert not np.array_equal(split_held_out(targets, 0.2, 1)[1], split_held_out(targets, 0.2, 2)[1])


def test_clips_keep_their_labels_when_chosen() -> None:
    clips = Clips(np.arange(24, dtype=np.float32).reshape(4, 2, 3), np.array([3, 1, 0, 2]))
    chosen = clips.chosen(np.array([2, 0]))
    assert len(chosen) == 2
    assert chosen.targets.tolist() == [0, 3]
    assert chosen.energies[:, 0, 0].tolist() == [12, 0]


def test_device_data_computes_energies_and_splits() -> None:
    frontend = LogMel(PACK.manifest.task)
    audio = np.random.default_rng(0).integers(-3000, 3000, (10, 16_000)).astype(np.int16)
    targets = np.repeat(np.arange(2), 5)
    data = device_data(frontend, audio, targets, None, seed=1)
    assert (len(data.train), len(data.held_out), data.noise) == (8, 2, None)
    train, _ = split_held_out(targets, 0.2, 1)
    assert np.array_equal(data.train.energies, frontend.energies(audio)[train])


def _say(folder: Path, word: str, speaker: str, take: int, seconds: float = 0.5) -> Path:
    path = folder / word / f"{speaker}_nohash_{take}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    sound = np.random.default_rng(take).standard_normal(int(16_000 * seconds)) * 0.1
    soundfile.write(path, sound.astype(np.float32), 16_000)
    return path


def test_a_folder_gives_the_words_of_the_pack_and_says_what_it_could_not_read(tmp_path: Path) -> None:
    for word in ("yes", "no", "zebra"):
        for take in range(5):
            _say(tmp_path, word, "anna", take)
    _say(tmp_path, "yes", "bert", 0)
    (tmp_path / "no" / "anna_nohash_9.wav").write_bytes(b"RIFF damaged")
    _say(tmp_path, "_background_noise_", "fan", 0, 2.5)
    (tmp_path / "_background_noise_" / "broken.wav").write_bytes(b"")
    data, findings = load_clips(tmp_path, PACK, seed=2)
    assert len(data.train) + len(data.held_out) == 11
    assert set(data.train.targets) == {PACK.labels.index("yes"), PACK.labels.index("no")}
    assert data.noise is not None
    assert data.noise.shape == (200, 40)
    broken, damaged = sorted(
        (finding.sentence for finding in findings if finding.reason != SoundFault.NOT_CHOSEN.value),
        key=lambda reason: "anna_nohash_9.wav" in reason,
    )
    assert "broken.wav" in broken and "anna_nohash_9.wav" in damaged


def test_a_device_may_take_one_speakers_clips_only(tmp_path: Path) -> None:
    for speaker, takes in (("anna", 4), ("bert", 3)):
        for take in range(takes):
            _say(tmp_path, "yes", speaker, take)
    data, _ = load_clips(tmp_path, PACK, speaker="bert")
    assert len(data.train) + len(data.held_out) == 3
    assert data.noise is None
    with pytest.raises(DataError, match="cleo"):
        load_clips(tmp_path, PACK, speaker="cleo")


def test_a_folder_without_known_words_is_a_sentence(tmp_path: Path) -> None:
    _say(tmp_path, "zebra", "anna", 0)
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError):
            load_clips(folder, PACK)
