"""A frame: `AUR1`, the header's length, the signed header, and the body it hashes; and the topics that frames go on.

The header is a MessagePack struct of two byte strings: the encoded message and an Ed25519 signature over
(domain, topic, message). A frame that was moved to another topic, altered or forged does not open.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from auricle.errors import WireError
from auricle.wire.identity import SIGNATURE_BYTES, Identity, verify
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.messages import SCHEMA, Message, Update, WireMessage

UP = ("reg", "get", "loss", "upd", "st", "rel", "hear", "sum")
"""What a device says: the last level of its topics; brokers grant these and no others."""


@dataclass(frozen=True)
class Topics:
    """Names of all topics of a fleet (PROTOCOL section 4)."""

    fleet: str

    @property
    def prefix(self) -> str:
        """Everything of this fleet lies below."""
        return f"auricle/1/{self.fleet}"

    @property
    def coordinator_state(self) -> str:
        """Retained: the coordinator's presence."""
        return f"{self.prefix}/c/state"

    @property
    def model(self) -> str:
        """Retained: the current model's signed manifest."""
        return f"{self.prefix}/c/model"

    def update_group(self, identity: Identity) -> str:
        """The filter of a shared subscription (MQTT 5, section 4.8.2): each update comes to one of its members.

        Only who has the coordinator's key knows the group's name. A broker lets anybody join a group that may read
        nothing of it: a device that did would be given every second update, and the broker would drop it.
        """
        group = hashlib.sha256(identity.sign(GROUP + self.prefix.encode())).hexdigest()[:16]
        return f"$share/{group}/{self.prefix}/d/+/up/upd"

    def blob(self, sha256: str, part: int | None = None) -> str:
        """Part `part` of a content-addressed blob; all parts without."""
        return f"{self.prefix}/b/{sha256}/{'+' if part is None else part}"

    def device_state(self, device: str) -> str:
        """Retained: a device's presence."""
        return f"{self.prefix}/d/{device}/state"

    def up(self, device: str, kind: str) -> str:
        """From a device: a kind of `UP`."""
        return f"{self.prefix}/d/{device}/up/{kind}"

    def down(self, device: str, kind: str) -> str:
        """To a device: inv, ack or cmd."""
        return f"{self.prefix}/d/{device}/dn/{kind}"


def device_of(topic: str) -> str:
    """Whose topic it is; an empty name for a topic of no device."""
    levels = topic.split("/")
    return levels[4] if len(levels) > 4 else ""


MAGIC = b"AUR1"
DOMAIN = b"auricle/1\0"
GROUP = b"auricle/1 group of workers\0"
"""What is signed for the name of a shared subscription; no message begins so."""
LARGEST_FRAME = 120 * 1024
LARGEST_HEADER = 4096
CHUNK = LARGEST_FRAME - LARGEST_HEADER - 128
"""Bytes of a body that one frame carries."""


def largest_message(length: int) -> int:
    """Bytes that the largest message with a part of a body of so many bytes may have."""
    return LARGEST_FRAME - CHUNK + min(length, CHUNK)


UPGRADE = "upgrade_required"
"""What is said of a message of another major version."""


class Sealed(msgspec.Struct, frozen=True, array_like=True):
    """An encoded message and the signature that vouches for it."""

    message: Annotated[bytes, msgspec.Meta(max_length=LARGEST_HEADER)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class _Version(msgspec.Struct):
    schema: int


_encoder = msgspec.msgpack.Encoder()
_sealed = msgspec.msgpack.Decoder(Sealed)
_version = msgspec.msgpack.Decoder(_Version)
_message = msgspec.msgpack.Decoder(WireMessage)


def _bytes_to_sign(topic: str, message: bytes) -> bytes:
    return DOMAIN + topic.encode() + b"\0" + message


def seal(identity: Identity, topic: str, message: Message, body: bytes = b"") -> bytes:
    """Encode and sign a message for one topic, with its body.

    Raises
    ------
    WireError
        The frame would be larger than `LARGEST_FRAME`: send the body in parts. Or the message takes no body.
    """
    _refuse_stray_body(message, body)
    if not message.nonce:
        message = msgspec.structs.replace(message, nonce=os.urandom(8).hex())
    encoded = _encoder.encode(message)
    header = _encoder.encode(Sealed(encoded, identity.sign(_bytes_to_sign(topic, encoded))))
    if len(encoded) > LARGEST_HEADER:
        raise WireError(f"A header of {len(encoded)} bytes is over the limit of {LARGEST_HEADER}.")
    frame = MAGIC + struct.pack("<H", len(header)) + header + body
    if len(frame) > LARGEST_FRAME:
        raise WireError(f"A frame of {len(frame)} bytes is over the limit of {LARGEST_FRAME}.")
    return frame


def _refuse_stray_body(message: Message, body: bytes) -> None:
    """Only an update has a body, and no longer one than its signed header says: nothing else can be smuggled along."""
    allowed = message.length if isinstance(message, Update) else 0
    if len(body) > allowed:
        raise WireError(f"body: {len(body)} bytes where the message allows {allowed}")


def open_frame(frame: bytes, topic: str, key_of: Callable[[Message], bytes | None]) -> tuple[WireMessage, bytes]:
    """Check a frame and return its message and body.

    Parameters
    ----------
    frame
        The bytes that arrived.
    topic
        Where they arrived.
    key_of
        The public key that must have signed this message; None: nobody may.

    Raises
    ------
    WireError
        `upgrade_required`, or what is wrong with length, magic, schema, field, signature or body.
    """
    if len(frame) > LARGEST_FRAME or len(frame) < 6 or frame[:4] != MAGIC:
        raise WireError("frame: not an Auricle frame of an allowed length")
    (length,) = struct.unpack("<H", frame[4:6])
    if len(frame) < 6 + length:
        raise WireError("frame: shorter than its header says")
    try:
        sealed = _sealed.decode(frame[6 : 6 + length])
        if _version.decode(sealed.message).schema != SCHEMA:
            raise WireError(UPGRADE)
        message = _message.decode(sealed.message)
    except UNDECODABLE as error:
        raise WireError(f"schema: {error}") from error
    key = key_of(message)
    if key is None or not verify(key, sealed.signature, _bytes_to_sign(topic, sealed.message)):
        raise WireError("signature: not made by the owner of this name for this topic")
    body = frame[6 + length :]
    _refuse_stray_body(message, body)
    return message, body
