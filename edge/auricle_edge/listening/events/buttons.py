"""Buttons on GPIO lines: confirm, deny, missed. Lines are named by chip and number, never by a board's pin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from auricle.errors import SettingsError, extra_command

if TYPE_CHECKING:
    from gpiod import LineRequest


Line = Annotated[str, Meta(pattern=r"^gpiochip[0-9]{1,2}:[0-9]{1,3}\Z")]
Press = Literal["confirm", "deny", "missed"]

DEBOUNCE = timedelta(milliseconds=30)


class ButtonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[buttons]`: each line is `gpiochip0:17`, pulled up, and pressed when low."""

    confirm: Line | None = None
    deny: Line | None = None
    missed: Line | None = None
    """Says that the word of `missed_word` was not heard."""
    missed_word: Annotated[str, Meta(min_length=1, max_length=64)] | None = None

    def lines(self) -> dict[Press, str]:
        """The lines that are in use, by what they say."""
        given: dict[Press, str | None] = {"confirm": self.confirm, "deny": self.deny, "missed": self.missed}
        return {press: line for press, line in given.items() if line is not None}


class Buttons:
    """Watches GPIO lines in a thread.

    Parameters
    ----------
    settings
        Which lines.
    pressed
        Called with what was pressed, in a thread of its own.

    Raises
    ------
    SettingsError
        The package `gpiod` is not installed, or a line cannot be had.
    """

    def __init__(self, settings: ButtonSettings, pressed: Callable[[Press], None]) -> None:
        self._pressed = pressed
        self._stop = threading.Event()
        self._requests = [self._request(chip, lines) for chip, lines in _by_chip(settings.lines()).items()]
        self._threads = [threading.Thread(target=self._watch, args=r, daemon=True) for r in self._requests]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Give the lines back."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for request, _ in self._requests:
            request.release()

    def _request(self, chip: str, lines: Mapping[int, Press]) -> tuple[LineRequest, Mapping[int, Press]]:
        try:
            import gpiod
            from gpiod.line import Bias, Direction, Edge
        except ModuleNotFoundError as error:
            raise SettingsError(f"Buttons need gpiod: {extra_command('gpio')}.") from error
        wanted = gpiod.LineSettings(
            direction=Direction.INPUT,
            bias=Bias.PULL_UP,
            edge_detection=Edge.RISING,
            active_low=True,
            debounce_period=DEBOUNCE,
        )
        try:
            request = gpiod.request_lines(f"/dev/{chip}", consumer="auricle", config=dict.fromkeys(lines, wanted))
        except (OSError, ValueError) as error:
            raise SettingsError(f"The lines {sorted(lines)} of {chip} cannot be had: {error}.") from error
        return request, lines

    def _watch(self, request: LineRequest, lines: Mapping[int, Press]) -> None:
        while not self._stop.is_set():
            if not request.wait_edge_events(timedelta(milliseconds=500)):
                continue
            for event in request.read_edge_events():
                self._pressed(lines[event.line_offset])


def _by_chip(lines: Mapping[Press, str]) -> dict[str, dict[int, Press]]:
    chips: dict[str, dict[int, Press]] = {}
    for press, line in lines.items():
        chip, _, number = line.partition(":")
        if int(number) in chips.setdefault(chip, {}):
            raise SettingsError(f"[buttons]: {line} is given twice.")
        chips[chip][int(number)] = press
    return chips
