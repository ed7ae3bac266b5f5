"""How well a device hears: the same as its detector, stated with intervals, from folders and labelled recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.edge.evaluate_sounds import spoken_sources, waking_pack

from auricle.hearing.curve import curve_of
from auricle.hearing.rule import Rule, detect
from auricle.hearing.scenes import Piece, Scene, Spoken, Stretch
from auricle.hearing.sounds import Take
from auricle.hearing.waking import CommandCounts, Heard
from auricle.packs.pack import load_pack
from auricle.packs.start import start_weights
from auricle.speech.features import LogMel
from auricle_edge.evaluate.clips import ClipAccuracy, Share, clip_accuracy
from auricle_edge.evaluate.device import device_events
from auricle_edge.evaluate.listeners import waking_of
from auricle_edge.evaluate.plan import Plan, composed, planned
from auricle_edge.evaluate.report import Events, speakers_of
from auricle_edge.evaluate.sources import Folders, Sources, read_sources
from auricle_edge.evaluate.windows import said_of
from auricle_edge.listening.detect import Detector, DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.calibration import unsmoothed
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.runtimes import choose_runtime, recogniser

PACK = load_pack("gsc12")
FRONTEND = LogMel(PACK.manifest.task)
LABELS = len(PACK.labels)
RECOGNISE = recogniser(
    choose_runtime("auto", PACK, training=False).runtime, "crnn-lite", start_weights(PACK, "crnn-lite")
)


@pytest.fixture(scope="module")
def spoken() -> Sources:
    return spoken_sources()


@pytest.fixture(scope="module")
def scene(spoken: Sources) -> Scene:
    plan = planned(spoken, (), Plan(minutes=0.5))
    return composed(plan, 2, seed=1)


def test_windows_at_once_say_what_the_detector_says_one_by_one(scene: Scene) -> None:
    found = said_of(scene.samples, FRONTEND, [RECOGNISE], DetectSettings(), LABELS)[0].first
    one_by_one = unsmoothed(scene.samples, FRONTEND, PACK.labels, RECOGNISE, DetectSettings())
    assert found.shape == one_by_one.shape and found.any() and not found.all(axis=1).all()
    np.testing.assert_allclose(found, one_by_one, atol=2e-6)


def test_the_swept_rule_hears_what_a_detector_hears(scene: Scene) -> None:
    """At one threshold, on a composed scene: the same words at the same hops with the same scores."""
    settings = DetectSettings(threshold=0.3)
    detector = Detector(FRONTEND, PACK.labels, RECOGNISE, settings)
    hop = round(settings.hop * RATE)
    heard = [
        (start // hop, PACK.labels.index(found.word), found.score)
        for start in range(0, len(scene.samples) - hop + 1, hop)
        for found in detector.feed(Block(scene.samples[start : start + hop], start, 0.0))
    ]
    rows = said_of(scene.samples, FRONTEND, [RECOGNISE], settings, LABELS)[0].first
    swept = detect(rows, PACK.labels, np.array([0.1, 0.3, 0.9]), Rule())
    mine = swept.only(swept.threshold == 1)
    assert len(heard) >= 5
    assert list(zip(mine.hop.tolist(), mine.label.tolist(), strict=True)) == [row[:2] for row in heard]
    assert mine.score == pytest.approx([row[2] for row in heard], abs=1e-5)


def test_two_models_hear_the_same_sound_in_one_go(scene: Scene) -> None:
    other = recogniser(
        choose_runtime("auto", PACK, training=False).runtime, "crnn-base", PACK.table("crnn-base").initial(0)
    )
    both = [said.first for said in said_of(scene.samples, FRONTEND, [RECOGNISE, other], DetectSettings(), LABELS)]
    alone = said_of(scene.samples, FRONTEND, [other], DetectSettings(), LABELS)[0].first
    assert np.array_equal(both[1], alone) and not np.array_equal(both[0], both[1])


def test_sound_shorter_than_a_hop_has_no_window() -> None:
    found = said_of(np.zeros(100, np.int16), FRONTEND, [RECOGNISE], DetectSettings(), LABELS)
    assert found[0].first.shape == (0, LABELS)


def test_a_plan_has_every_kind_and_says_every_keyword_once_in_each(spoken: Sources) -> None:
    made = planned(spoken, (), Plan(minutes=0.5, rooms=True))
    scenes = [composed(made, number, seed=3) for number in range(len(made))]
    said = [(word.kind, word.word) for scene in scenes for word in scene.words]
    for kind in ("noise", "rooms", "over speech", "after words"):
        assert said.count((kind, "yes")) == 6 and said.count((kind, "stop")) == 6
    assert [s.kind for scene in scenes for s in scene.stretches] == ["speech", "words", "run together", "noise"]
    again = composed(made, 3, seed=3)
    assert np.array_equal(again.samples, scenes[3].samples)
    assert not np.array_equal(composed(made, 3, seed=4).samples, scenes[3].samples)


def test_wake_words_bring_scenes_of_commands(spoken: Sources) -> None:
    made = planned(spoken, ("stop",), Plan(minutes=0.5))
    kinds = [{w.kind for w in composed(made, number, 0).words} for number in range(len(made))]
    assert {"wake", "command"} <= kinds[3] <= {"wake", "command", "wake alone"}


def test_clips_are_judged_by_their_largest_posterior() -> None:
    """Loud clips are said to be `yes`, soft ones `_unknown_`: 2 of 3 keywords, 1 of 2 others, no silence right."""
    loud, soft = (np.full(16_000, value, np.float32) for value in (0.5, 0.01))
    sources = Sources(
        (Take("yes", "a", loud), Take("yes", "b", soft), Take("yes", "c", loud)),
        (Take("bed", "a", loud), Take("bed", "b", soft)),
        (),
        (),
        (soft,),
    )

    class Loudness(LogMel):
        """The mean itself."""

        def __call__(self, audio: np.ndarray) -> np.ndarray:
            return audio.mean(axis=1, dtype=np.float32)

    def recognise(features: np.ndarray) -> np.ndarray:
        return np.stack([features > 0.1, features < 0.1, features < 0], axis=1).astype(np.float32)

    found = clip_accuracy(sources, ("yes", "_unknown_", "_silence_"), Loudness(PACK.manifest.task), recognise)
    assert found == ClipAccuracy(Share(2, 3), Share(1, 2), Share(0, 1), 3)
    assert found.balanced == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_speakers_are_compared_who_say_five_words_or_more() -> None:
    """Anna 5 of 5, Ben 2 of 5, Eva says one."""
    words = [
        Spoken("yes", 32_000 * n, 32_000 * n + 1600, speaker, "noise", 10.0)
        for n, speaker in enumerate("a" * 5 + "b" * 5 + "e")
    ]
    rows = np.zeros((400, 12), np.float32)
    rows[[20 * n + 2 for n in (0, 1, 2, 3, 4, 5, 6, 10)], PACK.labels.index("yes")] = 0.9
    scenes = [
        Scene(np.zeros(0, np.int16), tuple(words)),
        Scene(np.zeros(0, np.int16), (), (Stretch("noise", 0, 16_000 * 3600),)),
    ]
    quiet = np.zeros((10, 12), np.float32)
    counts = curve_of([rows, quiet], scenes, PACK.labels, Rule(0.1, 1, 1), np.array([0.5]))
    found = speakers_of(counts)
    assert found is not None and (found.number, found.worst, found.median, found.best) == (2, 0.4, 0.7, 1.0)


def test_no_event_says_only_what_it_shows() -> None:
    assert Events(0, 2.0).rate == 0 and Events(0, 2.0).interval.high == pytest.approx(1.498, abs=1e-3)


def test_a_pack_listens_as_it_says() -> None:
    pack = waking_pack()
    settings = detect_settings(DetectTable(), pack)
    assert (settings.smoothing, settings.thresholds) == (2, {"stop": 0.4, "yes": 0.7})
    waking = waking_of(pack.labels, settings)
    assert waking is not None and waking.wake == ("stop",) and waking.thresholds == {"stop": 0.4}
    assert waking.commands["yes"] == 0.3 and waking.commands["up"] == 0.8 and "stop" not in waking.commands
    assert waking.window == 2.5 and waking.rule.smoothing == 2
    same = waking_of(pack.labels, detect_settings(DetectTable(threshold=0.6), pack))
    assert same is not None and same.thresholds == {"stop": 0.6}
    assert (same.commands["yes"], same.commands["up"]) == (0.3, 0.6)
    assert waking_of(PACK.labels, detect_settings(DetectTable(), PACK)) is None


def test_what_a_device_did_is_counted_by_kind_of_scene() -> None:
    """`stop` is heard in noise, not over speech; `yes` after it is, too; an hour of noise wakes it twice."""
    kinds = (("noise", "stop", 1.0), ("over speech", "stop", 4.0), ("wake", "stop", 10.0), ("command", "yes", 11.0))
    words = tuple(Spoken(w, round(s * RATE), round((s + 0.5) * RATE), "a", kind, 10.0) for kind, w, s in kinds)
    empty = np.zeros(0, np.int16)
    scenes = [Scene(empty, words), Scene(empty, (), (Stretch("noise", 0, 3600 * RATE),))]

    def at(word: str, seconds: float, *, command: bool = False) -> Heard:
        return Heard(word, round(seconds * RATE), command)

    found = [
        [at("stop", 1.6), at("stop", 10.6), at("yes", 11.7, command=True)],
        [at("stop", 50), at("up", 51, command=True), at("stop", 500)],
    ]
    device = device_events(scenes, found, ("stop",), 3.0)
    assert device.wakes == {"noise": Share(1, 1), "over speech": Share(0, 1), "wake": Share(1, 1)}
    assert device.wakes_by_word == {"stop": Share(2, 3)}
    assert device.false_wakes == {"noise": Events(2, 1.0)} and device.false_commands == {"noise": Events(1, 1.0)}
    assert device.wake_recordings == {}
    known = replace(scenes[1], pieces=(Piece("rain", 0, 60 * RATE), Piece("fan", 400 * RATE, 3600 * RATE)))
    again = device_events([scenes[0], known, known], [found[0], found[1], found[1]], ("stop",), 3.0)
    everything = again.wake_recordings["all"]
    assert dict(everything.false_accepts) == {"rain": 2, "fan": 2} and everything.heard == 2
    assert everything.hours == pytest.approx(1.0) and everything == again.wake_recordings["noise"]
    assert dict(again.command_recordings["all"].false_accepts) == {"rain": 2}
    assert device.commands == CommandCounts(
        wakes=1, woken=1, commands=1, reached=1, right=1, false_wakes=2, false_commands=1, hours=1.0
    )


def test_recordings_of_one_name_in_two_folders_stay_two(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for who in ("anna", "ben"):
        path = tmp_path / who / "hello" / "a_nohash_0.wav"
        path.parent.mkdir(parents=True)
        soundfile.write(path, rng.normal(0, 0.1, 16_000), 16_000)
    noise = tmp_path / "noise" / "hum.wav"
    noise.parent.mkdir()
    soundfile.write(noise, rng.normal(0, 0.1, 32_000), 16_000)

    folders = Folders(words=(tmp_path / "anna", tmp_path / "ben"), noise=(noise.parent,))
    names = read_sources(folders, ("yes",), ()).names

    assert sorted(names.values()) == ["ben/hello/a_nohash_0.wav", "hello/a_nohash_0.wav", "noise/hum.wav"]
