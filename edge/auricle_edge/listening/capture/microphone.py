"""A microphone through PortAudio (sounddevice), without NumPy; and the microphones that are there now."""

from __future__ import annotations

import fnmatch
import re
from types import ModuleType
from typing import Any, TypedDict

from auricle_edge.listening.capture.alsa import Card, cards, find_card
from auricle_edge.listening.capture.card_holder import busy
from auricle_edge.listening.capture.child_parts import Piece, Refusal, counts, missing, rates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from auricle_edge.listening.capture.child_parts import ChildOptions

INVALID_RATE = -9997
INVALID_CHANNELS = -9998
UNAVAILABLE = -9985
"""PortAudio's word for a device that is busy."""
BUFFER_SECONDS = 0.3
"""What the driver keeps while this process does not get the processor."""
NO_PORTAUDIO = "A microphone needs PortAudio, which is not installed: sudo apt install libportaudio2."


class Input(TypedDict):
    """What PortAudio says of an input, and is read here."""

    index: int
    name: str
    max_input_channels: int
    default_samplerate: float


class Microphone:
    """An open input of PortAudio."""

    waits = False

    def __init__(self, options: ChildOptions) -> None:
        self._trouble = portaudio().PortAudioError
        found = choose_input(options["kind"], options["target"])
        self.device: str = found["name"]
        self._stream, self.rate, self.channels = open_input(found, options)
        self._size = max(1, round(self.rate * options["block"]))

    def read(self) -> Piece:
        """Wait for the next block."""
        try:
            data, overflowed = self._stream.read(self._size)
        except self._trouble as error:
            raise Refusal("device-lost", f"{self.device} stopped: {message(error)}.") from error
        return Piece(bytes(data), overflowed)


def portaudio() -> ModuleType:
    """The package sounddevice; Refusal where the library that it binds is missing."""
    try:
        import sounddevice
    except ImportError as error:
        from auricle.errors import extra_command

        raise Refusal("no-portaudio", f"A microphone needs sounddevice: {extra_command('mic')}.") from error
    except OSError as error:
        raise Refusal("no-portaudio", NO_PORTAUDIO) from error
    found: ModuleType = sounddevice
    return found


def inputs() -> list[Input]:
    """PortAudio's inputs, with `index`, `name`, `max_input_channels` and `default_samplerate`."""
    return [entry for entry in portaudio().query_devices() if entry["max_input_channels"] > 0]


def default_input() -> int:
    """Index of the default input; negative without one."""
    return int(portaudio().default.device[0])


def choose_input(kind: str, target: str) -> Input:
    """The input that a source means now; Refusal when it is not there."""
    there = inputs()
    if kind == "alsa" or target.startswith(("CARD=", "usb=")):
        found = by_card(target, there)
    elif target:
        found = by_name(target, there)
    else:
        found = next((entry for entry in there if entry["index"] == default_input()), there[0] if there else None)
    if found is None:
        raise missing(f'microphone "{target or "default"}"', [entry["name"] for entry in there])
    return found


def by_name(pattern: str, there: list[Input]) -> Input | None:
    """The input of this name; else the first in alphabetical order that has it in its name or fits it as a pattern."""
    low = pattern.lower()
    glob = low if any(sign in low for sign in "*?[") else f"*{low}*"
    fits = [entry for entry in there if fnmatch.fnmatchcase(entry["name"].lower(), glob)]
    return min(fits, key=lambda entry: (entry["name"].lower() != low, entry["name"]), default=None)


def by_card(target: str, there: list[Input]) -> Input | None:
    """The input that is this ALSA card's; PortAudio says which by the card's index of the moment."""
    found = find_card(target, cards())
    if found is None:
        return None
    mark = f"(hw:{found[0].index},{found[1]})"
    return next((entry for entry in there if mark in entry["name"]), None)


def open_input(found: Input, options: ChildOptions) -> tuple[Any, int, int]:
    """Open at the native rate and channels, or at the first others that the device takes."""
    sounddevice, trouble = portaudio(), "it takes no rate"
    for rate in rates(options["rate"], round(found["default_samplerate"])):
        for count in counts(options["channels"], found["max_input_channels"], options["least"]):
            try:
                stream = sounddevice.RawInputStream(
                    device=found["index"],
                    samplerate=rate,
                    channels=count,
                    dtype="int16",
                    blocksize=round(rate * options["block"]),
                    latency=BUFFER_SECONDS,
                )
                stream.start()
            except sounddevice.PortAudioError as error:
                trouble = message(error)
                code = error.args[1] if len(error.args) > 1 else None
                if code == INVALID_RATE:
                    break
                if code == INVALID_CHANNELS:
                    continue
                if code == UNAVAILABLE:
                    raise busy(found["name"], place_of(found["name"])) from error
                raise Refusal("refused", f"{found['name']} cannot be opened: {trouble}.") from error
            return stream, rate, count
    raise Refusal("refused", f"{found['name']} cannot be opened: {trouble}.")


def message(error: Exception) -> str:
    """PortAudio's words, with its number."""
    return " ".join(str(part) for part in error.args[:2])


_CARD_OF = re.compile(r"\(hw:(\d+),(\d+)\)")


def place_of(name: str) -> tuple[int, int] | None:
    """Card and device of an input of this name, by their numbers of the moment; None where it is no card."""
    mark = _CARD_OF.search(name)
    return (int(mark[1]), int(mark[2])) if mark else None


class Listed(TypedDict):
    """A microphone, as `frames.Device` reads it: this process does without msgspec."""

    name: str
    source: str
    alsa: str | None
    usb: str | None
    channels: int | None
    rate: int | None
    default: bool


def listing() -> list[Listed]:
    """What PortAudio sees, or the sound cards alone where it is not installed."""
    plugged = cards()
    try:
        default = default_input()
    except Refusal:
        return [describe_device(card, device) for card in plugged for device in card.inputs]
    return [of_portaudio(entry, entry["index"] == default, plugged) for entry in inputs()]


def describe_device(card: Card, device: int) -> Listed:
    """A sound card's device that arecord can open; what it can do is known when it is opened."""
    pcm = card.pcm(device)
    return {
        "name": card.name,
        "source": f"arecord:{pcm}",
        "alsa": pcm,
        "usb": card.usb,
        "channels": None,
        "rate": None,
        "default": False,
    }


def of_portaudio(entry: Input, default: bool, plugged: list[Card]) -> Listed:
    """An input of PortAudio, by its card's id where it is a card."""
    mark = _CARD_OF.search(entry["name"])
    card = next((card for card in plugged if mark and card.index == int(mark[1])), None)
    pcm = card.pcm(int(mark[2])) if card and mark else None
    return {
        "name": entry["name"],
        "source": f"alsa:{pcm.removeprefix('hw:')}" if pcm else f"mic:{entry['name']}",
        "alsa": pcm,
        "usb": card.usb if card else None,
        "channels": entry["max_input_channels"],
        "rate": round(entry["default_samplerate"]),
        "default": default,
    }
