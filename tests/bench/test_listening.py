"""The listening bench: what counts as a hit, counted by hand, and a table of two sets of weights."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.listening import Row, heard, match, models_of, summary
from bench.listening_scene import RATE, Scene, Spoken, other_scene, words_scene
from bench.listening_worker import Found

from auricle.speech.audio import ClipFile


def _found(word: str, decided: float) -> Found:
    return Found(word, 0.9, decided, round(decided * RATE))


def test_a_hit_is_the_word_from_its_start_to_a_second_after_its_end() -> None:
    """Of four words two are hit; another word, a late one, a second detection and one out of nothing are wrong."""
    words = [Spoken(word, round(start * RATE), round((start + 0.5) * RATE)) for word, start in
             (("yes", 1.0), ("no", 3.0), ("yes", 5.0), ("no", 7.0))]  # fmt: skip
    found = [_found(*pair) for pair in (
        ("yes", 1.6), ("yes", 2.4), ("yes", 3.6), ("yes", 6.51), ("no", 8.5), ("no", 12.0))]  # fmt: skip
    matched = match(words, found)
    assert [(word.start / RATE, hit.decided) for word, hit in matched.hits] == [(1.0, 1.6), (7.0, 8.5)]
    assert matched.wrong == 4


def test_weights_are_a_model_with_or_without_a_file_or_several() -> None:
    """As in `--weights NAME=...`."""
    assert models_of("crnn-lite") == (("crnn-lite", None),)
    assert models_of("crnn-base:a.safetensors+crnn-lite") == (("crnn-base", "a.safetensors"), ("crnn-lite", None))


def _clip(path: Path, rng: np.random.Generator) -> Path:
    """Half a second of loud noise in a second of silence."""
    soundfile = pytest.importorskip("soundfile")
    samples = np.zeros(RATE, np.float32)
    samples[4000:12000] = 0.3 * rng.standard_normal(8000)
    soundfile.write(path, samples, RATE)
    return path


def test_scenes_are_listened_to_by_a_process_of_its_own(tmp_path: Path) -> None:
    """Words stand where the scene says, in noise; a process hears all of it and says what it took."""
    rng = np.random.default_rng(0)
    paths = [_clip(tmp_path / f"{i}.flac", rng) for i in range(3)]
    noise = [rng.standard_normal(3 * RATE).astype(np.float32)]
    scene = words_scene([ClipFile(path, "yes", "someone") for path in paths], noise, rng, (10, 20))
    assert [word.word for word in scene.words] == ["yes"] * 3
    for word in scene.words:
        assert word.end - word.start == pytest.approx(8000 * 0.98, abs=200)
        loud = scene.samples[word.start : word.end].astype(float)
        quiet = scene.samples[word.start - 8000 : word.start - 4000].astype(float)
        assert (loud**2).mean() > 5 * (quiet**2).mean()
    others = other_scene(paths, paths[:1], noise, rng, (10, 20), 60)
    assert [part.kind for part in others.parts] == ["speech", "words", "noise"]
    assert others.parts[-1].end == len(others.samples) and others.parts[1].start == others.parts[0].end
    given = argparse.Namespace(pack="gsc12", threshold=0.8, pace="fast")
    said = heard(Scene(scene.samples), tmp_path, given, (("crnn-lite", None),))
    assert said.pss_kb > 0 and said.real_time_factor > 0 and 0 < said.open_share <= 1


def test_the_table_has_medians_ranges_and_differences_seed_by_seed() -> None:
    """Hits 40 and 60 % before, 50 and 80 % after: 10 and 20 points more."""
    row = Row("before", 0, "someone", 4, 10, 1, {"speech": 1, "noise": 0}, {"speech": 0.5, "noise": 0.5},
              0.2, 0.4, 0.05, 0.004, 0.5, 49.0)  # fmt: skip
    second = replace(row, seed=1, hits=6, false_accepts={"speech": 3, "noise": 0}, latency_p50=None, latency_p95=None)
    after = [replace(row, weights="after", hits=5), replace(second, weights="after", hits=8)]
    lines = summary([row, second, *after])
    assert "false accepts/h (2.00 h)" in lines[0]
    assert lines[2].startswith(
        "| before | 50.0 (40.0 to 60.0) | 10.0 (10.0 to 10.0) | 2.0 (1.0 to 3.0) | 4.0 (2.0 to 6.0) |"
    )
    assert "| 200 (200 to 200) | 400 (400 to 400) | 0.40 (0.40 to 0.40) | 49.0 (49.0 to 49.0) |" in lines[2]
    assert lines[4].strip() == (
        "after less before, seed by seed: hits 15.0 (10.0 to 20.0) points, false accepts 0.0 (0.0 to 0.0) an hour"
    )
