"""How well a device hears: the same as its detector, stated with intervals, from folders and labelled recordings."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from auricle.cli import main
from auricle.hearing.curve import curve_of
from auricle.hearing.rule import Rule, detect
from auricle.hearing.scenes import Scene, Spoken, Stretch
from auricle.hearing.sounds import Take, spoken_span
from auricle.hearing.splits import noise_part, part_of
from auricle.hearing.waking import CommandCounts
from auricle.manifest import Listening
from auricle.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle.start import start_weights
from auricle_edge.detect import Detector, DetectSettings, recogniser
from auricle_edge.detect.unsmoothed import unsmoothed
from auricle_edge.evaluate.clips import ClipAccuracy, Share, clip_accuracy
from auricle_edge.evaluate.listeners import own_settings, waking_of
from auricle_edge.evaluate.plan import Plan, composed, planned
from auricle_edge.evaluate.report import Events, speakers_of
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import posteriors_of
from auricle_edge.runtimes import choose_runtime
from auricle_edge.sound import RATE, Block

PACK = load_pack("gsc12")
FRONTEND = LogMel(PACK.manifest.task)
RECOGNISE = recogniser(
    choose_runtime("auto", PACK, training=False).runtime, "crnn-lite", start_weights(PACK, "crnn-lite")
)


@pytest.fixture(scope="module")
def spoken() -> Sources:
    """Three voices that say four words, and noise."""
    pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")
    made = synthesise(SynthesisSettings("yes,stop,bed,cat", speakers=3, takes=2, snr_low=50, snr_high=60))
    takes = [
        Take(made.labels[label], made.speaker_names[speaker], clip.astype(np.float32) / 32_768)
        for clip, label, speaker in zip(made.audio, made.targets, made.speakers, strict=True)
    ]
    noise = tuple(np.asarray(sound, np.float32) for sound in made.noise)
    keywords = tuple(take for take in takes if take.word in ("yes", "stop"))
    words = tuple(take for take in takes if take.word in ("bed", "cat"))
    speech = tuple(np.concatenate([take.sound for take in words[i::3]]) for i in range(3))
    return Sources(keywords, words, (), speech, noise)


@pytest.fixture(scope="module")
def scene(spoken: Sources) -> Scene:
    plan = planned(spoken, (), Plan(minutes=0.5))
    return composed(plan, 2, seed=1)


def test_windows_at_once_say_what_the_detector_says_one_by_one(scene: Scene) -> None:
    found = posteriors_of(scene.samples, FRONTEND, [RECOGNISE], DetectSettings(), len(PACK.labels))[0]
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
    rows = posteriors_of(scene.samples, FRONTEND, [RECOGNISE], settings, len(PACK.labels))[0]
    swept = detect(rows, PACK.labels, np.array([0.1, 0.3, 0.9]), Rule())
    mine = swept.only(swept.threshold == 1)
    assert len(heard) >= 5
    assert list(zip(mine.hop.tolist(), mine.label.tolist(), strict=True)) == [row[:2] for row in heard]
    assert mine.score == pytest.approx([row[2] for row in heard], abs=1e-5)


def test_two_models_hear_the_same_sound_in_one_go(scene: Scene) -> None:
    other = recogniser(
        choose_runtime("auto", PACK, training=False).runtime, "crnn-base", start_weights(PACK, "crnn-base")
    )
    both = posteriors_of(scene.samples, FRONTEND, [RECOGNISE, other], DetectSettings(), len(PACK.labels))
    alone = posteriors_of(scene.samples, FRONTEND, [other], DetectSettings(), len(PACK.labels))
    assert np.array_equal(both[1], alone[0]) and not np.array_equal(both[0], both[1])


def test_sound_shorter_than_a_hop_has_no_window() -> None:
    found = posteriors_of(np.zeros(100, np.int16), FRONTEND, [RECOGNISE], DetectSettings(), len(PACK.labels))
    assert found[0].shape == (0, len(PACK.labels))


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
        (Take("bed", "a", loud), Take("bed", "b", soft)), (), (), (soft,),
    )  # fmt: skip

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


def waking_pack() -> Pack:
    """The shipped pack, with `stop` as its wake word and commands from 0.3 on."""
    says = Listening(
        smoothing=2, thresholds={"stop": 0.4, "yes": 0.7}, wake=("stop",), window=2.5, commands={"yes": 0.3, "no": 0.35}
    )
    return Pack(msgspec.structs.replace(PACK.manifest, listening=says), PACK.files)


def test_a_pack_listens_as_it_says() -> None:
    pack = waking_pack()
    settings = own_settings(pack)
    assert (settings.smoothing, settings.thresholds) == (2, {"stop": 0.4, "yes": 0.7})
    waking = waking_of(pack, settings)
    assert waking is not None and waking.wake == ("stop",) and waking.thresholds == {"stop": 0.4}
    assert waking.commands["yes"] == 0.3 and waking.commands["up"] == 0.8 and "stop" not in waking.commands
    assert waking.window == 2.5 and waking.rule.smoothing == 2
    assert own_settings(pack, 0.6).thresholds == {} and own_settings(pack, 0.6).threshold == 0.6
    assert waking_of(PACK, own_settings(PACK)) is None


# -- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spoken: Sources) -> Path:
    """Folders as a user has them: keywords and other words of six people, readings, noises."""
    import soundfile

    root = tmp_path_factory.mktemp("recordings")

    def write(path: Path, sound: np.ndarray) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound, RATE)

    people = [f"p{n}" for n in range(200)]
    test, rest = ([p for p in people if (part_of(p) == "test") == wanted][:3] for wanted in (True, False))
    for n, take in enumerate((*spoken.keywords, *spoken.words)):
        for person in (test[n % 3], rest[n % 3]):
            write(root / "speech" / take.word / f"{person}_nohash_{n}.wav", take.sound)
    noises = [f"n{n}.wav" for n in range(40)]
    for part in ("test", "validation", "train"):
        for n, name in enumerate([name for name in noises if noise_part(name) == part][:2]):
            write(root / "speech" / "_background_noise_" / name, spoken.noise[n])
    for n, sound in enumerate(spoken.speech):
        write(root / "reading" / f"{test[n]}-1.wav", sound)
    return root


def evaluate(folder: Path, *more: str) -> int:
    return main(
        ["edge", "evaluate", "--keywords", str(folder / "speech"), "--speech", str(folder / "reading"), *more]
    )  # fmt: skip


def test_it_prints_tables_of_80_columns_and_writes_every_figure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, page = tmp_path / "figures.csv", tmp_path / "page.html"
    files = ("--csv", str(table), "--html", str(page))
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", *files) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for said in (
        "crnn-lite: 26,572 weights, 36 keywords",
        "each word alone",
        "by speaker",
        "12 classes",
        "threshold 0.8",
    ):
        assert said in out
    rows = list(csv.DictReader(table.open(newline="")))
    hits = [row for row in rows if row["table"] == "hits, default"]
    assert [(row["what"], row["of"]) for row in hits] == [("noise", "12"), ("over speech", "12"), ("after words", "12")]
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows if row["table"] == "kind")
    html = page.read_text()
    assert html.count("<polyline") == 3 and "http" not in html and "<script" not in html


def test_its_json_puts_weights_side_by_side_with_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listeners = ("--weights", "lite=crnn-lite", "--weights", "both=crnn-lite+crnn-base")
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", "--json", *listeners) == 0
    found = json.loads(capsys.readouterr().out)
    assert [report["name"] for report in found["reports"]] == ["lite", "both"]
    assert found["speakers"] == 3 and found["seconds"] > 150 and found["took"] < found["seconds"]
    first = found["reports"][0]
    assert set(first["hours"]) == {"speech", "words", "run together", "noise"}
    point = first["kinds"][0]["points"][0]
    assert point["rate"] == 0.5 and 0 <= point["interval"]["low"] <= point["share"] <= point["interval"]["high"]
    assert not point["shown"] and len(first["curves"]["noise"]) == len(found["curve_rates"])
    assert 0 <= first["clips"]["balanced"] <= 1


def test_a_pack_with_wake_words_is_judged_asleep_and_awake(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = waking_pack()
    for name, content in {"manifest.json": pack.manifest_bytes, **pack.files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", "--pack", str(tmp_path), "--json") == 0
    report = json.loads(capsys.readouterr().out)["reports"][0]
    counts = CommandCounts(**report["commands"])
    assert counts.commands == 6 and counts.wakes == counts.commands + counts.alone
    assert counts.right + counts.wrong <= counts.commands and counts.hours == pytest.approx(
        sum(report["hours"].values())
    )
    assert [row["what"] for row in report["wake"]["stop"]][:3] == ["noise", "over speech", "after words"]


def test_a_labelled_recording_is_judged_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`yes` from 2.3 to about 2.8 s in ten seconds; a detection more than a second after it is a false accept."""
    import soundfile

    take = next((folder / "speech" / "yes").glob("*.wav"))
    clip, _ = soundfile.read(take, dtype="float32")
    first, last = spoken_span(clip)
    sound = np.random.default_rng(0).normal(0, 1e-3, 160_000).astype(np.float32)
    sound[32_000:48_000] += clip
    soundfile.write(tmp_path / "kitchen.wav", sound, RATE)
    start, end = 2 + first / RATE, 2 + last / RATE
    (tmp_path / "kitchen.txt").write_text(f"{start:.6f}\t{end:.6f}\tYes\n5.0\t6.0\tlaughter\n\\\t100\t200\n")
    files = ("--recording", str(tmp_path / "kitchen.wav"), "--labels", str(tmp_path / "kitchen.txt"))
    assert main(["edge", "evaluate", *files, "--json", "--threshold", "0.1"]) == 0
    report = json.loads(capsys.readouterr().out)["reports"][0]
    assert report["words"] == 1 and report["kinds"][0]["what"] == "recording"
    assert report["hours"]["recording"] == pytest.approx((10 - (end - start) - 1) / 3600, rel=1e-3)
    setting = report["settings"][0]
    assert setting["hits"]["recording"] == {"right": 1, "of": 1}
    assert 0 < setting["latency_p50"] <= 1
    assert report["by_snr"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--part", "tests"], 'no part "tests" of the speakers: did you mean "test"'),
        (["--weights", "crnn-lite"], "is not NAME=MODEL"),
        (["--weights", "a=crnn-lite", "--weights", "a=crnn-base"], "names a twice"),
        (["--weights", "a=crnn-light"], 'no model "crnn-light": did you mean "crnn-lite"'),
        (["--weights", "a=crnn-lite:missing.safetensors"], "missing.safetensors cannot be read"),
        (["--validate"], "--part test"),
        (["--recording", __file__], "1 of --recording and 0 of --labels"),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, *options) == 2
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize("line", ["1.0 2.0 yes", "2.0\t1.0\tyes", "0\tnan\tyes", "0\t1\t"])
def test_a_line_that_is_no_label_is_named(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import soundfile

    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), RATE)
    (tmp_path / "a.txt").write_text("0.1\t0.2\tyes\n" + line + "\n")
    files = ["--recording", str(tmp_path / "a.wav"), "--labels", str(tmp_path / "a.txt")]
    assert main(["edge", "evaluate", *files]) == 2
    assert "a.txt, line 2" in capsys.readouterr().err


def test_nobody_of_the_part_is_said_before_it_listens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All readers are in the test part."""
    assert evaluate(folder, "--part", "train", "--minutes", "0.5") == 0
    assert "Nothing of --speech belongs to the train part" in capsys.readouterr().err
