"""The loudspeaker: a program that gets a WAV file on its standard input while it comes, as loud as it is set."""

from __future__ import annotations

import asyncio
import contextlib
import io
import subprocess
import threading
import time
import wave
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from auricle.errors import AuricleError
from auricle_edge.listening.assist.answer_source import AnswerOrigin, AnswerSource, WavFormat
from auricle_edge.listening.events.hook import without_secrets
from auricle_edge.listening.sound import RATE

PIECE_BYTES = 2_048
"""Bytes that are passed on at a time."""
PIPE_BYTES = 4_096
"""That the program may be behind: so much of an answer that is stopped still sounds."""
DRAIN_SECONDS = 30.0
"""In which the program has to end after its last byte."""
LARGEST_REASON = 300
ENDLESS_BYTES = 0x7FFF_F000
"""Bytes of samples that the header speaks of: programs play until their input ends."""


class Player:
    """Plays one thing at a time; what begins ends what was before.

    Parameters
    ----------
    command
        Program and arguments; empty: there is no loudspeaker, and everything is over at once.
    volume
        0 to 1.
    """

    def __init__(self, command: Sequence[str], volume: float) -> None:
        self._command, self.volume, self.muted = tuple(command), volume, False
        self._playing: _Playing | None = None

    @property
    def silent(self) -> bool:
        """Whether there is no loudspeaker."""
        return not self._command

    async def play(self, url: str, origin: AnswerOrigin, seconds: float | None) -> bool:
        """Play what a URL has.

        Parameters
        ----------
        url, origin
            As for `AnswerSource`.
        seconds
            After which it is cut off; None: never.

        Returns
        -------
        bool
            Whether it came to its end; False where it was stopped.

        Raises
        ------
        AuricleError
            It cannot be fetched or played.
        """
        return await self._run(_Playing(self, self._command, seconds, url=url, origin=origin))

    async def play_samples(self, samples: NDArray[np.int16]) -> bool:
        """Play samples (n,) of our own at `RATE`; as `play`."""
        return await self._run(_Playing(self, self._command, None, samples=samples))

    def stop(self) -> None:
        """End what plays."""
        if self._playing is not None:
            self._playing.stop()
            self._playing = None

    async def _run(self, playing: _Playing) -> bool:
        self.stop()
        if not self._command:
            return True
        self._playing = playing
        try:
            await asyncio.to_thread(playing.run)
        finally:
            if self._playing is playing:
                self._playing = None
        return not playing.stopped


class _Playing:
    """One thing that is played, in a thread."""

    def __init__(
        self,
        player: Player,
        command: Sequence[str],
        seconds: float | None,
        *,
        url: str = "",
        origin: AnswerOrigin | None = None,
        samples: NDArray[np.int16] | None = None,
    ) -> None:
        self._player, self._command, self._seconds = player, command, seconds
        self._url, self._origin, self._samples = url, origin, samples
        self._source: AnswerSource | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.stopped = False

    def run(self) -> None:
        """Play to the end, or until it is stopped; AuricleError where that fails of itself."""
        try:
            self._play()
        except AuricleError:
            if not self.stopped:
                raise

    def _play(self) -> None:
        read: Callable[[int], bytes]
        if self._samples is None:
            assert self._origin is not None
            source = AnswerSource(self._url, self._origin)
            with self._lock:
                self._source = source
            form, read = source.format, source.read
        else:
            form, read = WavFormat(RATE, 1), io.BytesIO(self._samples.astype("<i2").tobytes()).read
        try:
            self._start()
            if self._process is not None:
                self._feed(self._process, form, read)
        finally:
            self.stop_source()
            self._end()

    def stop(self) -> None:
        """From any thread: play no more."""
        with self._lock:
            self.stopped = True
            if self._process is not None:
                self._process.kill()
        self.stop_source()

    def stop_source(self) -> None:
        """Fetch no more."""
        if self._source is not None:
            self._source.close()

    def _start(self) -> None:
        with self._lock:
            if self.stopped:
                return
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=without_secrets(),
                    pipesize=PIPE_BYTES,
                )
            except OSError as error:
                raise AuricleError(f"{self._command[0]} cannot be run ({error.strerror or error})") from error

    def _feed(self, process: subprocess.Popen[bytes], form: WavFormat, read: Callable[[int], bytes]) -> None:
        assert process.stdin is not None
        until, kept = None if self._seconds is None else time.monotonic() + self._seconds, b""
        try:
            process.stdin.write(_header(form))
            while not self.stopped and (until is None or time.monotonic() < until):
                came = read(PIECE_BYTES)
                if not came:
                    break
                whole = len(kept + came) & ~1
                kept, piece = (kept + came)[whole:], (kept + came)[:whole]
                process.stdin.write(self._scale(piece))
            process.stdin.close()
        except OSError as error:
            if not self.stopped:
                raise AuricleError(self._reason(process) or f"the player took no sound ({error})") from error
            return
        try:
            process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            raise AuricleError(f"{self._command[0]} did not end {DRAIN_SECONDS:.0f} s after its last byte") from None
        if process.returncode and not self.stopped:
            raise AuricleError(self._reason(process) or f"{self._command[0]} ended with {process.returncode}")

    def _scale(self, piece: bytes) -> bytes:
        share = 0.0 if self._player.muted else self._player.volume
        if share >= 1.0:
            return piece
        return (np.frombuffer(piece, "<i2") * share).astype("<i2").tobytes()

    def _reason(self, process: subprocess.Popen[bytes]) -> str:
        """What the program said when it failed."""
        assert process.stderr is not None
        process.kill()
        words = process.stderr.read(LARGEST_REASON).decode(errors="replace").split("\n")[0]
        return f"{self._command[0]} says: {words}" if words else ""

    def _end(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stderr):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()


def _header(form: WavFormat) -> bytes:
    """Of a WAV file whose length nobody knows yet."""
    head = io.BytesIO()
    with wave.open(head, "wb") as file:
        file.setnchannels(form.channels)
        file.setsampwidth(2)
        file.setframerate(form.rate)
    made = bytearray(head.getvalue())
    made[4:8], made[40:44] = (ENDLESS_BYTES + 36).to_bytes(4, "little"), ENDLESS_BYTES.to_bytes(4, "little")
    return bytes(made)
