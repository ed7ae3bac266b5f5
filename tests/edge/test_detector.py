"""The detector on sound made for it: the same however it is cut, features as in training, gaps, figures."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auricle.errors import DataError, SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.start import start_weights
from auricle.speech.audio import read_clip
from auricle.speech.clip_folder import scan_folder
from auricle.speech.features import LogMel
from auricle_edge.listening.detect import Detector, DetectSettings, Recognise, ensemble
from auricle_edge.listening.detect.hops import Ring
from auricle_edge.listening.sound import RATE, Block, Detection
from auricle_learning.runtimes import StepRuntime, recogniser

PACK = load_pack("gsc12")
TASK = PACK.manifest.task
FRONTEND = LogMel(TASK)
LABELS = ("low", "high", "_silence_")
SETTINGS = DetectSettings(smoothing=2, patience=2, threshold=0.6, refractory=0.5)
RECORDED = Path(os.environ.get("AURICLE_SPEECH", Path(__file__).parents[3] / "shared" / "data")) / "gsc"


def _by_pitch(features: np.ndarray) -> np.ndarray:
    """A recogniser that needs no weights: how loud low and high bands are in the middle of the window."""
    middle = features[:, 30:70]
    scores = np.stack([middle[:, :, 5:15].mean((1, 2)), middle[:, :, 25:35].mean((1, 2))], axis=1)
    return np.exp(8 * np.c_[scores, np.full(len(scores), 0.4)]) / np.exp(8 * np.c_[scores, [0.4]]).sum(1, keepdims=True)


def _sound(words: Sequence[tuple[float, str]], seconds: float, seed: int = 0) -> np.ndarray:
    """Faint noise, and at the given seconds a `low` or `high` tone of 400 ms."""
    rng = np.random.default_rng(seed)
    sound = rng.standard_normal(int(seconds * RATE)) * 20
    time = np.arange(int(0.4 * RATE)) / RATE
    for second, word in words:
        start = int(second * RATE)
        sound[start : start + len(time)] += 6000 * np.sin(2 * np.pi * (500 if word == "low" else 3000) * time)
    return sound.astype(np.int16)


def _blocks(sound: np.ndarray, sizes: Iterable[int], start: int = 0) -> list[Block]:
    """Blocks of these sizes, the last one repeated; each arrives when its last sample would have been spoken."""
    sizes, blocks, place, size = iter(sizes), [], 0, 1600
    while place < len(sound):
        size = next(sizes, size)
        samples = sound[place : place + size]
        place += len(samples)
        blocks.append(Block(samples, start + place - len(samples), (start + place) / RATE))
    return blocks


def _run(detector: Detector, blocks: Iterable[Block]) -> list[Detection]:
    return [detection for block in blocks for detection in detector.feed(block)]


def _detector(recognise: Recognise = _by_pitch, chosen: DetectSettings = SETTINGS, **options: object) -> Detector:
    return Detector(FRONTEND, LABELS, recognise, chosen, **options)  # type: ignore[arg-type]


WORDS = [(2.0, "low"), (3.5, "high"), (5.0, "low")]
SOUND = _sound(WORDS, 6.5)


def test_it_hears_each_word_once_and_says_where() -> None:
    """The end of the word by its energy is the end of the tone to 30 ms; the window holds the word; no id twice."""
    found = _run(_detector(), _blocks(SOUND, [1600]))
    assert [d.word for d in found] == [word for _, word in WORDS]
    for detection, (second, _) in zip(found, WORDS, strict=True):
        assert detection.word_end == pytest.approx((second + 0.4) * RATE, abs=480)
        assert detection.start <= second * RATE and detection.word_end <= detection.end
        assert detection.end - detection.start == TASK.clip_samples
        assert 0.6 <= detection.score <= 1 and detection.model == "plugin"
    assert len({d.id for d in found}) == 3 and all(len(bytes.fromhex(d.id)) == 6 for d in found)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 20000), max_size=15), st.integers(100, 5000), st.integers(0, 10**9))
def test_the_same_sound_gives_the_same_detections_however_it_is_cut(sizes: list[int], rest: int, start: int) -> None:
    fields = ("word", "score", "start", "end", "word_end")
    expected = [[getattr(d, f) for f in fields] for d in _run(_detector(), _blocks(SOUND, [1600]))]
    found = _run(_detector(), _blocks(SOUND, [*sizes, rest], start))
    assert [[d.word, d.score, d.start - start, d.end - start, d.word_end - start] for d in found] == expected


@pytest.mark.parametrize("hop", [0.05, 0.1, 0.25])
def test_windows_are_the_front_ends_of_the_same_sound(hop: float) -> None:
    """A window's energies are those of LogMel on the clip from `start` to `end`, to float32's last digits, but for the
    first and the last frame, which see 7.5 ms of sound where a clip alone has zeros."""
    seen: list[np.ndarray] = []

    def keep(features: np.ndarray) -> np.ndarray:
        seen.append(features)
        return np.zeros((1, 3), np.float32)

    sound = np.random.default_rng(0).integers(-9000, 9000, 3 * RATE // 2).astype(np.int16)
    _run(_detector(keep, DetectSettings(vad="off", hop=hop)), _blocks(sound, [1234]))
    before = np.zeros(240, np.int16)
    padded = np.concatenate((before, sound))
    whole = LogMel(msgspec.structs.replace(TASK, clip_samples=16_240))
    ends = range(RATE, len(sound) + 1, round(hop * RATE))
    assert len(seen) == len(ends)
    for features, end in zip(seen, ends, strict=True):
        around = padded[end - RATE : end + 240]
        energies = whole.energies(around[None])
        assert np.abs(features - FRONTEND.finish(energies)).max() <= 1e-5
        clip = around[120:-120]
        np.testing.assert_allclose(energies[0, 1:-1], FRONTEND.energies(clip[None])[0, 1:-1], rtol=1e-5)


def test_a_gap_begins_anew() -> None:
    cut = int(2.2 * RATE)
    lost = 3 * RATE
    after = SOUND[int(3.0 * RATE) :]
    detector = _detector()
    assert _run(detector, _blocks(SOUND[:cut], [1600])) == []
    found = _run(detector, _blocks(after, [1600], cut + lost))
    fresh = _run(_detector(), _blocks(after, [1600], cut + lost))
    assert [d.word for d in found] == ["high", "low"]
    timeless = {"id": "", "at": 0.0, "latency": 0.0}
    assert [dataclasses.replace(d, **timeless) for d in found] == [dataclasses.replace(d, **timeless) for d in fresh]
    assert detector.figures.hours == pytest.approx((cut + len(after)) / RATE / 3600)
    assert not detector.audio(cut, cut + lost).any()
    assert np.array_equal(detector.audio(cut - 100, cut), SOUND[cut - 100 : cut])


def test_samples_that_came_before_are_passed_over() -> None:
    blocks = _blocks(SOUND, [1600])
    twice = [
        piece for b in blocks for piece in (b, Block(SOUND[max(0, b.start - 500) : b.end], max(0, b.start - 500), 0))
    ]
    detector = _detector()
    assert [d.word for d in _run(detector, twice)] == [word for _, word in WORDS]
    assert detector.newest == len(SOUND)


def test_sound_is_kept_for_as_long_as_the_ring_is() -> None:
    detector = _detector(chosen=DetectSettings(ring=3.0))
    _run(detector, _blocks(SOUND, [1600]))
    assert detector.newest - detector.oldest == 3 * RATE
    assert np.array_equal(detector.audio(detector.oldest, detector.newest), SOUND[-3 * RATE :])
    with pytest.raises(DataError, match=r"last 3\.0 seconds"):
        detector.audio(detector.oldest - 1, detector.newest)


def test_the_latency_is_counted_from_the_arrival_of_the_words_last_sample() -> None:
    now = [0.0]
    detector = _detector(clock=lambda: now[0])
    for block in _blocks(SOUND, [1600]):
        now[0] = block.arrived
        for detection in detector.feed(block):
            assert detection.latency == pytest.approx((block.end - detection.word_end) / RATE, abs=1e-6)
    figures = detector.figures
    assert figures.latency_p50 is not None and figures.latency_p95 is not None
    assert 0 < figures.latency_p50 <= figures.latency_p95 < 1


def test_a_new_model_judges_from_the_next_block_on() -> None:
    detector = _detector()
    blocks = _blocks(SOUND, [1600])
    first = _run(detector, blocks[:30])
    with pytest.raises(SettingsError):
        detector.replace(_by_pitch, "personal", {"lowe": 0.5})
    detector.replace(lambda features: _by_pitch(features)[:, [1, 0, 2]], "personal", {"low": 1.0})
    second = _run(detector, blocks[30:])
    assert [(d.word, d.model) for d in first] == [("low", "plugin")]
    assert [(d.word, d.model) for d in second] == [("high", "personal")]


def test_models_may_be_replaced_from_another_thread_while_it_listens() -> None:
    detector, done = _detector(), threading.Event()

    def replace() -> None:
        for turn in range(500):
            detector.replace(_by_pitch, ("personal", "ensemble")[turn % 2])
            detector.audio(detector.oldest, detector.oldest)
            detector.figures  # noqa: B018
        done.set()

    thread = threading.Thread(target=replace)
    thread.start()
    found = _run(detector, _blocks(SOUND, [160]))
    thread.join(60)
    assert done.is_set()
    assert [d.word for d in found] == [word for _, word in WORDS]
    assert {d.model for d in found} <= {"plugin", "personal", "ensemble"}


def test_it_counts_what_it_does() -> None:
    detector = _detector()
    figures = detector.figures
    assert (figures.hours, figures.detections, figures.latency_p50, figures.second_share) == (0, 0, None, 0)
    found = _run(detector, _blocks(SOUND, [1600]))
    assert detector.denied(found[0].id)
    assert not detector.denied(found[0].id) and not detector.denied("000000000000")
    figures = detector.figures
    assert (figures.wakes, figures.timeouts, figures.second_windows) == (0, 0, 0)
    assert (figures.detections, dict(figures.by_word), figures.denied) == (3, {"low": 2, "high": 1}, 1)
    assert figures.hours == pytest.approx(6.5 / 3600)
    assert figures.detections_per_hour == pytest.approx(3 / (6.5 / 3600))
    assert figures.denied_per_hour == pytest.approx(1 / (6.5 / 3600))
    assert figures.windows == 65 - 9 and figures.open_share == 1
    assert figures.real_time_factor > 0


def test_nothing_is_judged_in_silence_nor_before_a_whole_window_was_heard() -> None:
    count = [0]

    def counting(features: np.ndarray) -> np.ndarray:
        count[0] += len(features)
        return np.zeros((len(features), 3), np.float32)

    detector = _detector(counting)
    _run(detector, _blocks(_sound([], 4.0), [1600]))
    assert count[0] <= 13
    assert not detector.speaking
    assert 0.25 <= detector.figures.open_share <= 0.6
    count[0] = 0
    always = _detector(counting, DetectSettings(vad="off"))
    _run(always, _blocks(_sound([], 0.99), [1600]))
    assert count[0] == 0 and always.figures.windows == 0
    _run(always, _blocks(_sound([], 1.0), [1600], always.newest))
    assert count[0] == 10 == always.figures.windows


@pytest.mark.parametrize("hop", [0.015, 0.123, 0.105])
def test_a_hop_that_does_not_fit_the_front_end_is_refused(hop: float) -> None:
    with pytest.raises(SettingsError, match=r"0\.01 seconds"):
        _detector(chosen=DetectSettings(hop=hop))


@pytest.mark.slow
def test_real_words_are_heard_in_the_stream_when_the_model_knows_them_as_clips() -> None:
    """Recorded keywords that the pack's plug-in is sure of, two seconds apart in a quiet room."""
    if not RECORDED.is_dir():
        pytest.skip("there is no recorded speech beside this checkout")
    recognise = recogniser(StepRuntime(PACK), PACK.manifest.plugin, start_weights(PACK, PACK.manifest.plugin))
    files = [clip for clip in scan_folder(RECORDED).clips if clip.word in PACK.labels[:-2]][::10]
    clips = np.stack([read_clip(clip.path) for clip in files])
    posteriors = recognise(FRONTEND(clips))
    known = [i for i, clip in enumerate(files) if posteriors[i, PACK.labels.index(clip.word)] > 0.9][:12]
    assert len(known) == 12
    sound = (np.random.default_rng(0).standard_normal((2 * len(known) + 1) * RATE) * 10).astype(np.int16)
    for place, index in enumerate(known):
        sound[(2 * place + 1) * RATE : (2 * place + 2) * RATE] += (clips[index] * 30000).astype(np.int16)
    chosen = DetectSettings(threshold=0.5)
    found, again = (
        [(d.word, d.score, d.word_end) for d in _run(Detector(FRONTEND, PACK.labels, recognise, chosen), blocks)]
        for blocks in (_blocks(sound, [1600]), _blocks(sound, [777]))
    )
    places = {
        (word, (end - RATE - 1) // (2 * RATE)) for word, _, end in found if (end - RATE - 1) % (2 * RATE) < 1.2 * RATE
    }
    assert sum((files[index].word, place) in places for place, index in enumerate(known)) >= 10
    assert again == found


def test_an_ensemble_is_the_mean_of_the_posteriors() -> None:
    """Of (1, 0) and (0.5, 0.5): (0.75, 0.25)."""
    parts = [lambda x, row=row: np.tile(np.array(row, np.float32), (len(x), 1)) for row in ([1, 0], [0.5, 0.5])]
    assert ensemble(parts)(np.zeros((2, 3, 4), np.float32)).tolist() == [[0.75, 0.25]] * 2


# -- the ring: the last samples by their number, across every wrap


RING = 50


@settings(max_examples=60)
@given(st.integers(0, 10**12), st.lists(st.tuples(st.booleans(), st.integers(0, 130)), max_size=12))
def test_it_holds_the_last_samples_of_what_came_with_silence_for_what_was_lost(
    start: int, pieces: list[tuple[bool, int]]
) -> None:
    ring = Ring(RING)
    ring.begin(start)
    all_ = np.zeros(0, np.int16)
    for lost, count in pieces:
        samples = np.zeros(count, np.int16) if lost else np.arange(len(all_) + 1, len(all_) + 1 + count, dtype=np.int16)
        all_ = np.concatenate((all_, samples))
        if lost:
            ring.skip(count)
        else:
            ring.append(samples)
    assert ring.newest == start + len(all_)
    assert ring.oldest == start + max(0, len(all_) - RING)
    assert np.array_equal(ring.read(ring.oldest, ring.newest), all_[-RING:])
    middle = (ring.oldest + ring.newest) // 2
    assert np.array_equal(ring.read(middle, ring.newest), all_[middle - start :])


def test_what_it_gives_is_a_copy() -> None:
    ring = Ring(4)
    ring.append(np.array([1, 2, 3, 4], np.int16))
    read = ring.read(0, 4)
    ring.append(np.array([5, 6], np.int16))
    assert (read.tolist(), ring.read(2, 6).tolist()) == ([1, 2, 3, 4], [3, 4, 5, 6])


@pytest.mark.parametrize("span", [(0, 4), (3, 7), (5, 4), (-1, 3)], ids=str)
def test_samples_that_are_not_held_are_refused(span: tuple[int, int]) -> None:
    ring = Ring(4)
    ring.append(np.arange(6, dtype=np.int16))
    with pytest.raises(DataError, match="not in memory"):
        ring.read(*span)
