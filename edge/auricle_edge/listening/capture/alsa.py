"""ALSA's sound cards, and a microphone through ALSA's own recorder, `arecord`: no PortAudio, and the smallest child.

The kernel lists them in `/proc/asound`: `cards` with index, id and name, `card<n>/usbid` with vendor and product, `pcm`
with the devices of each. The child imports this, so it needs next to nothing.
"""

from __future__ import annotations

import os
import re
import select
import time

from auricle_edge.listening.capture.card_holder import busy
from auricle_edge.listening.capture.child_parts import Piece, Refusal, counts, die_with, missing, rates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from auricle_edge.listening.capture.child_parts import ChildOptions

_CARD = re.compile(r"^\s*(\d+) \[(\S+)\s*\]: (?:.*? - )?(.*)$")
_CAPTURE = re.compile(r"^(\d+)-(\d+): .*\bcapture \d+")


class Card:
    """A sound card that is plugged in now."""

    def __init__(self, index: int, id: str, name: str, usb: str | None, inputs: list[int]) -> None:
        self.index = index
        self.id = id
        self.name = name
        self.usb = usb
        self.inputs = inputs
        """Numbers of its devices that record."""

    def pcm(self, device: int) -> str:
        """The device's name by card id."""
        return f"hw:CARD={self.id},DEV={device}"


def cards(root: str = "/") -> list[Card]:
    """List the cards that are plugged in; empty where the system has none.

    Parameters
    ----------
    root
        Of the file system.
    """
    place = root.rstrip("/") + "/proc/asound"
    inputs: dict[int, list[int]] = {}
    for line in _lines(f"{place}/pcm"):
        if match := _CAPTURE.match(line):
            inputs.setdefault(int(match[1]), []).append(int(match[2]))
    found = []
    for line in _lines(f"{place}/cards"):
        if match := _CARD.match(line):
            index = int(match[1])
            usb = _lines(f"{place}/card{index}/usbid")
            found.append(Card(index, match[2], match[3], usb[0] if usb else None, inputs.get(index, [])))
    return found


def find_card(target: str, plugged: list[Card]) -> tuple[Card, int] | None:
    """The card and device that `CARD=ID`, `hw:CARD=ID`, `usb=VVVV:PPPP`, each with or without `,DEV=n`, means now."""
    name, _, device = target.removeprefix("plug").removeprefix("hw:").partition(",DEV=")
    kind, _, value = name.partition("=")
    for card in plugged:
        if (kind == "CARD" and card.id == value) or (kind == "usb" and card.usb == value.lower()):
            return card, int(device) if device else (card.inputs or [0])[0]
    return None


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - pathlib makes the child bigger
            return file.read().splitlines()
    except OSError:
        return []


_OTHER_RATE = re.compile(r"rate is not accurate \(requested = \d+Hz, got = (\d+)Hz\)")
_NO_RATE = re.compile(r"rate .*(not|non) available|Broken configuration")
_BUSY = re.compile(r"Device or resource busy")
_NO_CHANNELS = re.compile(r"[Cc]hannels? count (not|non) available")
ARRAYS = (4, 6, 8, 3, 5, 7, 10, 12, 16, 24, 32)
"""Numbers of channels with which a card is tried that has neither one nor two: most are arrays of microphones."""
_OPEN_SECONDS = 3.0


class Arecord:
    """A running arecord."""

    waits = False

    def __init__(self, options: ChildOptions) -> None:
        self._pcm = pcm_name(options["target"])
        self.device = self._pcm
        self._block = options["block"]
        self._errors = b""
        self._data = b""
        self._pid, self._sound, self._complaints = 0, -1, -1
        self.rate, self.channels = self._open(
            rates(options["rate"], None), numbers(options["channels"], options["least"])
        )
        self._size = round(self.rate * self._block) * self.channels * 2

    def read(self) -> Piece:
        """Wait for the next block."""
        while len(self._data) < self._size:
            if not self._take():
                raise Refusal("device-lost", f"arecord of {self.device} stopped: {self._complaint()}.")
        data, self._data = self._data[: self._size], self._data[self._size :]
        lost = b"overrun" in self._errors
        self._errors = self._errors[-200:].replace(b"overrun", b"")
        return Piece(data, lost)

    def _open(self, ask: list[int], count: list[int]) -> tuple[int, int]:
        """Record at the first rate and number of channels that the device gives exactly."""
        while ask and count:
            self._start(ask[0], count[0])
            self._errors, until = b"", time.monotonic() + _OPEN_SECONDS
            while not self._data and self._take() and time.monotonic() < until:
                pass
            said = self._errors.decode(errors="replace")
            if other := _OTHER_RATE.search(said):
                ask = [int(other[1]), *(rate for rate in ask[1:] if rate != int(other[1]))]
            elif self._data:
                return ask[0], count[0]
            elif _BUSY.search(said):
                self._end()
                found = find_card(self.device, cards())
                raise busy(f"The sound card {self.device}", None if found is None else (found[0].index, found[1]))
            elif _NO_CHANNELS.search(said):
                count = count[1:]
            elif _NO_RATE.search(said):
                ask = ask[1:]
            else:
                break
            self._end()
        raise Refusal("refused", f"arecord cannot open {self.device}: {self._complaint()}.")

    def _start(self, rate: int, channels: int) -> None:
        """Start arecord, which the kernel kills when this process ends."""
        self._sound, sound = os.pipe()
        self._complaints, complaints = os.pipe()
        self._data = b""
        command = [
            "arecord",
            "-D",
            self._pcm,
            "-t",
            "raw",
            "-f",
            "S16_LE",
            "-r",
            str(rate),
            "-c",
            str(channels),
            "--buffer-time=500000",
            f"--period-time={round(self._block * 1e6)}",
            "-",
        ]
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            die_with(parent)
            os.dup2(sound, 1)
            os.dup2(complaints, 2)
            os.execvpe(command[0], command, {**os.environ, "LC_ALL": "C"})
        os.close(sound)
        os.close(complaints)

    def _end(self) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
        os.close(self._sound)
        os.close(self._complaints)

    def _take(self) -> bool:
        """Wait for sound or a complaint; False when arecord has ended."""
        ready, _, _ = select.select([self._sound, self._complaints], [], [], 0.5)
        if self._complaints in ready:
            self._errors += os.read(self._complaints, 4096)
        if self._sound in ready:
            data = os.read(self._sound, 1 << 16)
            self._data += data
            return bool(data)
        return True

    def _complaint(self) -> str:
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it gave no sound"


def numbers(wanted: int | None, least: int) -> list[int]:
    """The numbers of channels with which to open a card, in order; first those that have the chosen channel."""
    usual = counts(wanted, None, least)
    return sorted(dict.fromkeys((*usual, *ARRAYS)), key=lambda count: count < least)


def pcm_name(target: str) -> str:
    """ALSA's name of what a source means now; a card by its id, with conversion of sample formats but not of rates."""
    if not target.startswith(("CARD=", "usb=", "hw:CARD=", "plughw:CARD=")):
        return target or "default"
    found = find_card(target, cards())
    if found is None:
        raise missing(f"sound card {target}", [card.pcm(device) for card in cards() for device in card.inputs])
    return "plug" + found[0].pcm(found[1])
