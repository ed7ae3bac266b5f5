"""ApiFrames of ESPHome's native API as a device reads and writes them: plain, and encrypted with Noise.

A plain frame is a zero, the length of its payload, its type, both as varints, and the payload. With a key every frame
is a one, two bytes of length (big-endian), and what Noise makes of two bytes of type, two of length and the payload;
the first two of each side are a hello and the handshake `NNpsk0`. Every length is asked for before anything is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from auricle.errors import WireError

LARGEST_PAYLOAD = 65_535
"""Bytes of a message: what two bytes of length can say, which is ESPHome's own limit of plain ones, too."""
MESSAGE_SECONDS = 10.0
"""In which a frame has to come whole once it has begun, and a handshake be over."""
T = TypeVar("T")
_PATTERN = b"Noise_NNpsk0_25519_ChaChaPoly_SHA256"
_HEAD = 4


class ApiFrames(Protocol):
    """How the bytes of a connection are cut into messages."""

    encrypted: bool

    async def greet(self, writer: asyncio.StreamWriter) -> None:
        """Agree on keys, where there are some; WireError where the other side has not the same."""

    async def read(self, idle: float) -> tuple[int, bytes]:
        """The next message's type and payload.

        Parameters
        ----------
        idle
            Seconds in which it has to begin.

        Raises
        ------
        TimeoutError
            Nothing has begun; the next call goes on.
        WireError
            What came is no frame, too long, or too slow.
        OSError, EOFError
            The connection is over.
        """

    def pack(self, kind: int, payload: bytes) -> bytes:
        """A frame with a message of a type."""


class PlainFrames:
    """ApiFrames without a key."""

    encrypted = False

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def greet(self, writer: asyncio.StreamWriter) -> None:
        """Nothing to agree on."""

    async def read(self, idle: float) -> tuple[int, bytes]:
        """The next message, as `ApiFrames.read`."""
        first = await _first(self._reader, idle)
        if first != 0:
            raise FramesError(
                b"\x00\x00\x00", "it asks for encryption, and this device has no key_file" if first == 1 else None
            )
        return await _in_time(self._rest())

    async def _rest(self) -> tuple[int, bytes]:
        length, kind = await self._varint(), await self._varint()
        if length > LARGEST_PAYLOAD:
            raise WireError(f"it announced a message of {length:,} bytes")
        return kind, await self._reader.readexactly(length)

    async def _varint(self) -> int:
        value = 0
        for shift in (0, 7, 14):
            byte = (await self._reader.readexactly(1))[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise WireError("a number in its frame is too long")

    def pack(self, kind: int, payload: bytes) -> bytes:
        """A frame with a message of a type."""
        return b"\x00" + _varint(len(payload)) + _varint(kind) + payload


class NoiseFrames:
    """ApiFrames under a key that both sides know.

    Parameters
    ----------
    reader
        Of the connection.
    key
        32 bytes.
    name, mac
        What the device says of itself before anything is encrypted.
    """

    encrypted = True

    def __init__(self, reader: asyncio.StreamReader, key: bytes, name: str, mac: str) -> None:
        from noise.connection import NoiseConnection

        self._reader, self._hello = reader, b"\x01" + name.encode() + b"\x00" + mac.encode() + b"\x00"
        self._noise = NoiseConnection.from_name(_PATTERN)
        self._noise.set_as_responder()
        self._noise.set_psks(key)

    async def greet(self, writer: asyncio.StreamWriter) -> None:
        """Answer the hello and the handshake."""
        from cryptography.exceptions import InvalidTag
        from noise.exceptions import NoiseHandshakeError, NoiseInvalidMessage

        hello = await self._frame(MESSAGE_SECONDS)
        self._noise.set_prologue(b"NoiseAPIInit" + len(hello).to_bytes(2, "big") + hello)
        self._noise.start_handshake()
        writer.write(_noise_frame(self._hello))
        said = await self._frame(MESSAGE_SECONDS)
        try:
            self._noise.read_message(said[1:])
            answer = bytes(self._noise.write_message())
        except (InvalidTag, NoiseHandshakeError, NoiseInvalidMessage, ValueError) as error:
            refusal = _noise_frame(b"\x01Handshake MAC failure")
            raise FramesError(refusal, "its key is not the one in key_file") from error
        writer.write(_noise_frame(b"\x00" + answer))

    async def read(self, idle: float) -> tuple[int, bytes]:
        """The next message, as `ApiFrames.read`."""
        from cryptography.exceptions import InvalidTag
        from noise.exceptions import NoiseInvalidMessage

        sealed = await self._frame(idle)
        try:
            opened = bytes(self._noise.decrypt(sealed))
        except (InvalidTag, NoiseInvalidMessage) as error:
            raise WireError("a frame of it is not encrypted with the key") from error
        if len(opened) < _HEAD:
            raise WireError("a frame of it has no type")
        return int.from_bytes(opened[:2], "big"), opened[_HEAD:]

    def pack(self, kind: int, payload: bytes) -> bytes:
        """A frame with a message of a type."""
        head = kind.to_bytes(2, "big") + len(payload).to_bytes(2, "big")
        return _noise_frame(bytes(self._noise.encrypt(head + payload)))

    async def _frame(self, idle: float) -> bytes:
        first = await _first(self._reader, idle)
        if first != 1:
            reason = "it does not encrypt, and this device has a key_file" if first == 0 else None
            raise FramesError(_noise_frame(b"\x01Bad indicator byte"), reason)
        return await _in_time(self._rest())

    async def _rest(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(2), "big")
        return await self._reader.readexactly(length)


class FramesError(WireError):
    """The other side speaks something else; `answer` are the bytes by which Home Assistant understands what."""

    def __init__(self, answer: bytes, reason: str | None) -> None:
        super().__init__(reason or "what it sent is not ESPHome's native API")
        self.answer = answer


async def _first(reader: asyncio.StreamReader, idle: float) -> int:
    return (await asyncio.wait_for(reader.readexactly(1), idle))[0]


async def _in_time(rest: Coroutine[Any, Any, T]) -> T:
    try:
        return await asyncio.wait_for(rest, MESSAGE_SECONDS)
    except asyncio.TimeoutError as error:
        raise WireError(f"a message of it did not come whole in {MESSAGE_SECONDS:.0f} s") from error


def _noise_frame(payload: bytes) -> bytes:
    return b"\x01" + len(payload).to_bytes(2, "big") + payload


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)
