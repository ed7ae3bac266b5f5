"""When a device reports how well it hears, and the number that each report has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from auricle.errors import StorageError
from auricle.files import read_kept, write_durably
from auricle.process.clock import SYSTEM_CLOCK, Clock
from auricle_edge.fleet.report.period import LONGEST_QUARTERS, QUARTER_SECONDS, HearingFigures, Period, reading_of
from auricle_edge.listening.listening_status import CaptureState, DetectFigures


class ReportSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Nothing is reported unless the owner of the device says so here."""

    hearing: bool = False
    """Whether the coordinator is told coarse figures of what was heard, see docs/hearing-reports.md."""
    words: bool = False
    """Whether they say how often each keyword was heard, too."""
    minutes: Annotated[float, msgspec.Meta(ge=15, le=1440)] = 60.0
    """Time between two reports."""


NUMBER = "hearing-report"
"""File with the number of the last report."""
LAST = (1 << 31) - 1


class HearingReporter:
    """Counts what one device hears, for reports to its coordinator.

    Parameters
    ----------
    settings
        What the owner allows.
    folder
        The state folder, where the number of the last report is kept.
    keywords
        Those of the pack, in its order.
    figures, capture
        What the detector has counted, and how the microphone is now.
    clock
        Whom it asks for the time.
    """

    def __init__(
        self,
        settings: ReportSettings,
        folder: Path,
        keywords: Sequence[str],
        figures: Callable[[], DetectFigures],
        capture: Callable[[], CaptureState],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings, self._file = settings, folder / NUMBER
        self._keywords = tuple(keywords) if settings.words else ()
        self._figures, self._capture, self._clock = figures, capture, clock
        self._base: str | None = None
        self.last: HearingFigures | None = None
        """What was reported last, since the start."""
        self._period = Period(clock.monotonic(), figures(), None)

    def missed(self) -> None:
        """A person has said that a word was not heard."""
        self._period.missed += 1

    def look(self, base: str | None) -> None:
        """Take in the moment; several times a minute. `base`: the fleet's model that was received last."""
        self._base = base
        self._period.note(reading_of(self._capture()), base)

    @property
    def due(self) -> bool:
        """Whether the period is over."""
        return self._clock.monotonic() - self._period.began >= self._settings.minutes / 15 * QUARTER_SECONDS

    def end(self) -> tuple[int, HearingFigures] | None:
        """End the period and begin the next: the report's number and figures.

        None where nothing was listened to, or the coordinator could not be reached for longer than a report covers.

        Raises
        ------
        StorageError
            The number cannot be kept: this report is not sent, for the next would have its number.
        """
        now, counted = self._clock.monotonic(), self._figures()
        ended, self._period = self._period, Period(now, counted, self._base)
        if now - ended.began >= (LONGEST_QUARTERS + 1) * QUARTER_SECONDS:
            return None
        figures = ended.figures(now, counted, self._keywords)
        if figures is None:
            return None
        number, self.last = self._next_number(), figures
        return number, figures

    def _next_number(self) -> int:
        try:
            last = int(read_kept(self._file)[:20])
        except FileNotFoundError:
            last = 0
        except (OSError, ValueError) as error:
            raise StorageError(
                f"{self._file} does not hold the number of the last report ({error}): delete it."
            ) from error
        number = last + 1 if 0 <= last < LAST else 1
        write_durably(self._file, str(number).encode())
        return number
