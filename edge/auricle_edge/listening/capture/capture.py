"""The listener's microphone: a child process that is watched, restarted when it fails, and ended by mute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from msgspec.structs import asdict

from auricle.errors import DataError, WireError
from auricle_edge.listening.capture.blocks import Blocks, Heartbeat
from auricle_edge.listening.capture.child_process import CaptureChild, FifoKeeper, Wake
from auricle_edge.listening.capture.frames import Ended, Failed, FileFinding, Frame, Opened, Sound
from auricle_edge.listening.capture.mute_switch import mute_switch
from auricle_edge.listening.capture.pace import Pace
from auricle_edge.listening.capture.settings import CaptureSettings, check_source, parse_source
from auricle_edge.listening.capture.state import StateKeeper
from auricle_edge.listening.listening_status import CaptureState
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
        self._keeper = StateKeeper(settings.microphone, on_state)
        self._device = threading.Lock()
        """Of the child: held while one is started or ended."""
        self._child: CaptureChild | None = None
        self._started = False
        self._muted_by: str | None = None
        self._wake = Wake()
        self._fifo = FifoKeeper(self._source)
        self._heartbeat = Heartbeat(settings.silence_after, live=not self._source.recorded)
        self._pace = Pace()
        self._blocks = Blocks(settings, live=not self._source.fast)
        self._pause = FIRST_PAUSE
        self._open_within = self._limit = settings.open_within
        self._opened = 0.0
        self._excused = False
        """The next gap is mute's."""
        self.findings: dict[str, FileFinding] = {}
        """What is wrong with files of a recorded source, by its sentence: another child comes to them again."""

    @property
    def state(self) -> CaptureState:
        """What is known now."""
        return self._keeper.state

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
            self._fifo.close()
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
                self._fifo.close()
        self._keeper.change(muted=on, mute_reason=reason if on else "", problem=None, running=False)
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
        self._keeper.restarted(fault.reason, str(fault))
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
            self._fifo.open()
            self._child = CaptureChild({**asdict(self._source), "first": self._blocks.position})
            self._heartbeat.renew()
            self._pace.renew()
            self._blocks.renew()
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
        self._keeper.change(running=False)
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
                    yield from self._blocks_before_close(self._blocks.tail(time.monotonic()))
                    return
                if isinstance(frame, Sound):
                    self._limit, self._open_within = self._settings.stall_after, self._settings.open_within
                    yield from self._take_sound(frame)
                else:
                    self._take_report(frame)

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

    def _take_report(self, frame: Frame) -> None:
        if isinstance(frame, Opened):
            self._keeper.change(device=frame.device, native_rate=frame.rate, channels=frame.channels)
        elif isinstance(frame, FileFinding):
            self.findings[frame.sentence] = frame
        elif isinstance(frame, Failed):
            if self._source.recorded:
                raise DataError(frame.sentence)
            raise Fault(frame.reason, frame.sentence)
        else:
            raise Fault("garbled", "The capture child answered something else than what was asked.")

    def _take_sound(self, frame: Sound) -> Iterator[Block]:
        """Give out a frame of sound; Fault when it is not a frame of sound."""
        gap = self._blocks.gap(frame)
        if frame.time - self._opened > _STEADY_SECONDS:
            self._pause = FIRST_PAUSE
        if not self._source.recorded:
            self._pace.take(frame)
        pace = self._pace.times
        self._keeper.heard(frame, gap, pace, excused=self._excused)
        self._excused = False
        yield from self._blocks_before_close(self._blocks.take(frame, gap))
        if (note := self._blocks.note(self.state.device or "The source")) != self.state.note:
            self._keeper.change(note=note)
        reason = self._heartbeat.fault(frame)
        if reason is not None and pace is None:  # sound of another rate is mended by no restart
            raise Fault(reason, f"{self.state.device} gives nothing but {_NOTHING[reason]}.")

    def _blocks_before_close(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The blocks that come before the device is closed."""
        for block in blocks:
            if not self._over:
                yield block

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


_BY_SWITCH = "switch"
_NOTHING = {"zeros": "zeros", "frozen": "the same sound, bit for bit"}
