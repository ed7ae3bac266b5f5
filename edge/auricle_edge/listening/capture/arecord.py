"""A microphone through ALSA's own recorder, `arecord`: no PortAudio, and the smallest child."""

from __future__ import annotations

import os
import re
import select
import time
from typing import Any

from auricle_edge.listening.capture.alsa_cards import cards, find_card
from auricle_edge.listening.capture.parent_death import die_with
from auricle_edge.listening.capture.piece import Piece, Refusal, counts, rates

_OTHER_RATE = re.compile(r"rate is not accurate \(requested = \d+Hz, got = (\d+)Hz\)")
_NO_RATE = re.compile(r"rate .*(not|non) available|Broken configuration")
_NO_CHANNELS = re.compile(r"[Cc]hannels? count (not|non) available")
_OPEN_SECONDS = 3.0


class Arecord:
    """A running arecord."""

    waits = False

    def __init__(self, options: dict[str, Any]) -> None:
        self._pcm = pcm_name(options["target"])
        self.device = self._pcm
        self._block = options["block"]
        self._errors = b""
        self._lost = False
        self._data = b""
        self._pid, self._sound, self._complaints = 0, -1, -1
        self.rate, self.channels = self._open(rates(options["rate"], None), counts(options["channels"], None))
        self._size = round(self.rate * self._block) * self.channels * 2

    def read(self) -> Piece:
        """Wait for the next block."""
        while len(self._data) < self._size:
            if not self._take():
                raise Refusal("device-lost", f"arecord of {self.device} stopped: {self._complaint()}.")
        data, self._data = self._data[: self._size], self._data[self._size :]
        lost, self._lost = b"overrun" in self._errors, False
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


def pcm_name(target: str) -> str:
    """ALSA's name of what a source means now; a card by its id, with conversion of sample formats but not of rates."""
    if not target.startswith(("CARD=", "usb=", "hw:CARD=", "plughw:CARD=")):
        return target or "default"
    found = find_card(target, cards())
    if found is None:
        names = ", ".join(card.pcm(device) for card in cards() for device in card.inputs) or "none"
        raise Refusal("no-device", f"No sound card {target}; there is: {names}.")
    return "plug" + found[0].pcm(found[1])
