"""Reports of hearing: coarse by hand, only what the owner allows, each with its number."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auricle.errors import SettingsError, StorageError
from auricle.process.clock import VirtualClock
from auricle.wire.messages import HearingReport
from auricle_edge.fleet.report import HearingReporter, ReportSettings
from auricle_edge.fleet.report.period import (
    STEPS,
    Period,
    Reading,
    decibels,
    full_scale,
    offset,
    reading_of,
    round_count,
)
from auricle_edge.listening.detect.figures import Tally
from auricle_edge.listening.listening_status import CaptureState, DetectFigures
from auricle_edge.listening.sound import RATE, Detection
from auricle_edge.settings import read_settings

WORDS = ("yes", "no", "stop")
HOUR = 3600.0


def test_counts_go_to_the_nearest_step_and_small_ones_stay() -> None:
    """A count is wrong by a quarter at most: 4 is told as 3."""
    steps = {0: (0,), 1: (1,), 2: (2,), 3: (3, 4), 5: (5, 6), 7: (8,), 10: (9, 12), 15: (13, 17), 1000: (999, 10**9)}
    assert {
        step: tuple(count for count in counts if round_count(count) == step) for step, counts in steps.items()
    } == steps
    assert max(abs(round_count(count) - count) / count for count in range(1, 1001)) == 0.25


def test_levels_are_steps_of_three_decibels_within_16_bits() -> None:
    assert [decibels(level) for level in (-31.4, -31.6, -0.4, 5.0, -300.0)] == [-30, -33, 0, 0, -96]


def test_shares_are_words() -> None:
    assert [full_scale(share) for share in (0.0, 0.0005, 0.005, 0.01, 1.0)] == ["none", "trace", "some", "much", "much"]
    assert [offset(mean) for mean in (0.0, -0.0009, 0.002, -0.02)] == ["none", "none", "small", "large"]


class Ears:
    """A detector's tally, a microphone and a clock, by the hand of a test."""

    def __init__(self) -> None:
        self.tally, self.clock = Tally(), VirtualClock(1000.0)
        self.state = CaptureState(running=True, level_dbfs=-40.0)

    def figures(self) -> DetectFigures:
        return self.tally.figures()

    def hear(self, hours: float, *words: str, passed: float | None = None) -> None:
        """So much sound, with these words in it."""
        self.tally.sound(round(hours * HOUR * RATE), 0.0)
        for place, word in enumerate(words):
            name = f"{self.clock.now()}-{place}"
            self.tally.detected(Detection(name, word, 0.9, "plugin", 0, 1, 1, 0.0, 0.1))
        self.clock.sleep((hours if passed is None else passed) * HOUR)

    def reporter(self, folder: Path, **allowed: Any) -> HearingReporter:
        settings = ReportSettings(hearing=True, **allowed)
        return HearingReporter(settings, folder, WORDS, self.figures, lambda: self.state, self.clock)


def ended(reporter: HearingReporter) -> tuple[int, Any]:
    return reporter.end() or pytest.fail("there is a report")


def test_a_period_is_told_in_coarse_figures(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path)
    ears.hear(0.3, *["yes"] * 6, "no", passed=0.5)
    assert not reporter.due
    reporter.look("a" * 64)
    reporter.missed()
    ears.tally.deny("1000.0-0")
    ears.hear(0.5)
    assert reporter.due
    number, said = ended(reporter)
    assert number == 1
    assert (said.span, said.heard, said.detections, said.denied, said.missed) == (4, 3, 7, 1, 1)
    assert (said.level, said.noise, said.offset, said.full_scale, said.each) == (-39, None, None, "none", ())
    assert not reporter.due
    assert reporter.last == said


def test_the_next_report_counts_from_the_last_one_and_numbers_survive_a_restart(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path)
    ears.hear(1, "yes")
    reporter.end()
    ears.hear(1, "no", "no")
    number, said = ended(reporter)
    assert (number, said.detections) == (2, 2)
    again = ears.reporter(tmp_path)
    ears.hear(1)
    assert ended(again)[0] == 3


def test_without_sound_there_is_no_report_and_after_a_day_away_the_period_is_forgotten(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path)
    ears.hear(0.1, "yes", passed=1)
    assert reporter.end() is None
    ears.hear(25)
    assert reporter.end() is None
    ears.hear(24)
    assert ended(reporter)[1].span == 96


def test_words_are_counted_only_where_the_owner_allows_it_and_have_no_names(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path, words=True)
    ears.hear(1, "stop", "yes", "stop", "stop", "stop")
    _, said = ended(reporter)
    assert said.each == (1, 0, 3)


def test_a_model_that_changed_meanwhile_is_not_named(tmp_path: Path) -> None:
    ears = Ears()
    reporter, named = ears.reporter(tmp_path), []
    for _ in range(2):
        reporter.look("a" * 64)
        ears.hear(1)
        named.append(ended(reporter)[1].base)
    assert named == [None, "a" * 64], "it came within the first period"


def test_level_noise_floor_and_offset_are_the_microphones_while_it_hears() -> None:
    hears = CaptureState(running=True, level_dbfs=-40.0, clipping=0.1, noise_floor_dbfs=-61.0, dc_offset=-0.02)
    assert reading_of(hears) == Reading(-40.0, 0.1, noise=-61.0, offset=-0.02)
    for deaf in ({"muted": True}, {"running": False}):
        assert reading_of(dataclasses.replace(hears, **deaf)) == Reading(None, 0.1)  # type: ignore[arg-type]


def test_a_report_tells_the_noise_floor_and_the_offset_in_steps(tmp_path: Path) -> None:
    ears = Ears()
    ears.state = CaptureState(running=True, level_dbfs=-40.0, noise_floor_dbfs=-61.0, dc_offset=-0.02)
    reporter = ears.reporter(tmp_path)
    reporter.look("a" * 64)
    ears.hear(1)
    _, said = ended(reporter)
    assert (said.level, said.noise, said.offset) == (-39, -60, "large")


def test_levels_are_medians_and_full_scale_is_a_mean() -> None:
    ears = Ears()
    before = ears.figures()
    period = Period(0.0, before, None)
    for level, clipped in ((-60.0, 0.0), (-30.0, 0.0), (-10.0, 0.06), (None, 1.0)):
        period.note(Reading(level, clipped, noise=-70.0, offset=-0.012), None)
    ears.hear(1)
    said = period.figures(HOUR, ears.figures(), ())
    assert said is not None
    assert (said.level, said.noise, said.offset, said.full_scale) == (-30, -69, "large", "much")


def test_the_largest_figures_are_a_message_that_a_coordinator_takes(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path, words=True)
    ears.hear(24, *["no"] * 5000)
    for _ in range(3000):
        reporter.missed()
    number, said = ended(reporter)
    head = {"fleet": "home", "device": "kitchen", "boot": "b", "period": number, "pack": "a" * 64}
    message = HearingReport(**head, **{name: getattr(said, name) for name in said.__dataclass_fields__})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=HearingReport) == message
    assert {message.detections, message.missed, message.each[1]} == {STEPS[-1]}


def test_a_number_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    ears = Ears()
    reporter = ears.reporter(tmp_path)
    (tmp_path / "hearing-report").write_text("many")
    ears.hear(1)
    with pytest.raises(StorageError, match="delete it"):
        reporter.end()


# -- settings


def test_nothing_is_reported_unless_the_owner_says_so(tmp_path: Path) -> None:
    given, file = {"device": "kitchen-1", "state": str(tmp_path)}, tmp_path / "edge.toml"
    file.write_text("[report]\nwords = true\n")
    assert read_settings(None, given).report == ReportSettings(hearing=False, words=False, minutes=60.0)
    assert not read_settings(file, given).report.hearing
    assert read_settings(file, {**given, "report_hearing": True}).report == ReportSettings(hearing=True, words=True)


@pytest.mark.parametrize("text", ["minutes = 14", "minutes = 1441", "hearing = 1", "word = true"])
def test_what_may_not_be_set_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "edge.toml"
    file.write_text(f"[report]\n{text}\n")
    with pytest.raises(SettingsError, match=r"\[report\]"):
        read_settings(file, {"device": "kitchen-1", "state": str(tmp_path)})
