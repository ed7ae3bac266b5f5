"""What the listener tells about its microphone, kept up to date."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, replace

from auricle_edge.listening.capture.conversion import Meter
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.capture.levels import LevelMeter
from auricle_edge.listening.capture.pace import sentence
from auricle_edge.listening.listening_status import CaptureState


class StateKeeper:
    """The state of one capture; any thread may change it, and the one that listens takes note of sound and restarts.

    Parameters
    ----------
    channel
        The one that is listened to, as in `Conversion`.
    on_state
        Called with each change but the level's, in the thread that made it.
    """

    def __init__(self, channel: int | None, on_state: Callable[[CaptureState], None] | None) -> None:
        self._on_state = on_state or (lambda state: None)
        self._lock = threading.Lock()
        self._state = CaptureState()
        self._meter, self._levels = Meter(), LevelMeter(channel)

    @property
    def state(self) -> CaptureState:
        """What is known now."""
        with self._lock:
            return self._state

    def change(self, **fields: object) -> None:
        """Set fields of the state."""
        with self._lock:
            changed = replace(self._state, **fields)  # type: ignore[arg-type]
            if changed == self._state:
                return
            self._state = changed
        self._on_state(changed)

    def restarted(self, reason: str, problem: str) -> None:
        """Count a restart of the child."""
        restarts = dict(self.state.restarts)
        restarts[reason] = restarts.get(reason, 0) + 1
        self.change(restarts=restarts, problem=problem)

    def heard(self, frame: Sound, gap: float, pace: float | None = None, *, excused: bool) -> None:
        """Take note of a frame after a gap of so many seconds; told where it is a child's first, or its pace is news.

        Parameters
        ----------
        frame
            What was heard.
        gap
            Seconds that are missing before it.
        pace
            How many times as much sound comes as it should; None where that fits.
        excused
            The gap is not lost time: the device was muted.
        """
        self._meter.take(frame)
        self._levels.take(frame)
        with self._lock:
            before = self._state
            news = not before.running or (before.pace is None) != (pace is None)
            name = before.device or "The source"
            self._state = replace(
                before,
                running=True,
                problem=None if pace is None else sentence(pace, name, frame.rate, frame.channels),
                pace=None if pace is None else round(pace, 2),
                frames=before.frames + frame.size,
                last_progress=frame.time,
                dropped=before.dropped + round(gap * frame.rate) * (before.running and not frame.lost),
                overruns=before.overruns + frame.lost,
                lost_seconds=before.lost_seconds + (0.0 if excused else gap),
                level_dbfs=self._meter.level_dbfs,
                clipping=self._meter.clipping,
                **asdict(self._levels.levels),
            )
            told = self._state
        if news:
            self._on_state(told)
