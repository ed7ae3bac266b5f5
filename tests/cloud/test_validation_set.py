"""The operator's folder: which clips are taken, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

# ruff: noqa: E402 - soundfile may be missing
soundfile = pytest.importorskip("soundfile", reason="recordings are read with it")

from auricle.errors import DataError
from auricle.packs.pack import load_pack
from auricle.speech.audio import read_clip
from auricle.speech.features import LogMel
from auricle_cloud.evaluation.validation_set import ValidationSet, describe_cut, load_validation

DIGITS, GSC12 = load_pack("digits"), load_pack("gsc12")


def _record(folder: Path, counts: dict[str, int]) -> None:
    rng = np.random.default_rng(len(counts))
    for word, count in counts.items():
        (folder / word).mkdir(parents=True)
        for take in range(count):
            audio = rng.uniform(-0.1, 0.1, 12_000)
            soundfile.write(folder / word / f"anna{take % 3}_nohash_{take}.wav", audio, 16_000)


def test_clips_become_the_features_that_devices_compute(tmp_path: Path) -> None:
    _record(tmp_path, {"two": 2, "nine": 1, "hello": 3})

    found = load_validation(tmp_path, DIGITS)

    assert found.targets.tolist() == [2, 2, 9]
    due = LogMel(DIGITS.manifest.task)(read_clip(tmp_path / "two" / "anna0_nohash_0.wav")[None])
    assert found.features.shape == (3, 100, 40)
    assert np.array_equal(found.features[0], due[0])
    assert "3 clips of 2 of 10 labels; none of zero, one," in found.sentence


def test_other_words_are_the_unknown_ones_and_noise_is_silence(tmp_path: Path) -> None:
    _record(tmp_path, {"yes": 6, "no": 4, "hello": 20, "_background_noise_": 1})

    found = load_validation(tmp_path, GSC12)
    counts = np.bincount(found.targets, minlength=12)

    assert counts[GSC12.labels.index("yes")] == 6
    assert counts[GSC12.labels.index("_unknown_")] == 5
    assert counts[GSC12.labels.index("_silence_")] == 5
    assert np.isfinite(found.features).all()


def test_of_many_clips_every_label_gives_equally_many_and_the_seed_decides_which(tmp_path: Path) -> None:
    _record(tmp_path, {"one": 12, "two": 12, "three": 2})

    found, again, other = (load_validation(tmp_path, DIGITS, most=10, seed=seed) for seed in (0, 0, 1))

    assert np.bincount(found.targets).tolist() == [0, 4, 4, 2]
    assert np.array_equal(found.features, again.features)
    assert not np.array_equal(found.features, other.features)
    cut = f"Of the 26 clips of {tmp_path} 10 are taken: of each label equally many, as far as it has them."
    assert found.sentence.endswith(f". {cut}") and describe_cut(tmp_path, DIGITS, most=10) == cut
    assert describe_cut(tmp_path, DIGITS, most=26) == "" and "taken" not in load_validation(tmp_path, DIGITS).sentence


def test_a_damaged_clip_is_left_out_and_named(tmp_path: Path) -> None:
    _record(tmp_path, {"one": 2, "two": 1})
    (tmp_path / "one" / "anna1_nohash_1.wav").write_bytes(b"no audio")

    found = load_validation(tmp_path, DIGITS)

    assert found.targets.tolist() == [1, 2]
    assert len(found.skipped) == 1 and "anna1_nohash_1.wav" in found.skipped[0]


def test_a_folder_of_which_nothing_can_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs clips"):
        ValidationSet(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))
    _record(tmp_path / "other", {"hello": 1})
    with pytest.raises(DataError, match="no word"):
        load_validation(tmp_path / "other", DIGITS)
    _record(tmp_path, {"one": 1})
    (tmp_path / "one" / "anna0_nohash_0.wav").write_bytes(b"no audio")

    with pytest.raises(DataError, match=r"could be used.*anna0_nohash_0.wav"):
        load_validation(tmp_path, DIGITS)
    with pytest.raises(DataError, match="does not exist"):
        load_validation(tmp_path / "nowhere", DIGITS)


def test_features_are_kept_by_the_content_of_the_clips_and_never_trusted_when_damaged(tmp_path: Path) -> None:
    speech, cache = tmp_path / "speech", tmp_path / "cache"
    _record(speech, {"yes": 3, "no": 2, "_background_noise_": 1})
    (speech / "no" / "anna0_nohash_0.wav").write_bytes(b"no audio")

    first = load_validation(speech, GSC12, cache=cache)
    (kept,) = cache.iterdir()
    whole, when = kept.read_bytes(), kept.stat().st_mtime_ns
    again = load_validation(speech, GSC12, cache=cache)

    assert kept.stat().st_mtime_ns == when
    assert np.array_equal(first.features, again.features) and np.array_equal(first.targets, again.targets)
    assert (first.sentence, first.skipped) == (again.sentence, again.skipped)
    for damaged in (b"", whole[:-1], whole.replace(b"F32", b"I32")):
        kept.write_bytes(damaged)
        assert np.array_equal(load_validation(speech, GSC12, cache=cache).features, first.features)
        assert kept.read_bytes() == whole
    soundfile.write(speech / "yes" / "anna0_nohash_0.wav", np.zeros(12_000) + 0.01, 16_000)
    assert not np.array_equal(load_validation(speech, GSC12, cache=cache).features, first.features)
