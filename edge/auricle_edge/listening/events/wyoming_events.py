"""Wyoming events read from a stranger: every length is bounded before anything is taken in.

The format (https://github.com/rhasspy/wyoming): a line of JSON with `type`, `data_length` and `payload_length`, then as
many bytes of JSON that extend `data`, then as many of payload.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from auricle.errors import WireError

LARGEST_LINE = 1 << 16
"""Bytes of an event's line, and of its data."""
LARGEST_PAYLOAD = 1 << 20
"""Bytes of an event's payload: half a minute of sound."""


class Header(msgspec.Struct, frozen=True):
    """The line that begins an event; keys that are not known are passed over."""

    type: Annotated[str, Meta(max_length=64)]
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    data_length: Annotated[int, Meta(ge=0, le=LARGEST_LINE)] | None = None
    payload_length: Annotated[int, Meta(ge=0, le=LARGEST_PAYLOAD)] | None = None


async def read_event(
    reader: asyncio.StreamReader, seconds: float, *, begins: float | None
) -> tuple[str, dict[str, Any], bytes] | None:
    """The next event's type, data and payload; None at the end.

    Parameters
    ----------
    seconds
        How long an event may take to come whole.
    begins
        And to begin; None: at any time.

    Raises
    ------
    WireError
        What came is not an event, too long for one, or too slow.
    OSError
        The connection is gone.
    """
    try:
        first = await asyncio.wait_for(reader.read(1), begins)
        return await asyncio.wait_for(_read_from(reader, first), seconds) if first else None
    except asyncio.TimeoutError as error:
        if getattr(error, "errno", None) is not None:
            raise  # the kernel's: the other side does not answer any more
        raise WireError(f"The Wyoming client said nothing for {begins if begins else seconds:g} s.") from error


async def _read_from(reader: asyncio.StreamReader, first: bytes) -> tuple[str, dict[str, Any], bytes]:
    try:
        line = first + (b"" if first == b"\n" else await reader.readuntil(b"\n"))
        header = msgspec.json.decode(line, type=Header)
        data = dict(header.data)
        if header.data_length:
            data |= msgspec.json.decode(await reader.readexactly(header.data_length), type=dict[str, Any])
        payload = await reader.readexactly(header.payload_length) if header.payload_length else b""
    except asyncio.IncompleteReadError as error:
        raise WireError("The Wyoming connection ended inside an event.") from error
    except (asyncio.LimitOverrunError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"What came is no Wyoming event: {error}.") from error
    return header.type, data, payload
