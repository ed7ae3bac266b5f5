"""What emulated devices are judged by: the pack's negatives, or two halves of the unseen speakers' own."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from tests.core.bare_pack import bare_pack
from tests.fleet.ended_run import line, summary
from tests.fleet.test_report import check

from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack
from auricle_edge.training.judge.comparison import Heard, in_words
from auricle_export.packs.start_weights import with_negatives
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.judging import FleetJudging
from auricle_fleet.results.record import refusals
from auricle_fleet.results.report import render
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.training.speech_data import Clips, DeviceData

PACK = bare_pack("gsc12")
LABELS = len(PACK.labels)


def _clips(count: int, seed: int = 0) -> Clips:
    rng = np.random.default_rng(seed)
    return Clips(rng.gamma(1.0, size=(count, 100, 40)).astype(np.float32), np.arange(count) % LABELS)


def _data(pack: Pack = PACK) -> FleetData:
    """Two devices; of 72 unseen clips 12 are of no keyword, four of them said by the speakers of the first half."""
    unseen = _clips(72, 5)
    groups = (np.arange(72) >= 24).astype(np.int64)
    devices = tuple((f"s{i}", DeviceData(_clips(24, i), _clips(12, i + 9), None)) for i in range(2))
    return FleetData(pack, devices, unseen, 6, groups, ())


def _always(word: str) -> np.ndarray:
    """A plug-in that says this word to everything."""
    weights = np.zeros(PACK.plugin_table.size, np.float32)
    weights[-LABELS + PACK.labels.index(word)] = 10
    return weights


def _accepts(judging: FleetJudging, word: str) -> Heard:
    accepts = judging.false_accepts(_always(word))
    assert accepts is not None
    return accepts


def test_devices_are_judged_by_one_half_of_the_unseen_and_plug_ins_measured_by_the_other() -> None:
    judging = FleetJudging(FleetSettings(start="pack"), _data())
    assert judging.seconds == 4
    assert "10%" in judging.describe(0.1) and "4 s" in judging.describe(0.1)
    assert judging.learn.judge
    # The other half's eight clips are one stretch of eight seconds, in which it is heard once.
    assert in_words(_accepts(judging, "yes")) == "1 in 8 s"
    assert _accepts(judging, "_unknown_").false_accepts == 0


def test_of_the_packs_negatives_one_half_of_each_stretch_judges_and_measures() -> None:
    """Of 90 s 45 are left to judge by; a quarter of a minute takes 15 s of them."""
    rng = np.random.default_rng(0)
    stretches = [("noise", rng.gamma(1.0, size=(frames, 40)).astype(np.float32)) for frames in (6000, 3000)]
    pack = with_negatives(PACK, stretches)
    judging = FleetJudging(FleetSettings(), _data(pack))
    assert judging.seconds == pytest.approx(45)
    assert FleetJudging(FleetSettings(judge_minutes=0.25), _data(pack)).seconds == pytest.approx(15)
    assert judging.learn.carried == 0
    assert FleetJudging(FleetSettings(start="pack"), _data(pack)).learn.carried == 0.5
    assert FleetJudging(FleetSettings(carried=0.2), _data(pack)).learn.carried == 0.2
    assert in_words(_accepts(judging, "no")) == "2 in 45 s"


def test_what_the_pack_says_of_listening_counts() -> None:
    """With `stop` as its wake word, a plug-in that says `yes` to everything accepts nothing; `stop` needs 0.95."""
    listening = Listening(thresholds={"stop": 0.95}, wake=("stop",), commands={"yes": 0.3})
    pack = Pack(msgspec.structs.replace(PACK.manifest, listening=listening), PACK.files)
    judging = FleetJudging(FleetSettings(start="pack"), _data(pack))
    assert judging.judging.detect.wake == ("stop",) and judging.judging.detect.thresholds == {"stop": 0.95}
    assert _accepts(judging, "yes").false_accepts == 0
    assert _accepts(judging, "stop").per_hour == pytest.approx(3600 / 8)


def test_without_negatives_nothing_is_measured() -> None:
    pack = PACK.with_labels(("yes", "no"))
    data = _data(pack)
    words = Clips(data.unseen.energies[:10], np.arange(10) % 2)
    bare = FleetData(pack, data.devices, words, 6, np.zeros(10, np.int64), ())
    judging = FleetJudging(FleetSettings(), bare)
    assert judging.seconds == 0
    assert "no sound" in judging.describe(0.1)
    assert judging.false_accepts(pack.plugin_table.initial(0)) is None


@pytest.mark.parametrize(
    ("judge", "start", "judges"),
    [("auto", "scratch", False), ("auto", "pack", True), ("on", "scratch", True), ("off", "pack", False)],
)
def test_left_open_a_run_is_judged_where_it_starts_from_the_pack(judge: str, start: str, judges: bool) -> None:
    assert FleetSettings(judge=judge, start=start).judges is judges


def test_only_the_judges_reasons_are_refusals_and_the_report_shows_them() -> None:
    said = {"dev-002": "worse_accuracy: 3 of 9", "dev-001": "worse_false_accepts: 9/h", "dev-003": "The disk is full."}
    assert refusals(said) == ["dev-001", "dev-002"]
    of_an_hour = {"false_accepts_per_hour": 40.0, "refused": []}
    counts = {"false_accepts": 2, "negative_seconds": 180.0}
    rounds = [line(1, **of_an_hour, **counts), line(2, **{**of_an_hour, "refused": ["dev-a"]}, **counts)]
    judged = {"judge": True, "refused_rounds": 1, "refusing_devices": 1, "false_accepts_per_hour": 40.0}
    start = {"start_false_accepts_per_hour": 66.0, "start_false_accepts": 3}
    page = check(render(summary(**judged, **start, **counts), rounds))
    assert page.tags.count("svg") == 3
    assert "False accepts in 3 min" in page.text and "start 3" in page.text and "/h" not in page.text
    assert "Last round: 2 in 3 min." in page.text
    earlier = check(render(summary(**judged, **start), [line(1, **of_an_hour)]))
    assert "start 66/h" in earlier.text and "Last round: 40/h." in earlier.text
    assert "Devices refused 1 round (1 device)" in page.text
    assert "Devices did not judge their rounds." in check(render(summary(judge=False), rounds)).text


def test_with_validation_speakers_all_the_unseen_measure_and_theirs_are_the_operators() -> None:
    data = replace(_data(), validation=_clips(24, 3), validation_speakers=2, labelled=_clips(12, 4))
    judging = FleetJudging(FleetSettings(detect=True, validation=True), data)
    assert len(judging.features) == 72 and judging.speakers == 6
    assert judging.validated(_always("yes")) == pytest.approx(1 / LABELS)
    assert len(judging.labelled()) == 12
    assert FleetJudging(FleetSettings(), _data()).validated(_always("yes")) is None
