"""`auricle edge evaluate`: its tables, files and sentences, from folders and labelled recordings."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.core.bare_pack import bare_pack, with_own_model
from tests.edge.evaluate_sounds import spoken_sources, waking_pack

from auricle.hearing.sounds import spoken_span
from auricle.hearing.splits import noise_part, part_of
from auricle.hearing.waking import CommandCounts
from auricle.packs.pack import pack_bytes
from auricle.process.cli import main
from auricle_edge.listening.sound import RATE


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
        "as it listens, default",
    ):
        assert said in out
    rows = list(csv.DictReader(table.open(newline="")))
    hits = [row for row in rows if row["table"] == "hits, default"]
    assert [(row["what"], row["of"]) for row in hits] == [("noise", "12"), ("over speech", "12"), ("after words", "12")]
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows if row["table"] == "kind")
    html = page.read_text()
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
    table, page = tmp_path / "figures.csv", tmp_path / "page.html"
    files = ("--csv", str(table), "--html", str(page), "--threshold", "0.1")
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", *files) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    rows = list(csv.DictReader(table.open(newline="")))
    named = {row["what"]: int(row["counted"]) for row in rows if row["table"] == "by recording, false accepts, default"}
    accepts = [int(row["counted"]) for row in rows if row["table"] == "false accepts an hour, default"]
    assert sum(named.values()) == sum(accepts) > 0
    assert all((folder / "speech" / name).is_file() or (folder / name).is_file() for name in named)
    share = next(r for r in rows if r["table"] == "recordings with false accepts, default" and r["what"] == "all")
    assert int(share["counted"]) == len(named) <= int(share["of"])
    once = next(r for r in rows if r["table"] == "each recording once, false accepts, default" and r["what"] == "all")
    assert once["counted"] == share["counted"] and float(once["of"]) < sum(
        float(row["of"]) for row in rows if row["table"] == "false accepts an hour, default"
    )
    assert f"{len(named)} of {share['of']} recordings" in out and "each recording once" in out
    worst = next(iter(named))
    assert f"{named[worst]} x {worst}" in out.replace("   ", "") and f"{named[worst]} x {worst}" in page.read_text()


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
    assert set(device["wakes"]) <= {"noise", "over speech", "after words", "wake", "wake alone"}
    assert device["wakes"]["wake"]["of"] == 6 and device["wakes_by_word"]["stop"]["of"] >= 18 + counts.wakes
    assert set(device["false_wakes"]) == set(device["false_commands"]) == set(report["hours"])
    assert sum(events["count"] for events in device["false_wakes"].values()) == counts.false_wakes
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
        (["--part", "tests"], 'no part "tests" of the speakers: did you mean "test"'),
        (["--weights", "crnn-lite"], "is not NAME=MODEL"),
        (["--weights", "a=crnn-lite", "--weights", "a=crnn-lite"], "names a twice"),
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
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", "--rate", "1") == 0
    out = capsys.readouterr().out
    assert "No thresholds for that rate: 2 minutes without keywords cannot show 1 an hour:" in out
    assert "edge.toml" not in out
    assert evaluate(folder, "--minutes", "0.5", "--part", "test", "--rate", "1", "--validate") == 2
    assert "it takes 60 minutes" in capsys.readouterr().err


def test_nobody_of_the_part_is_said_before_it_listens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All readers are in the test part."""
    assert evaluate(folder, "--part", "validation", "--minutes", "0.5") == 0
    assert "Nothing of --speech belongs to the validation part" in capsys.readouterr().err
