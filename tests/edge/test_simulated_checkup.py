"""A check-up without the board's hardware says what it takes for granted, and still finds what is not installed."""

from __future__ import annotations

import sys

import pytest

from auricle_edge.board.gate import GateSettings, Readings
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.service.checkup import sensors
from auricle_edge.service.simulation import examine_expected, expect_lines, expect_microphone, expect_sensors

HAT = CaptureSettings(source="alsa:CARD=wm8960soundcard", rate=48000, mute_switch="gpio:gpiochip0:26:low")
WARM = Readings(temperature=41.0)


def test_what_is_taken_for_granted_is_said() -> None:
    pytest.importorskip("sounddevice", exc_type=OSError)
    pytest.importorskip("soxr")
    assert expect_microphone(HAT).startswith("Simulated")
    required = GateSettings(required=("temperature",))
    assert "Simulated: temperature" in str(expect_sensors(required, Readings()))
    assert "Simulated" not in str(expect_sensors(required, WARM))
    assert "no GPIO" in expect_lines(CaptureSettings(), ButtonSettings())


def test_what_is_not_installed_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("gpiod", "sounddevice"):
        monkeypatch.setitem(sys.modules, package, None)
    found = {each.check: each for each in examine_expected(HAT, ButtonSettings(), GateSettings(), WARM)}
    verdicts = {name: each.verdict for name, each in found.items()}
    assert verdicts == {"microphone": "bad", "lines": "bad", "sensors": "good"}
    assert "[gpio]" in found["lines"].sentence
    assert "[mic]" in found["microphone"].sentence


def test_a_source_that_cannot_be_written_so_is_bad() -> None:
    [found, *_] = examine_expected(CaptureSettings(source="alsa:CARD=0"), ButtonSettings(), GateSettings(), WARM)
    assert found.verdict == "bad"
    assert "by its index" in found.sentence


def test_on_the_board_a_required_sensor_that_is_absent_is_bad() -> None:
    verdict, sentence = sensors(Readings(), ("temperature",))
    assert verdict == "bad"
    assert "declines to train" in sentence
    assert sensors(WARM, ("temperature",)) == ("good", "41.0 °C.")
