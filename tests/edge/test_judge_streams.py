"""The judge on streams: what the detector itself would hear, counted by the second; a sign test by hand."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.edge.judge_toy import DETECT, PACK, RUNTIME, louder, negatives, taught
from tests.learning.toy import clips

from auricle.packs.first_weights import first_weights
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel, stream_energies
from auricle_edge.listening.detect import Detector, DetectSettings
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.training.judge.sound import JudgedSound, load_negatives
from auricle_edge.training.judge.streams import Streams, detections, first_part, in_quiet, join
from auricle_learning.runtimes import StepRuntime, recogniser
from auricle_learning.training.speech_data import Clips

NONE = Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))


def _bursts(seconds: int, seed: int = 0) -> np.ndarray:
    """Noise with louder stretches of some tone: what a model takes for words now and then."""
    rng = np.random.default_rng(seed)
    sound = rng.normal(0, 60, seconds * RATE)
    for start in range(RATE, len(sound) - RATE, 2 * RATE):
        length = int(rng.uniform(0.2, 0.6) * RATE)
        tones = sum(np.sin(2 * np.pi * rng.uniform(200, 4000) * np.arange(length) / RATE) for _ in range(4))
        sound[start : start + length] += rng.uniform(500, 4000) * np.hanning(length) * tones
    return sound.astype(np.int16)


@pytest.mark.parametrize(("vad", "hop"), [("energy", 0.1), ("off", 0.1), ("energy", 0.05)])
def test_a_stream_gives_the_detections_that_the_detector_gives_of_the_sound(vad: str, hop: float) -> None:
    pack = load_pack("gsc12")
    sound, frontend = _bursts(40), LogMel(pack.manifest.task)
    asked = msgspec.structs.replace(DetectSettings(), vad=vad, hop=hop, threshold=0.4, thresholds={"off": 0.3})
    recognise = recogniser(StepRuntime(pack), "crnn-lite", first_weights(pack, "crnn-lite", 0))
    detector = Detector(frontend, pack.labels, recognise, asked)
    blocks = [Block(sound[at : at + 1600], at, 0.0) for at in range(0, len(sound), 1600)]
    expected = [(d.end, d.word) for block in blocks for d in detector.feed(block)]
    streams = Streams(frontend, pack.labels, asked, [stream_energies(pack.manifest.task, sound)])
    (found,) = streams.heard(recognise)
    assert len(expected) >= 3
    lead = detector._hops.lead
    assert [(round((h + 1) * hop * RATE) - lead, pack.labels[label]) for h, label in found] == expected
    assert streams.hours * 3600 == pytest.approx(40)
    assert streams.seconds() == [40]


WAITS = DetectSettings(
    smoothing=1, patience=1, refractory=0.0, threshold=0.5, thresholds={"up": 0.6}, wake=("up",), commands={"go": 0.3}
)


def test_while_the_device_waits_no_command_is_accepted() -> None:
    """`up` at its own 0.6, though `go` is higher in hop 3; awake `go` counts at 0.3, and `no` keeps its usual 0.5."""
    labels = ("up", "go", "no", "_unknown_")
    rows = np.zeros((6, 4), np.float32)
    rows[0, 1], rows[1, 0], rows[3, :2], rows[4, 1], rows[5, 2] = 0.9, 0.55, (0.6, 0.7), 0.2, 0.45
    assert detections(rows, labels, WAITS) == [(3, 0)]
    assert detections(rows, labels, WAITS, awake=True) == [(0, 1), (3, 1)]
    always = msgspec.structs.replace(WAITS, wake=(), commands={})
    assert detections(rows, labels, always) == [(0, 1), (3, 1)]


def test_with_a_wake_word_commands_are_no_false_accepts_and_held_out_ones_come_after_it() -> None:
    always = np.zeros(PACK.plugin_table.size, np.float32)
    always[-3:] = (0, 5, 0)
    asked = msgspec.structs.replace(DETECT, wake=("low",))
    carried = load_negatives(PACK, asked, 15, negatives(3).streams.stretches)
    sound = JudgedSound(RUNTIME, asked, carried, clips(9, 1000))
    heard = sound.heard("crnn-lite", always)
    assert negatives(3).accepts(RUNTIME, "crnn-lite", always).sum() == 3
    assert heard.false_accepts == 0
    assert heard.hits.tolist() == [0, 1] * 3


def test_energies_of_a_recording_do_not_depend_on_the_piece_they_were_computed_in() -> None:
    task = load_pack("gsc12").manifest.task
    sound = np.tile(_bursts(8), 5)[: 31 * RATE + 77]
    whole, later = stream_energies(task, sound), stream_energies(task, sound[29 * RATE :])
    assert whole.shape == (3100, 40)
    assert np.allclose(whole[2902:], later[2:], rtol=1e-4, atol=1e-9)


def test_false_accepts_are_counted_in_the_second_in_which_they_were_decided() -> None:
    always = np.zeros(PACK.plugin_table.size, np.float32)
    always[-3:] = (5, 0, 0)
    counts = negatives(3).accepts(RUNTIME, "crnn-lite", always)
    # A window is whole with hop 10; of three averaged ones two are above 0.6 with hops 11 and 12, counted from 1.
    assert counts.tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 0]


def test_own_negatives_are_one_stream_and_keywords_are_played_amid_their_quiet() -> None:
    held_out = clips(9, 1000)
    sound = JudgedSound(RUNTIME, DETECT, negatives(2), held_out)
    knows, deaf = (sound.heard("crnn-lite", louder(taught(), by)) for by in (0.0, -9.0))
    assert sound.hours * 3600 == pytest.approx(2 * 3 + 3)
    assert len(knows.accepts) == 2 * 3 + 3
    assert knows.hits.tolist() == [1] * 6
    assert deaf.hits.tolist() == [0] * 6
    assert deaf.false_accepts == 0


def test_other_sound_or_another_rule_has_another_digest() -> None:
    def digest(seed: int = 9, held_out: int = 9, **rule: int) -> str:
        asked = msgspec.structs.replace(DETECT, **rule)
        return JudgedSound(RUNTIME, asked, negatives(2, seed=seed), clips(held_out, 1000)).digest

    assert digest() == digest()
    assert len({digest(), digest(seed=3), digest(held_out=12), digest(patience=3)}) == 4


def test_without_any_sound_there_is_nothing_to_hear() -> None:
    sound = JudgedSound(RUNTIME, DETECT, load_negatives(PACK, DETECT, 15), NONE)
    heard = sound.heard("crnn-lite", PACK.plugin_table.initial(0))
    assert sound.hours == 0
    assert (len(heard.accepts), len(heard.hits), heard.per_hour) == (0, 0, 0.0)
    assert heard.detects(1.0)


def test_of_each_stretch_the_first_part_is_taken_but_no_less_than_asked() -> None:
    long, short = np.zeros((900, 40), np.float32), np.zeros((100, 40), np.float32)
    assert [len(part) for part in first_part([long, short], 500, 80)] == [450, 80]
    assert [len(part) for part in first_part([long, short], 5000, 80)] == [900, 100]
    assert join(np.zeros((0, 100, 40), np.float32)) == []
    assert [len(clip) for clip in in_quiet(np.ones((2, 100, 40), np.float32), 50)] == [200, 200]
