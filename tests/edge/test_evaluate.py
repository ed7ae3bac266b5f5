"""How well a device hears: the same as its detector, stated with intervals, from folders and labelled recordings."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.core.bare_pack import bare_pack, with_own_model
from tests.edge.evaluate_sounds import spoken_sources, waking_pack

from auricle.errors import SettingsError
from auricle.hearing.command_counts import CommandCounts
from auricle.hearing.curve import curve_of
from auricle.hearing.rule import Rule, detect
from auricle.hearing.scenes import Piece, Scene, Spoken, Stretch
from auricle.hearing.sounds import Take, fingerprint, word_span
from auricle.hearing.splits import noise_part, part_of
from auricle.hearing.waking import Heard
from auricle.packs.pack import load_pack, pack_bytes
from auricle.packs.start import start_weights
from auricle.process.cli import main
from auricle.speech.features import LogMel
from auricle_edge.evaluate.clips import ClipAccuracy, Share, clip_accuracy
from auricle_edge.evaluate.device import device_events
from auricle_edge.evaluate.listeners import waking_of
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.evaluate.report import Events, setting_of, speakers_of
from auricle_edge.evaluate.sources import Folders, Sources, read_sources
from auricle_edge.evaluate.windows import judge_windows
from auricle_edge.listening.detect import Detector, DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.detect.calibration import read_posteriors
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import recogniser

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
    plan = plan_scenes(spoken, (), Plan(minutes=0.5))
    return compose_scene(plan, 2, seed=1)


@pytest.mark.slow
def test_windows_at_once_say_what_the_detector_says_one_by_one(scene: Scene) -> None:
    found = judge_windows(scene.samples, FRONTEND, [RECOGNISE], DetectSettings(), LABELS)[0].first
    one_by_one = read_posteriors(scene.samples, FRONTEND, PACK.labels, RECOGNISE, DetectSettings())
    assert found.shape == one_by_one.shape and found.any() and not found.all(axis=1).all()
    np.testing.assert_allclose(found, one_by_one, atol=2e-6)


def test_the_swept_rule_hears_what_a_detector_hears(scene: Scene) -> None:
    settings = DetectSettings(threshold=0.3)
    detector = Detector(FRONTEND, PACK.labels, RECOGNISE, settings)
    hop = round(settings.hop * RATE)
    heard = [
        (start // hop, PACK.labels.index(found.word), found.score)
        for start in range(0, len(scene.samples) - hop + 1, hop)
        for found in detector.feed(Block(scene.samples[start : start + hop], start, 0.0))
    ]
    rows = judge_windows(scene.samples, FRONTEND, [RECOGNISE], settings, LABELS)[0].first
    swept = detect(rows, PACK.labels, np.array([0.1, 0.3, 0.9]), Rule())
    mine = swept.only(swept.threshold == 1)
    assert len(heard) >= 5
    assert list(zip(mine.hop.tolist(), mine.label.tolist(), strict=True)) == [row[:2] for row in heard]
    assert mine.score == pytest.approx([row[2] for row in heard], abs=1e-5)


def test_two_models_hear_the_same_sound_in_one_go_and_sound_shorter_than_a_hop_has_no_window(scene: Scene) -> None:
    other = recogniser(
        choose_runtime("auto", PACK, training=False).runtime, "crnn-base", PACK.table("crnn-base").initial(0)
    )
    both = [said.first for said in judge_windows(scene.samples, FRONTEND, [RECOGNISE, other], DetectSettings(), LABELS)]
    alone = judge_windows(scene.samples, FRONTEND, [other], DetectSettings(), LABELS)[0].first
    assert np.array_equal(both[1], alone) and not np.array_equal(both[0], both[1])
    short = judge_windows(np.zeros(100, np.int16), FRONTEND, [RECOGNISE], DetectSettings(), LABELS)
    assert short[0].first.shape == (0, LABELS)


def test_a_plan_has_every_kind_and_says_every_keyword_once_in_each(spoken: Sources) -> None:
    made = plan_scenes(spoken, (), Plan(minutes=0.5, rooms=True))
    scenes = [compose_scene(made, number, seed=3) for number in range(len(made))]
    said = [(word.kind, word.word) for scene in scenes for word in scene.words]
    for kind in ("noise", "rooms", "over speech", "after words"):
        assert said.count((kind, "yes")) == 6 and said.count((kind, "stop")) == 6
    assert [s.kind for scene in scenes for s in scene.stretches] == ["speech", "words", "run together", "noise"]
    again = compose_scene(made, 3, seed=3)
    assert np.array_equal(again.samples, scenes[3].samples)
    assert not np.array_equal(compose_scene(made, 3, seed=4).samples, scenes[3].samples)


def test_wake_words_bring_scenes_of_commands(spoken: Sources) -> None:
    made = plan_scenes(spoken, ("stop",), Plan(minutes=0.5))
    kinds = [{w.kind for w in compose_scene(made, number, 0).words} for number in range(len(made))]
    assert {"wake", "command"} <= kinds[3] <= {"wake", "command", "wake alone"}


def test_clips_are_judged_by_their_largest_posterior() -> None:
    """Loud clips are said to be `yes`, soft ones `_unknown_`: 2 of 3 keywords, 1 of 2 others, no silence right."""
    loud, soft = (np.full(16_000, value, np.float32) for value in (0.5, 0.01))
    keywords = (Take("yes", "a", loud), Take("yes", "b", soft), Take("yes", "c", loud))
    sources = Sources(keywords, (Take("bed", "a", loud), Take("bed", "b", soft)), (), (), (soft,))

    class Loudness(LogMel):
        def __call__(self, audio: np.ndarray) -> np.ndarray:
            return audio.mean(axis=1, dtype=np.float32)

    def recognise(features: np.ndarray) -> np.ndarray:
        return np.stack([features > 0.1, features < 0.1, features < 0], axis=1).astype(np.float32)

    found, right = clip_accuracy(sources, ("yes", "_unknown_", "_silence_"), Loudness(PACK.manifest.task), recognise)
    assert found == ClipAccuracy(Share(2, 3), Share(1, 2), Share(0, 1), 3)
    assert found.balanced == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert right == {fingerprint(loud)}


def test_of_keywords_that_are_right_alone_it_says_how_many_are_heard() -> None:
    """Of three in noise two are right alone, one of them is heard; the third is heard, too."""
    words = [
        replace(Spoken("yes", 32_000 * n, 32_000 * n + 1600, "a", "noise", 10.0), recording=r)
        for n, r in enumerate("xyz")
    ]
    rows = np.zeros((100, 12), np.float32)
    rows[[2, 42], PACK.labels.index("yes")] = 0.9
    scene, hour = np.zeros(0, np.int16), (Stretch("noise", 0, 16_000 * 3600),)
    given = ({"yes": 0.5}, [rows, rows[:10] * 0], [Scene(scene, tuple(words)), Scene(scene, (), hour)], PACK.labels)
    known = setting_of("s", *given, Rule(0.1, 1, 1), {"x", "y"})
    assert known.hits == {"noise": Share(2, 3)} and known.clear == {"noise": Share(1, 2)}
    assert setting_of("s", *given, Rule(0.1, 1, 1)).clear == {}


def test_speakers_are_compared_who_say_five_words_or_more() -> None:
    """Anna 5 of 5, Ben 2 of 5, Eva says one."""
    words = [
        Spoken("yes", 32_000 * n, 32_000 * n + 1600, speaker, "noise", 10.0) for n, speaker in enumerate("aaaaabbbbbe")
    ]
    rows = np.zeros((400, 12), np.float32)
    rows[[20 * n + 2 for n in (0, 1, 2, 3, 4, 5, 6, 10)], PACK.labels.index("yes")] = 0.9
    empty, hour = np.zeros(0, np.int16), (Stretch("noise", 0, 16_000 * 3600),)
    scenes = [Scene(empty, tuple(words)), Scene(empty, (), hour)]
    counts = curve_of([rows, rows[:10] * 0], scenes, PACK.labels, Rule(0.1, 1, 1), np.array([0.5]))
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
    said = (("stop", 1.6), ("stop", 10.6), ("yes", 11.7)), (("stop", 50), ("up", 51), ("stop", 500))
    found = [[Heard(word, round(at * RATE), word != "stop") for word, at in each] for each in said]
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
    once = dict.fromkeys(("wakes", "woken", "commands", "reached", "right", "false_commands"), 1)
    assert device.commands == CommandCounts(**once, false_wakes=2, hours=1.0)


def test_all_of_another_language_is_no_keyword_and_no_folder_has_both_roles(tmp_path: Path) -> None:
    for root, word in (("words", "stop"), ("foreign", "stop"), ("foreign", "bed")):
        (tmp_path / root / word).mkdir(parents=True)
        soundfile.write(tmp_path / root / word / "ann_nohash_0.wav", np.full(16_000, 0.1), 16_000)
    words, foreign = (tmp_path / "words",), (tmp_path / "foreign",)
    sources = read_sources(Folders(keywords=words, languages=foreign), ("stop",), ())
    assert [len(sources.keywords), len(sources.languages)] == [1, 2]
    with pytest.raises(SettingsError, match="foreign"):
        read_sources(Folders(keywords=(*words, *foreign), languages=foreign), ("stop",), ())


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


# -- the command: its tables, files and refusals


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as a user has them: keywords and other words of six people, readings, noises."""
    import soundfile

    root, spoken = tmp_path_factory.mktemp("recordings"), spoken_sources()

    def write(path: Path, sound: np.ndarray) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, sound, RATE)

    people = [f"p{n}" for n in range(200)]
    test, known = ([p for p in people if part_of(p) == part][:3] for part in ("test", "validation"))
    for n, take in enumerate((*spoken.keywords, *spoken.words)):
        for person in (test[n % 3], known[n % 3]):
            write(root / "speech" / take.word / f"{person}_nohash_{n}.wav", take.sound)
    noises = [f"n{n}.wav" for n in range(40)]
    for part in ("test", "validation", "train"):
        for n, name in enumerate([name for name in noises if noise_part(name) == part][:2]):
            write(root / "speech" / "_background_noise_" / name, spoken.noise[n])
    for n, sound in enumerate(spoken.speech):
        write(root / "reading" / f"{test[n]}-1.wav", sound)
    return root


def evaluate(folder: Path, *more: str) -> int:
    folders = ("--keywords", str(folder / "speech"), "--speech", str(folder / "reading"))
    return main(["edge", "evaluate", "--pack", "gsc12", *folders, *more])


def figures(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[str, list[dict[str, str]], str]:
    """What half a minute of the test part prints, in 80 columns, and the rows and the page that it writes."""
    table, page = tmp_path / "figures.csv", tmp_path / "page.html"
    files = ("--csv", str(table), "--html", str(page))
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", *files, *more) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    return out, list(csv.DictReader(table.open(newline=""))), page.read_text()


@pytest.mark.slow
def test_it_prints_tables_of_80_columns_and_writes_every_figure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, rows, html = figures(folder, tmp_path, capsys)
    assert "26,572 weights, 36 keywords" in out
    hits = [row for row in rows if row["table"] == "hits, default"]
    assert [(row["what"], row["of"]) for row in hits] == [("noise", "12"), ("over speech", "12"), ("after words", "12")]
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows if row["table"] == "kind")
    assert html.count("<polyline") == 3 and "http" not in html and "<script" not in html


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A pack with weights for a second model."""
    path = tmp_path_factory.mktemp("pack") / "two.tar.zst"
    path.write_bytes(pack_bytes(with_own_model(bare_pack("gsc12"), "crnn-base")))
    return str(path)


@pytest.mark.slow
def test_its_json_puts_weights_side_by_side_with_intervals(
    folder: Path, two_models: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listeners = ("--pack", two_models, "--weights", "lite=crnn-lite", "--weights", "both=crnn-lite+crnn-base")
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


@pytest.mark.slow
def test_it_names_the_recordings_that_false_accepts_come_from(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a threshold of 0.1 there are many: in the text, the table and the page, as many as false accepts in all."""
    out, rows, page = figures(folder, tmp_path, capsys, "--threshold", "0.1")

    def of(table: str) -> dict[str, dict[str, str]]:
        return {row["what"]: row for row in rows if row["table"] == f"{table}, default"}

    named = {what: int(row["counted"]) for what, row in of("by recording, false accepts").items()}
    accepts = of("false accepts an hour").values()
    assert sum(named.values()) == sum(int(row["counted"]) for row in accepts) > 0
    assert all((folder / "speech" / name).is_file() or (folder / name).is_file() for name in named)
    share, once = of("recordings with false accepts")["all"], of("each recording once, false accepts")["all"]
    assert int(share["counted"]) == len(named) <= int(share["of"])
    assert once["counted"] == share["counted"] and float(once["of"]) < sum(float(row["of"]) for row in accepts)
    assert f"{len(named)} of {share['of']} recordings" in out
    worst = next(iter(named))
    assert f"{named[worst]} x {worst}" in out.replace("   ", "") and f"{named[worst]} x {worst}" in page


@pytest.mark.slow
def test_a_pack_with_wake_words_is_judged_asleep_and_awake(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = waking_pack()
    for name, content in {"manifest.json": pack.manifest_bytes, **pack.files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", "--pack", str(tmp_path), "--json") == 0
    report = json.loads(capsys.readouterr().out)["reports"][0]
    device = report["device"]
    counts = CommandCounts(**device["commands"])
    assert counts.commands == 6 and counts.wakes == counts.commands + counts.alone
    assert counts.right + counts.wrong <= counts.commands and counts.hours == pytest.approx(
        sum(report["hours"].values())
    )
    over = CommandCounts(**device["over_speech"])
    assert over.commands == 6 and over.wakes == over.commands + over.alone and over.hours == 0
    assert over.false <= over.opened <= over.alone
    kinds = {"noise", "over speech", "after words", "wake", "wake alone", "wake over", "alone over"}
    assert set(device["wakes"]) <= kinds
    assert device["wakes"]["wake"]["of"] == 6 and device["wakes_by_word"]["stop"]["of"] >= 18 + counts.wakes
    assert set(device["false_wakes"]) == set(device["false_commands"]) == set(report["hours"])
    assert sum(events["count"] for events in device["false_wakes"].values()) == counts.false_wakes
    assert [row["what"] for row in report["wake"]["stop"]][:3] == ["noise", "over speech", "after words"]


def test_a_labelled_recording_is_judged_too(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`yes` from 2.3 to about 2.8 s in ten seconds; a detection more than a second after it is a false accept."""
    import soundfile

    take = next((folder / "speech" / "yes").glob("*.wav"))
    clip, _ = soundfile.read(take, dtype="float32")
    first, last = word_span(clip)
    sound = np.random.default_rng(0).normal(0, 1e-3, 160_000).astype(np.float32)
    sound[32_000:48_000] += clip
    soundfile.write(tmp_path / "kitchen.wav", sound, RATE)
    start, end = 2 + first / RATE, 2 + last / RATE
    (tmp_path / "kitchen.txt").write_text(f"{start:.6f}\t{end:.6f}\tYes\n5.0\t6.0\tlaughter\n\\\t100\t200\n")
    files = ("--recording", str(tmp_path / "kitchen.wav"), "--labels", str(tmp_path / "kitchen.txt"))
    assert main(["edge", "evaluate", "--pack", "gsc12", *files, "--json", "--threshold", "0.1"]) == 0
    report = json.loads(capsys.readouterr().out)["reports"][0]
    assert report["words"] == 1 and report["kinds"][0]["what"] == "recording"
    assert report["hours"]["recording"] == pytest.approx((10 - (end - start) - 1) / 3600, rel=1e-3)
    setting = report["settings"][0]
    assert setting["hits"]["recording"] == {"right": 1, "of": 1}
    assert 0 < setting["latency_p50"] <= 1
    counted = setting["false_accepts"]["recording"]["count"]
    assert setting["recordings"]["all"]["heard"] == 1
    assert setting["recordings"]["all"]["false_accepts"] == ({"kitchen.wav": counted} if counted else {})
    assert report["by_snr"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--weights", "a=crnn-lite", "--weights", "a=crnn-lite"], "twice"),
        (["--weights", "a=crnn-lite:missing.safetensors"], "missing.safetensors"),
        (["--weights", "crnn-lite"], "NAME=MODEL"),
        (["--validate"], "--part test"),
        (["--recording", __file__], "--labels"),
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


@pytest.mark.slow
def test_thresholds_from_validation_judge_other_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With 2 minutes without keywords, 600 an hour are 20 false accepts."""
    ways = ("by word", "one for all")
    options = ("--minutes", "0.5", "--part", "test", "--rate", "600", "--json")
    assert evaluate(folder, *options, "--validate") == 0
    validated = json.loads(capsys.readouterr().out)["reports"][0]["settings"]
    assert evaluate(folder, *options) == 0
    here = json.loads(capsys.readouterr().out)["reports"][0]["settings"]
    assert [s["name"] for s in validated] == ["default", *(f"600/h {way}, from validation" for way in ways)]
    assert [s["name"] for s in here] == ["default", *(f"600/h {way}, chosen on this sound" for way in ways)]
    assert validated[0] == here[0] and validated[1]["thresholds"] != here[1]["thresholds"]
    hours = sum(events["hours"] for events in here[1]["false_accepts"].values())
    for setting in here[1:]:
        assert sum(events["count"] for events in setting["false_accepts"].values()) <= 600 * hours
    assert [len(set(setting["thresholds"].values())) > 1 for setting in here[1:]] == [True, False]


@pytest.mark.slow
def test_too_little_sound_for_the_rate_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--minutes", "0.5", "--part", "test", "--rate", "1")
    assert evaluate(folder, *options) == 0
    out = capsys.readouterr().out
    assert "No thresholds" in out and "2 minutes" in out and "edge.toml" not in out
    assert evaluate(folder, *options, "--validate") == 2
    assert "60 minutes" in capsys.readouterr().err


def test_nobody_of_the_part_is_said_before_it_listens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(folder, "--part", "validation", "--minutes", "0.5") == 0
    assert "validation part" in capsys.readouterr().err
