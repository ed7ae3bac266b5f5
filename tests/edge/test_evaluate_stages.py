"""A second stage is judged as a device runs it: the evaluation's cascade is the detector's own, hop by hop."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.core.bare_pack import bare_pack, with_own_model
from tests.edge.evaluate_sounds import spoken_sources, waking_pack

from auricle.errors import AuricleError
from auricle.hearing.rule import detect, smooth
from auricle.hearing.scenes import Scene, end_to_end
from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.start import start_weights
from auricle.process.cli import main
from auricle.speech.features import LogMel
from auricle_edge.evaluate.listeners import ListenerUnderTest, listeners_of, rule_of, waking_of
from auricle_edge.evaluate.plan import Plan, compose_scene, plan_scenes
from auricle_edge.evaluate.run import Judged, hear, reports, thresholds_from
from auricle_edge.evaluate.sources import Sources
from auricle_edge.evaluate.windows import judge_windows, waiting_levels
from auricle_edge.listening.detect import Cascade, Detector, DetectSettings, DetectTable, detect_settings
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.runtimes import choose_runtime
from auricle_learning.runtimes import recogniser

PACK = load_pack("gsc12")
FRONTEND = LogMel(PACK.manifest.task)
RUNTIME = choose_runtime("auto", PACK, training=False).runtime
WEIGHTS = start_weights(PACK, "crnn-lite")
KEYWORDS = np.array([not label.startswith("_") for label in PACK.labels])


def _other() -> np.ndarray:
    """Weights that hear much the same, and not quite: a tenth of each, up or down."""
    return (WEIGHTS * (1 + 0.1 * np.random.default_rng(0).standard_normal(len(WEIGHTS)))).astype(np.float32)


@pytest.fixture(scope="module")
def cascade() -> Cascade:
    first, second = (recogniser(RUNTIME, "crnn-lite", weights) for weights in (WEIGHTS, _other()))
    return Cascade(first, second, KEYWORDS, 0.5)


@pytest.fixture(scope="module")
def sources() -> Sources:
    return spoken_sources()


@pytest.fixture(scope="module")
def scene(sources: Sources) -> Scene:
    plan = plan_scenes(sources, (), Plan(minutes=0.5))
    return end_to_end([compose_scene(plan, number, seed=1) for number in (2, 5)])


@pytest.mark.slow
@pytest.mark.parametrize("wake", [(), ("stop",)])
def test_the_cascade_at_once_is_the_detectors_own_hop_by_hop(
    scene: Scene, cascade: Cascade, wake: tuple[str, ...]
) -> None:
    settings = DetectSettings(threshold=0.4, thresholds={"stop": 0.9999} if wake else {}, wake=wake)
    detector, hop = Detector(FRONTEND, PACK.labels, cascade, settings), round(settings.hop * RATE)
    averages, heard = [], []
    for number in range(len(scene.samples) // hop):
        start = number * hop
        heard += [(number, d.word) for d in detector.feed(Block(scene.samples[start : start + hop], start, 0.0))]
        averages.append(list(detector.posteriors.values()))
    levels = waiting_levels(PACK.labels, settings)
    said = judge_windows(scene.samples, FRONTEND, [cascade], settings, len(PACK.labels))[0]
    rows = said.counted(levels, settings.smoothing)
    np.testing.assert_allclose(smooth(rows, settings.smoothing), averages, atol=5e-6)
    asked = said.proposed(levels, settings.smoothing)
    assert int(asked.sum()) == detector.figures.second_windows
    found = detect(rows, PACK.labels, levels[None], rule_of(settings))
    assert [(hop, PACK.labels[label]) for hop, label in zip(found.hop, found.label, strict=True)] == heard
    if wake:
        assert 0 < asked.sum() < said.proposed(waiting_levels(PACK.labels, DetectSettings(threshold=0.4)), 3).sum()
    else:
        assert len(heard) >= 5 and 0.02 < asked.mean() < 0.5
        assert said.second is not None and not np.array_equal(said.first, said.second)
        assert not np.array_equal(rows, said.first)


def _judged(sources: Sources, pack: Pack, listeners: list[ListenerUnderTest]) -> list[dict[str, object]]:
    """Reports of every third scene of a short plan, without names and weights."""
    settings = detect_settings(DetectTable(), pack)
    judged = Judged(pack.labels, FRONTEND, settings, waking_of(pack.labels, settings))
    wake = () if judged.waking is None else judged.waking.wake
    made = plan_scenes(sources, wake, Plan(minutes=0.5))
    scenes = [compose_scene(made, number, 0) for number in range(0, len(made), 3)]
    stream = hear(scenes, listeners, judged, events=judged.waking is not None)
    found = [msgspec.to_builtins(report) for report in reports(stream, listeners, judged, sources, 600)]
    return [{k: v for k, v in facts.items() if k not in ("name", "second")} for facts in found]


@pytest.mark.slow
@pytest.mark.parametrize("pack", [bare_pack("gsc12"), waking_pack()], ids=["open", "wake"])
def test_with_the_same_model_as_second_stage_the_report_is_that_of_the_first_alone(
    sources: Sources, pack: Pack
) -> None:
    given = ["one=crnn-lite", "two=crnn-lite,second:crnn-lite"]
    one, two = _judged(sources, pack, listeners_of(given, pack, lambda: RUNTIME))
    assert one == two and one["settings"]
    assert (one["device"] is None) == (pack.listening is None)


@pytest.mark.slow
def test_a_setting_is_what_a_device_with_these_thresholds_hears(sources: Sources, cascade: Cascade) -> None:
    """What is proposed follows the thresholds: those chosen for a rate propose otherwise than the default of 0.8."""
    settings = DetectSettings()
    judged = Judged(PACK.labels, FRONTEND, settings, None)
    listener = ListenerUnderTest("both", cascade, 1, 2)
    made = plan_scenes(sources, (), Plan(minutes=0.5))
    stream = hear([compose_scene(made, number, 0) for number in (0, 3, 4, 5, 6)], [listener], judged)
    chosen = thresholds_from(stream, [listener], judged, 600)
    report = reports(stream, [listener], judged, sources, 600, chosen)[0]
    assert report.second is not None and report.second.weights == 2 and 0 < report.second.windows.share < 0.5
    said = stream.said[0]
    for setting, thresholds in zip(report.settings, (None, *chosen["both"].values()), strict=True):
        levels, hits = judged.levels(thresholds), 0
        for each, scene in zip(said, stream.scenes, strict=True):
            found = detect(each.counted(levels, 3), PACK.labels, levels[None], rule_of(settings))
            decided = (found.hop + 1) * 1_600
            hits += sum(
                any(
                    PACK.labels[label] == word.word and word.start <= at <= word.end + RATE
                    for label, at in zip(found.label, decided, strict=True)
                )
                for word in scene.words
            )
        assert sum(share.right for share in setting.hits.values()) == hits > 0


# -- how it is written


def test_a_pack_that_names_a_second_stage_is_judged_with_it() -> None:
    pack = with_own_model(bare_pack("gsc12"), "crnn-base")
    assert listeners_of((), pack, lambda: RUNTIME)[0].second_weights == 0
    says = msgspec.structs.replace(pack.manifest, listening=Listening(second_stage="crnn-base"))
    usual = listeners_of((), Pack(says, pack.files), lambda: RUNTIME)
    assert [(each.name, each.weights) for each in usual] == [("both stages", pack.table("crnn-lite").size)]
    assert usual[0].second_weights == pack.table("crnn-base").size and isinstance(usual[0].recognise, Cascade)


def test_a_stage_may_be_the_mean_of_several_and_a_model_is_made_once() -> None:
    pack = with_own_model(bare_pack("gsc12"), "crnn-base")
    lite, both = listeners_of(["lite=crnn-lite", "b=crnn-lite,second:crnn-base+crnn-lite"], pack, lambda: RUNTIME)
    assert isinstance(both.recognise, Cascade) and both.recognise.first is lite.recognise
    assert (both.weights, both.second_weights) == (lite.weights, lite.weights + pack.table("crnn-base").size)


@pytest.mark.parametrize("text", ["a=crnn-lite,second:", "a=,second:crnn-lite", "a=b,second:c,second:d"])
def test_half_a_cascade_is_refused(text: str) -> None:
    with pytest.raises(AuricleError, match="second"):
        listeners_of([text], PACK, lambda: RUNTIME)


def test_the_command_says_what_the_second_stage_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import soundfile

    path = tmp_path / "two.tar.zst"
    path.write_bytes(pack_bytes(with_own_model(bare_pack("gsc12"), "crnn-base")))
    yes = next(take for take in spoken_sources().keywords if take.word == "yes")
    soundfile.write(tmp_path / "a.wav", np.concatenate([np.zeros(RATE, np.float32), yes.sound] * 4), RATE)
    (tmp_path / "a.txt").write_text("1.2\t1.7\tyes\n")
    files = ["--recording", str(tmp_path / "a.wav"), "--labels", str(tmp_path / "a.txt"), "--pack", str(path)]
    command = ["edge", "evaluate", *files, "--weights", "both=crnn-lite,second:crnn-base"]
    assert main([*command, "--html", str(tmp_path / "a.html"), "--csv", str(tmp_path / "a.csv")]) == 0
    out = capsys.readouterr().out
    assert "71,564" in out and max(map(len, out.splitlines())) <= 80
    assert "71,564" in (tmp_path / "a.html").read_text()
    row = next(row for row in csv.DictReader((tmp_path / "a.csv").open(newline="")) if row["table"] == "second stage")
    assert row["what"] == "windows" and 0 < int(row["counted"]) < int(row["of"]) < 80
