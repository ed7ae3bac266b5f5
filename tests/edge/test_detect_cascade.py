"""Two stages: what is proposed, what then counts, what it costs, and when a device uses it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.core.bare_pack import bare_pack, with_own_model
from tests.edge.test_detector import FRONTEND, SOUND, _blocks, _by_pitch, _run

from auricle.packs.manifest import Listening
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle_edge.listening.detect import Cascade, Detector, DetectSettings, DetectTable
from auricle_edge.listening.detect.decision import Decider
from auricle_edge.listening.detect.recognisers import Candidate, Merit, both, cascade, choose_model, merit, most_hits
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.hearing_model import HearingModel
from auricle_learning.training.speech_data import Clips

LABELS = ("yes", "no", "_silence_")
KEYWORDS = np.array([True, True, False])


class Fixed:
    """A recogniser that says the same of every window, and counts them."""

    def __init__(self, row: list[float]) -> None:
        self._row, self.windows = row, 0

    def __call__(self, features: np.ndarray) -> np.ndarray:
        self.windows += len(features)
        return np.tile(np.array(self._row, np.float32), (len(features), 1))


# -- the recogniser


def test_of_single_clips_those_that_are_proposed_count_with_the_mean_of_both() -> None:
    """Half of 0.5 is 0.25: 0.2 stays as the first stage has it, (0.3 + 0.9) / 2 = 0.6; silence is never proposed."""
    rows = np.array([[0.2, 0.0, 0.8], [0.3, 0.0, 0.7], [0.0, 0.25, 0.75]], np.float32)
    second = Fixed([0.9, 0.1, 0.0])
    found = Cascade(lambda x: rows, second, KEYWORDS, 0.5)(np.zeros((3, 2, 2), np.float32))
    expected = [[0.2, 0.0, 0.8], [0.6, 0.05, 0.35], [0.45, 0.175, 0.375]]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert second.windows == 2 and found.dtype == np.float32
    assert rows[1, 0] == np.float32(0.3)


def test_where_nothing_is_proposed_the_second_stage_does_not_run() -> None:
    second = Fixed([1.0, 0.0, 0.0])
    found = Cascade(Fixed([0.24, 0.24, 0.52]), second, KEYWORDS, 0.5)(np.zeros((4, 2, 2), np.float32))
    assert second.windows == 0 and found[:, 0] == pytest.approx([0.24] * 4)


# -- what is proposed in a stream


def _decider(**changes: object) -> Decider:
    values: dict[str, object] = {"smoothing": 2, "patience": 1, "threshold": 0.8, "refractory": 0.0}
    return Decider(LABELS, DetectSettings(**{**values, **changes}))  # type: ignore[arg-type]


def _row(yes: float, no: float = 0.0) -> np.ndarray:
    return np.array([yes, no, 1 - yes - no], np.float32)


def test_a_window_is_proposed_by_its_own_posterior_or_by_the_average_with_it() -> None:
    """Half of 0.8 is 0.4: 0.6 reaches it, then 0.2 with (0.6 + 0.2) / 2 = 0.4, and 0.1 does not."""
    decider = _decider()
    asked = []
    for yes in (0.39, 0.6, 0.2, 0.1):
        asked.append(decider.proposes(_row(yes), 0.5))
        decider.step(_row(yes))
    assert asked == [False, True, True, False]


def test_asking_changes_nothing() -> None:
    decider = _decider()
    decider.step(_row(0.7))
    for _ in range(3):
        assert decider.proposes(_row(0.9), 0.5)
    assert decider.smoothed[0] == pytest.approx(0.35)


def test_only_keywords_that_count_now_are_proposed_each_by_its_own_threshold() -> None:
    """Asleep `no` is nobody's; awake 0.2 is more than half of its 0.3, and 0.35 less than half of 0.8."""
    decider = _decider(wake=("yes",), commands={"no": 0.3})
    assert not decider.proposes(_row(0.35, 0.6), 0.5)
    assert decider.proposes(_row(0.41), 0.5)
    assert decider.proposes(_row(0.0, 0.2), 0.5, awake=True)
    assert not decider.proposes(_row(0.35, 0.1), 0.5, awake=True)


def test_when_it_wakes_the_old_average_proposes_nothing() -> None:
    """Asleep `no` stood at 0.9; awake it begins from nothing, (0 + 0.1) / 2."""
    decider = _decider(wake=("yes",), commands={"no": 0.3})
    for _ in range(2):
        decider.step(_row(0.0, 0.9))
    assert not decider.proposes(_row(0.0, 0.1), 0.5, awake=True)


# -- the detector

CHOSEN = DetectSettings(smoothing=2, patience=2, threshold=0.6, refractory=0.5, vad="off")
PITCHES = ("low", "high", "_silence_")


def test_the_detector_runs_the_second_stage_on_few_windows_and_hears_what_both_agree_on() -> None:
    """A second stage that says the same changes no detection; it judges the windows around three tones of 0.4 s."""
    second_windows = []

    def same(features: np.ndarray) -> np.ndarray:
        second_windows.append(len(features))
        return _by_pitch(features)

    plain = _run(Detector(FRONTEND, PITCHES, _by_pitch, CHOSEN), _blocks(SOUND, [1600]))
    detector = Detector(FRONTEND, PITCHES, Cascade(_by_pitch, same, KEYWORDS, 0.5), CHOSEN, model="cascade")
    found = _run(detector, _blocks(SOUND, [777]))
    assert [(d.word, d.end) for d in found] == [(d.word, d.end) for d in plain]
    assert [d.score for d in found] == pytest.approx([d.score for d in plain])
    assert {d.model for d in found} == {"cascade"}
    figures = detector.figures
    assert figures.second_windows == len(second_windows) and set(second_windows) == {1}
    assert 6 <= figures.second_windows <= 30 and figures.windows == 56
    assert figures.second_share == figures.second_windows / 56


def test_what_the_second_stage_denies_is_not_heard() -> None:
    """(1 + 0) / 2 is below 0.6."""
    cascaded = Cascade(_by_pitch, Fixed([0.0, 0.0, 1.0]), KEYWORDS, 0.5)
    assert _run(Detector(FRONTEND, PITCHES, cascaded, CHOSEN), _blocks(SOUND, [1600])) == []


# -- when it is used

TARGETS = np.array([0] * 6 + [1] * 6 + [2] * 4)
FEATURES = np.zeros((16, 2, 2), np.float32)


def _candidate(name: str, rows: list[list[float]], cost: int = 1, *, trained: bool = True) -> Candidate:
    posteriors = np.array(rows, np.float32)
    return Candidate(name, lambda features: posteriors[: len(features)], cost, trained)


def test_most_hits_lets_no_more_false_accepts_in_than_it_may() -> None:
    """Words at 0.9, 0.6 and 0.4, others at 0.5 and 0.7: without false accepts one hit, with one two, with two all."""
    posteriors = np.array([[0.9, 0], [0.6, 0], [0.4, 0.1], [0.5, 0], [0.7, 0]], np.float32)
    targets = np.array([0, 0, 0, 1, 1])
    assert [most_hits(posteriors, targets, ("yes", "_silence_"), most) for most in (0, 1, 2)] == [1, 2, 3]


OWN = [[0.9, 0.1, 0.0]] * 6 + [[0.1, 0.9, 0.0]] * 6 + [[0.1, 0.1, 0.8]] * 4
PLUGIN = [*OWN[:4], *[[0.4, 0.2, 0.4]] * 2, *OWN[6:14], *[[0.6, 0.2, 0.2]] * 2]


def test_the_cascade_is_taken_where_it_hears_more_at_equal_false_accepts() -> None:
    """The plug-in misses two words (0.4) and takes two sounds for one (0.6); the mean is right about all of them. With
    no false accept, so above 0.6, the plug-in hears 10 words and the mean 12."""
    plugin = _candidate("plugin", PLUGIN, 26_572)
    own = _candidate("personal", OWN, 71_564)
    staged = cascade(plugin, own, LABELS, 0.5)
    assert (staged.cost, staged.rival) == (26_572 + 7_156, "plugin")
    choice = choose_model([plugin, staged], FEATURES, TARGETS, LABELS)
    assert choice.candidate is staged and "12 of 12" in choice.reason


def test_a_cascade_that_hears_no_more_at_equal_false_accepts_is_not_taken() -> None:
    """It lowers what it denies and what it hears alike: fewer false accepts at 0.5, but for no other reason."""
    rows = [*OWN[:12], *[[0.6, 0.2, 0.2]] * 4]
    lower = (np.array(rows) * 0.75).tolist()
    plugin, staged = _candidate("plugin", rows), _candidate("cascade", lower)
    taken = choose_model([plugin, staged], FEATURES, TARGETS, LABELS)
    assert taken.candidate is staged
    rivalled = Candidate("cascade", staged.recognise, 1, rival="plugin")
    assert choose_model([plugin, rivalled], FEATURES, TARGETS, LABELS).candidate is plugin


NOTHING = Clips(np.zeros((0, 100, 40), np.float32), np.zeros(0, np.int64))


def _hearing(folder: Path, pack: Pack, second_stage: str, *, trained: bool = True) -> HearingModel:
    runtime = choose_runtime("auto", pack, training=False).runtime
    first, plugin = (start_weights(pack, model) for model in ("crnn-base", "crnn-lite"))
    detect = DetectTable(second_stage=second_stage)  # type: ignore[arg-type]
    return HearingModel(folder, runtime, "crnn-base", first if trained else None, plugin, detect)


@pytest.fixture(scope="module")
def gsc12() -> Pack:
    """The shipped pack, which says nothing of a second stage, with weights for its larger model."""
    return with_own_model(bare_pack("gsc12"), "crnn-base")


@pytest.fixture(scope="module")
def staged(gsc12: Pack) -> Pack:
    """The same pack with thresholds for two stages."""
    manifest = msgspec.structs.replace(gsc12.manifest, listening=Listening(second_stage="crnn-base"))
    return Pack(manifest, gsc12.files)


def test_on_uses_it_once_both_models_are_trained(tmp_path: Path, gsc12: Pack) -> None:
    on = _hearing(tmp_path, gsc12, "on").choose(NOTHING)
    assert on.candidate.name == "cascade" and isinstance(on.candidate.recognise, Cascade)
    assert on.candidate.recognise.share == 0.5
    untrained = _hearing(tmp_path, gsc12, "on", trained=False).choose(NOTHING)
    assert untrained.candidate.name == "plugin"
    assert "second_stage" in untrained.reason


def test_auto_uses_it_where_the_pack_says_so_and_off_never(tmp_path: Path, gsc12: Pack, staged: Pack) -> None:
    said = _hearing(tmp_path, staged, "auto").choose(NOTHING)
    assert said.candidate.name == "cascade"
    assert _hearing(tmp_path, gsc12, "auto").choose(NOTHING).candidate.name == "plugin"
    assert _hearing(tmp_path, staged, "off").choose(NOTHING).candidate.name == "plugin"
    assert _hearing(tmp_path, staged, "auto", trained=False).choose(NOTHING).candidate.name == "plugin"


def test_auto_compares_it_on_held_out_clips_where_there_are_enough(tmp_path: Path, staged: Pack) -> None:
    rng = np.random.default_rng(0)
    clips = Clips(rng.gamma(0.3, size=(12, 100, 40)).astype(np.float32), np.arange(12) % 10)
    assert set(_hearing(tmp_path, staged, "auto").choose(clips).merits) == {"plugin", "personal", "ensemble", "cascade"}
    assert set(_hearing(tmp_path, staged, "off").choose(clips).merits) == {"plugin", "personal", "ensemble"}


# -- which model judges, and which thresholds


def test_hits_and_false_accepts_are_counted_at_the_threshold() -> None:
    posteriors = np.array([[0.9, 0.1, 0], [0.4, 0.3, 0.3], [0.8, 0.2, 0], [0.6, 0.1, 0.3], [0.4, 0.3, 0.3]], np.float32)
    counted = merit(posteriors, np.array([0, 0, 1, 2, 2]), LABELS, 0.5)
    assert counted == Merit(hits=1, keywords=3, false_accepts=1, others=2)
    assert counted.value == pytest.approx(1 / 3 - 1 / 2)


def test_the_best_on_held_out_clips_is_taken_and_said_why() -> None:
    """The plug-in takes two of four other sounds for a word; the device's own misses one of twelve words."""
    plugin = _candidate("plugin", [*OWN[:14], [0.9, 0.1, 0], [0.1, 0.9, 0]])
    personal = _candidate("personal", [[0.0, 0.1, 0.9], *OWN[1:]], 3)
    choice = choose_model([personal, plugin], FEATURES, TARGETS, LABELS)
    assert choice.candidate.name == "personal"
    for figures in ("11 of 12", "0 of 4", "12 of 12", "2 of 4"):
        assert figures in choice.reason
    assert choice.merits["plugin"].value == 0.5


def test_of_equals_the_cheapest_is_taken() -> None:
    plugin, personal = _candidate("plugin", OWN, 26_572), _candidate("personal", OWN, 71_564)
    choice = choose_model([both(personal, plugin), personal, plugin], FEATURES, TARGETS, LABELS)
    assert choice.candidate is plugin
    assert choice.reason.startswith("As good and cheaper on held-out clips: plugin hears 12 of 12")


def test_both_together_may_be_better_than_each() -> None:
    one = _candidate("personal", [[0.3, 0.7, 0.0], *OWN[1:]])
    other = _candidate("plugin", [OWN[0], [0.3, 0.7, 0.0], *OWN[2:]])
    choice = choose_model([one, other, both(one, other)], FEATURES, TARGETS, LABELS)
    assert (choice.candidate.name, choice.merits["ensemble"].hits, choice.candidate.cost) == ("ensemble", 12, 2)


def test_with_too_few_clips_the_plugin_judges_if_it_was_trained() -> None:
    few = TARGETS[:9]
    personal, plugin = _candidate("personal", OWN), _candidate("plugin", OWN)
    choice = choose_model([personal, plugin, both(personal, plugin)], FEATURES[:9], few, LABELS)
    assert (choice.candidate.name, choice.merits) == ("plugin", {}) and "9 of 10" in choice.reason
    scratch = _candidate("plugin", OWN, trained=False)
    assert choose_model([scratch, personal], FEATURES[:9], few, LABELS).candidate.name == "personal"


def test_without_other_sounds_the_hits_decide() -> None:
    better, worse = _candidate("personal", OWN[:12]), _candidate("plugin", [[0.0, 0.0, 1.0]] * 12)
    choice = choose_model([worse, better], FEATURES[:12], TARGETS[:12], LABELS)
    assert choice.candidate is better
    assert "there is no other sound to try" in choice.reason
