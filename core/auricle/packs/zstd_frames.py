"""Zstandard frames read like a file, within limits: what packs and backups are unpacked with.

`backports.zstd` is Python 3.14's `compression.zstd` for older versions.
"""

from __future__ import annotations

import io

from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

from auricle.packs.plain_tar import Readable

FED_BYTES = 1 << 15
"""Bytes that the decompressor is given at once."""
MOST_FRAMES = 4096
"""Tools that compress in parallel write several; each costs a decompressor of its own."""


class Frames(io.RawIOBase):
    """What frames hold, one after the other; where the last one is cut, what stands before the cut.

    Parameters
    ----------
    packed
        Where the frames come from; it is left open.
    window
        Bytes, a power of two, that a frame may look back; more is not allocated.

    Raises
    ------
    ZstdError
        On reading: something is not a frame, is damaged, looks back further, or there are more than `MOST_FRAMES`.
    """

    def __init__(self, packed: Readable, window: int) -> None:
        self._packed = packed
        self._limits: dict[int, int] = {DecompressionParameter.window_log_max: window.bit_length() - 1}
        self._frame, self._begun = ZstdDecompressor(options=self._limits), 1

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes; none at the end, or at a cut."""
        while True:
            if self._frame.eof:
                more = self._frame.unused_data or self._packed.read(FED_BYTES)
                if more:
                    self._next_frame()
            else:
                more = self._packed.read(FED_BYTES) if self._frame.needs_input else b""
            if not more and (self._frame.eof or self._frame.needs_input):
                return b""
            block: bytes = self._frame.decompress(more, size)
            if block:
                return block

    def _next_frame(self) -> None:
        self._begun += 1
        if self._begun > MOST_FRAMES:
            raise ZstdError(f"There are more than {MOST_FRAMES} frames.")
        self._frame = ZstdDecompressor(options=self._limits)
