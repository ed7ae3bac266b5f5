"""The part of a check-up that needs a board's hardware, without it: by what the device's settings expect of the board.

What software there has to be for it is looked at; the hardware is taken for granted, and every sentence says so.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from auricle.errors import SettingsError, extra_command
from auricle.process.checkup import Finding, Verdict, finding
from auricle_edge.board.gate import GateSettings, Readings
from auricle_edge.listening.capture.microphone import NO_PORTAUDIO
from auricle_edge.listening.capture.settings import CaptureSettings, check_source, parse_source
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.service.checkup import sensors


def examine_expected(
    capture: CaptureSettings, buttons: ButtonSettings, gate: GateSettings, readings: Readings
) -> list[Finding]:
    """Microphone, lines and required sensors as the settings, and so the board's profile, expect them.

    Parameters
    ----------
    readings
        Of the sensors that are here.
    """
    return [
        finding("microphone", lambda: expect_microphone(capture)),
        finding("lines", lambda: expect_lines(capture, buttons)),
        finding("sensors", lambda: expect_sensors(gate, readings)),
    ]


def expect_microphone(capture: CaptureSettings) -> str:
    """What reads the source is here, with its libraries. SettingsError or DataError: it is not."""
    source = parse_source(capture)
    check_source(source)
    if source.kind in ("mic", "alsa"):
        try:
            importlib.import_module("sounddevice")
        except OSError as error:
            raise SettingsError(NO_PORTAUDIO) from error
    given: dict[str, int | None] = {"Hz": capture.rate, "channels": capture.channels}
    told = "".join(f", {value} {unit}" for unit, value in given.items() if value is not None)
    return f"Simulated: {capture.source}{told} is taken to be there; what reads it is installed."


def expect_lines(capture: CaptureSettings, buttons: ButtonSettings) -> str:
    """What watches buttons and switch is here. SettingsError: it is not."""
    lines = {str(press): line for press, line in buttons.lines().items()}
    if capture.mute_switch.startswith("gpio:"):
        lines["mute"] = capture.mute_switch.removeprefix("gpio:")
    if not lines:
        return "The settings use no GPIO line."
    if find_spec("gpiod") is None:
        raise SettingsError(f"Buttons and switches need gpiod: {extra_command('gpio')}.")
    told = ", ".join(f"{name} {line}" for name, line in lines.items())
    return f"Simulated: {told} are taken to be wired; gpiod is installed."


def expect_sensors(gate: GateSettings, readings: Readings) -> str | tuple[Verdict, str]:
    """What the sensors here say; required ones that are not here are taken to be on the board."""
    verdict, sentence = sensors(readings)
    absent = [name for name in gate.required if getattr(readings, name) is None]
    if absent:
        sentence += f" Simulated: {' and '.join(absent)}, which the settings require, can be read on the board."
    return verdict, sentence
