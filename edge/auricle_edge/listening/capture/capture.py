"""The listener's microphone: a child process that is watched, restarted when it fails, and ended by mute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from auricle.errors import DataError, WireError
from auricle_edge.listening.capture.child_process import CaptureChild
from auricle_edge.listening.capture.conversion import Conversion, Meter
from auricle_edge.listening.capture.fifo_keeper import FifoKeeper
from auricle_edge.listening.capture.frames import Ended, Failed, Frame, Opened, Sound
from auricle_edge.listening.capture.heartbeat import Heartbeat
from auricle_edge.listening.capture.levels import LevelMeter
from auricle_edge.listening.capture.mute_switch import mute_switch
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.capture.source_spec import check_source, parse_source
from auricle_edge.listening.capture.state import CaptureState
from auricle_edge.listening.capture.timeline import Timeline
from auricle_edge.listening.capture.wake import Wake
from auricle_edge.listening.sound import Block

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds between a fault and the new child; doubled by each fault until sound has come for a while."""
LONGEST_OPENING = 60.0
"""Seconds: a board that is busy needs long to start a process, and longer when it is started again and again."""
_STEADY_SECONDS = 2.0
_SWITCH_SECONDS = 0.1
"""How often the mute switch is looked at."""


class Fault(Exception):  # noqa: N818 - it is counted, not raised to anyone
    """Why a child is restarted."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Capture:
    """Sound of one source, whatever happens to it.

    `blocks` does the work, in the thread that iterates over it: it starts the child, watches it and restarts it. The
    other methods may be called from any thread.

    Parameters
    ----------
    settings
        Which source.
    on_state
        Called with each change of state but the level's, in the thread that changed it.

    Raises
    ------
    SettingsError
        The source or the mute switch is not one.
    """

    def __init__(self, settings: CaptureSettings, on_state: Callable[[CaptureState], None] | None = None) -> None:
        self._settings = settings
        self._source = parse_source(settings)
        self._switch = mute_switch(settings.mute_switch)
        self._on_state = on_state or (lambda state: None)
        self._lock = threading.Lock()
        """Of the state."""
        self._device = threading.Lock()
        """Of the child: held while one is started or ended."""
        self._state = CaptureState()
        self._child: CaptureChild | None = None
        self._started = False
        self._muted_by: str | None = None
        self._wake = Wake()
        self._keeper = FifoKeeper(self._source)
        self._heartbeat = Heartbeat(settings.silence_after)
        self._timeline = Timeline()
        self._meter, self._levels = Meter(), LevelMeter(settings.channel)
        self._conversion: Conversion | None = None
        self._position = 0
        self._pause = FIRST_PAUSE
        self._open_within = self._limit = settings.open_within
        self._opened = 0.0
        self._excused = False
        """The next gap is mute's."""

    @property
    def state(self) -> CaptureState:
        """What is known now."""
        with self._lock:
            return self._state

    def start(self) -> None:
        """Make ready; the source is opened when `blocks` is iterated.

        Raises
        ------
        SettingsError
            A package or program that the source needs is missing.
        DataError
            The recording, folder or FIFO is not one.
        """
        check_source(self._source)
        with self._device:
            self._started = True

    def stop(self) -> None:
        """Close the device; `blocks` ends."""
        with self._device:
            self._started = False
            self._end_child()
            self._keeper.close()
        self._wake.set()

    def mute(self, on: bool, reason: str) -> None:
        """Close the device, or open it again; when this returns muted, nothing reads it, and `blocks` goes silent.

        Parameters
        ----------
        on
            Whether to mute.
        reason
            Who wants it, for `state`.
        """
        with self._device:
            if (self._muted_by is not None) == on:
                return
            self._muted_by = reason if on else None
            self._excused = True
            if on:
                self._end_child()
                self._keeper.close()
        self._change(muted=on, mute_reason=reason if on else "", problem=None, running=False)
        self._wake.set()

    def blocks(self) -> Iterator[Block]:
        """Give out sound as it comes; waits in between; ends at `stop` and at the end of a recording.

        The child ends with the thread that iterates, whatever ends that.

        Raises
        ------
        DataError
            A recording cannot be read.
        """
        while self._started:
            self._look_at_switch()
            try:
                child = self._start_child()
            except OSError as error:
                self._after(Fault("no-process", f"The capture child cannot be started ({error.strerror})."))
                continue
            if child is None:
                self._wait(None)
                continue
            fault = None
            try:
                yield from self._session(child)
            except Fault as found:
                fault = None if child.unwanted else found
            finally:
                unwanted = self._close(child)
            if fault is not None:
                self._after(fault)
            elif not unwanted:
                return

    def _after(self, fault: Fault) -> None:
        """Count a fault and wait before the next child."""
        restarts = dict(self._state.restarts)
        restarts[fault.reason] = restarts.get(fault.reason, 0) + 1
        self._change(restarts=restarts, problem=str(fault))
        self._wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    @property
    def _closed(self) -> bool:
        """Whether the device has to stay closed."""
        return not self._started or self._muted_by is not None

    @property
    def _over(self) -> bool:
        """Whether nothing of this child is to be given out any more, also when another one may be started."""
        return self._closed or (self._child is not None and self._child.unwanted)

    def _start_child(self) -> CaptureChild | None:
        """A new child, unless the device has to stay closed."""
        with self._device:
            if self._closed:
                return None
            self._keeper.open()
            self._child = CaptureChild({**asdict(self._source), "first": self._position})
            self._heartbeat.renew()
            self._timeline.renew()
            return self._child

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()

    def _close(self, child: CaptureChild) -> bool:
        """Close what is left of a child; whether it had been ended by mute or stop."""
        with self._device:
            unwanted = child.unwanted
            child.close()
            self._child = None
        self._change(running=False)
        return unwanted

    def _session(self, child: CaptureChild) -> Iterator[Block]:
        """The sound of one child until the device is closed or a recording ends; Fault when it fails."""
        self._limit, self._opened = self._open_within, time.monotonic()
        self._open_within = min(2 * self._open_within, LONGEST_OPENING)
        for frames in self._arrivals(child):
            for frame in frames:
                if self._over:
                    return
                if isinstance(frame, Ended):
                    yield from self._given(self._tail(), time.monotonic())
                    return
                if isinstance(frame, Sound):
                    self._limit, self._open_within = self._settings.stall_after, self._settings.open_within
                    yield from self._heard(frame)
                else:
                    self._told(frame)

    def _arrivals(self, child: CaptureChild) -> Iterator[list[Frame]]:
        """What the child writes, as it comes; a listener that takes its time is no fault of the child's."""
        since = time.monotonic()
        while not self._over:
            left = since + self._limit - time.monotonic()
            if left <= 0:
                raise Fault("no-frames", f"No sound for {self._limit:.1f} s.")
            if self._wait(left, child):
                try:
                    yield child.frames()
                except EOFError:
                    raise Fault("died", f"The capture child ended ({child.ending}).") from None
                except WireError as error:
                    raise Fault("garbled", str(error)) from error
                since = time.monotonic()
            self._look_at_switch()

    def _told(self, frame: Frame) -> None:
        if isinstance(frame, Opened):
            self._change(device=frame.device, native_rate=frame.rate, channels=frame.channels)
        elif isinstance(frame, Failed):
            if self._source.recorded:
                raise DataError(frame.sentence)
            raise Fault(frame.reason, frame.sentence)
        else:
            raise Fault("garbled", "The capture child answered something else than what was asked.")

    def _heard(self, frame: Sound) -> Iterator[Block]:
        """Give out a frame of sound; Fault when it is not a frame of sound."""
        gap = 0.0 if self._source.fast else self._timeline.gap(frame)
        if (
            gap
            or self._conversion is None
            or (self._conversion.rate, self._conversion.channels)
            != (
                frame.rate,
                frame.channels,
            )
        ):
            yield from self._given(self._tail(), frame.time)
            self._timeline.skip(gap)
            chosen = self._settings
            self._conversion = Conversion(frame.rate, frame.channels, chosen.channel, chosen.high_pass)
        self._note(frame, gap)
        yield from self._given(self._conversion.take(frame.data), frame.time)
        if reason := self._heartbeat.fault(frame):
            raise Fault(reason, f"{self._state.device} gives nothing but {_NOTHING[reason]}.")

    def _note(self, frame: Sound, gap: float) -> None:
        """Bring the state up to date; it is told at the first sound of a child."""
        lost = 0.0 if self._excused else gap
        self._excused = False
        if frame.time - self._opened > _STEADY_SECONDS:
            self._pause = FIRST_PAUSE
        self._timeline.heard(frame)
        self._position = frame.after
        self._meter.take(frame)
        self._levels.take(frame)
        levels = self._levels.levels
        with self._lock:
            before = self._state
            self._state = replace(
                before,
                running=True,
                problem=None,
                frames=before.frames + frame.size,
                last_progress=frame.time,
                dropped=before.dropped + round(gap * frame.rate) * (before.running and not frame.lost),
                overruns=before.overruns + frame.lost,
                lost_seconds=before.lost_seconds + lost,
                level_dbfs=self._meter.level_dbfs,
                clipping=self._meter.clipping,
                noise_floor_dbfs=levels.noise_floor_dbfs,
                dc_offset=levels.dc_offset,
                hum_share=levels.hum_share,
                hum_hz=levels.hum_hz,
            )
        if not before.running:
            self._on_state(self._state)

    def _tail(self) -> NDArray[np.int16]:
        """What the resampler still holds."""
        rest = np.zeros(0, np.int16) if self._conversion is None else self._conversion.rest()
        self._conversion = None
        return rest

    def _given(self, samples: NDArray[np.int16], arrived: float) -> Iterator[Block]:
        """A block at its place, unless it is empty or the device was closed meanwhile."""
        start = self._timeline.next
        self._timeline.next += len(samples)
        if len(samples) and not self._over:
            yield Block(samples, start, arrived)

    def _look_at_switch(self) -> None:
        if self._switch is None:
            return
        if self._switch.on():
            self.mute(True, _BY_SWITCH)
        elif self._muted_by == _BY_SWITCH:
            self.mute(False, _BY_SWITCH)

    def _wait(self, seconds: float | None, child: CaptureChild | None = None) -> bool:
        """Wait for the child's bytes, a change by another thread, or so long; whether the child has written."""
        if self._switch is not None:
            seconds = _SWITCH_SECONDS if seconds is None else min(seconds, _SWITCH_SECONDS)
        return self._wake.wait(seconds, None if child is None else child.fileno())

    def _change(self, **fields: object) -> None:
        with self._lock:
            changed = replace(self._state, **fields)  # type: ignore[arg-type]
            if changed == self._state:
                return
            self._state = changed
        self._on_state(changed)


_BY_SWITCH = "switch"
_NOTHING = {"zeros": "zeros", "frozen": "the same sound, bit for bit"}
