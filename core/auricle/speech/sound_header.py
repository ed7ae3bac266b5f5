"""What the first bytes of a file of sound say: its format, how much sound it claims, and whether that is there.

Chunks as in "Multimedia Programming Interface and Data Specifications 1.0" (RIFF), EBU Tech 3306 (RF64), AIFF-C of 1991
and the Core Audio Format Specification; pages as in RFC 3533 (Ogg).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from auricle.speech.mp3_header import find_mp3, is_mp3

_HEAD = 4_096
_MOST_CHUNKS = 64
_ENDLESS = 0x7FFF_0000
"""A size from here on, larger than the file, was written by a program that did not know it: SoX takes 0x7ffff000,
arecord 0x80000000, ffmpeg 0xffffffff."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about itself."""

    kind: str = ""
    """The format, as `wav`; empty where it is not one that is read."""

    codec: str = ""
    """`mp3` or `opus`, which an old libsndfile does not decode."""

    foreign: str = ""
    """A name of a format of sound, where it is known and not read."""

    other: str = ""
    """A name of what it is, where that is not sound."""

    claimed: int = 0
    """Bytes of sound that the header claims; 0 where it does not say."""

    there: int = 0
    """Bytes of sound that there are."""

    has_size: bool = True
    """Whether the header says how much sound there is."""

    patch: tuple[int, bytes] = (0, b"")
    """Where to put which bytes, so that a decoder reads to the end."""

    counts_frames: bool = True
    """Whether the frames that a decoder announces are the header's, not an estimate."""

    is_damaged: bool = False
    """Whether it begins as a format that is read, and does not go on so."""

    @property
    def is_cut(self) -> bool:
        """Whether more sound is claimed than there is; a recorder that counts its header as sound is forgiven."""
        return self.has_size and self.claimed > self.there


def read_header(descriptor: int, size: int) -> Header:
    """Read what an open regular file of `size` bytes begins with."""
    head = os.pread(descriptor, _HEAD, 0)
    if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:12] == b"WAVE":
        return _wav(descriptor, head, size)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _of_chunks("aiff", descriptor, 12, ">I", size, b"SSND", 8)
    if head[:4] == b"caff":
        return _of_chunks("caf", descriptor, 8, ">q", size, b"data", 4)
    if head[:4] in (b".snd", b"dns.") and len(head) >= 24:
        start, claimed = struct.unpack(">II" if head[:4] == b".snd" else "<II", head[4:12])
        return Header("au", claimed=claimed, there=max(0, size - start), has_size=not _is_open(claimed, size))
    if head[:4] == b"fLaC":
        return Header("flac")
    if head[:4] == b"riff" and head[24:28] == b"wave":
        return Header("w64", claimed=int.from_bytes(head[16:24], "little"), there=size)
    if head[:4] == b"OggS":
        return _ogg(descriptor, head, size)
    if head[:4] in _BEGINNINGS and not head[:12].endswith(b"AVI "):
        return Header(_BEGINNINGS[head[:4]], is_damaged=True)
    if foreign := _foreign(head):
        return Header(foreign=foreign)
    if other := _other(head):
        return Header(other=other)
    return _mp3(descriptor, size) if is_mp3(head) else Header()


def _wav(descriptor: int, head: bytes, size: int) -> Header:
    order = ">I" if head[:4] == b"RIFX" else "<I"
    header = _of_chunks("wav", descriptor, 12, order, size, b"data", 0)
    if head[:4] == b"RF64" and head[12:16] == b"ds64":
        claimed = int.from_bytes(head[28:36], "little")
        return Header("wav", claimed=claimed, there=header.there, has_size=claimed != 0)
    riff = struct.unpack(order, head[4:8])[0]
    if not header.has_size and header.patch[1] and riff + 8 == size:
        return Header("wav", there=0)  # closed in order, without sound: what follows are other chunks
    return header


def _of_chunks(kind: str, descriptor: int, start: int, order: str, size: int, name: bytes, before: int) -> Header:
    """The header of a file of chunks; its sound is in one of this name, after `before` bytes."""
    for found, claimed, field, body in _chunks(descriptor, start, order, size):
        if found != name:
            continue
        there = max(0, size - body - before)
        if (claimed == 0 or claimed == -1) and there:
            largest = (1 << (8 * struct.calcsize(order) - 1)) - 1  # far beyond what is read of any file
            told = struct.pack(order, min(there + before, largest))
            return Header(kind, there=there, has_size=False, patch=(field, told))
        counted = max(0, claimed - before)
        is_open = claimed < 0 or _is_open(claimed, size)
        forgiven = counted if counted > size else min(counted, there)
        return Header(kind, claimed=forgiven, there=there, has_size=not is_open)
    return Header(kind)


def _chunks(descriptor: int, place: int, order: str, size: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Name, claimed bytes, where the claim stands and where the body begins, of one chunk after the other."""
    width = struct.calcsize(order)
    for _ in range(_MOST_CHUNKS):
        head = os.pread(descriptor, 4 + width, place)
        if len(head) < 4 + width:
            return
        claimed = struct.unpack(order, head[4:])[0]
        yield head[:4], claimed, place + 4, place + 4 + width
        if claimed < 0 or claimed > size:
            return
        place += 4 + width + claimed + (claimed & 1 if width == 4 else 0)


def _is_open(claimed: int, size: int) -> bool:
    return claimed >= _ENDLESS and claimed > size


def _ogg(descriptor: int, head: bytes, size: int) -> Header:
    codec = "opus" if b"OpusHead" in head[:64] else ""
    if b"Speex  " in head[:64]:
        return Header(foreign="Speex")
    tail = os.pread(descriptor, 131_072, max(0, size - 131_072))
    last = tail.rfind(b"OggS")
    page = tail[last:] if last >= 0 else b""
    segments = page[26] if len(page) > 26 else 0
    claimed = 27 + segments + sum(page[27 : 27 + segments])
    return Header("ogg", codec, claimed=claimed, there=len(page))


def _mp3(descriptor: int, size: int) -> Header:
    found = find_mp3(descriptor, size)
    if found is None or not (found.is_whole or found.claimed > size - found.start):
        return Header("mp3", is_damaged=True)
    return Header("mp3", "mp3", claimed=found.claimed, there=size - found.start, counts_frames=found.counts_frames)


_BEGINNINGS = {b"RIFF": "wav", b"RIFX": "wav", b"RF64": "wav", b"FORM": "aiff", b".snd": "au", b"riff": "w64"}
_FOREIGN = (
    (b"\x1aE\xdf\xa3", "Matroska or WebM"),
    (b"#!AMR", "AMR"),
    (b"0&\xb2u\x8ef\xcf\x11", "Windows Media Audio"),
    (b"MAC ", "Monkey's Audio"),
    (b"wvpk", "WavPack"),
    (b"ADIF", "AAC"),
)
_OTHER = (
    (b"\x00\x05\x16\x07", "what a Mac keeps beside a file"),
    (b"version https://git-lfs", "a pointer of Git LFS, for which git lfs pull brings the file"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
)


def _foreign(head: bytes) -> str:
    """The name of a format of sound that is known and not read; empty for others."""
    if head[4:8] == b"ftyp":
        return "MPEG-4 (AAC or ALAC)"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return "AAC"
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return "AVI"
    return next((name for start, name in _FOREIGN if head.startswith(start)), "")


def _other(head: bytes) -> str:
    """What a file is that holds no sound; empty where that is not known."""
    if not head.strip(b"\0"):
        return "nothing but zero bytes"
    known = next((name for start, name in _OTHER if head.startswith(start)), "")
    return known or ("text" if all(byte in _TEXT for byte in head) else "")


_TEXT = frozenset({9, 10, 12, 13, *range(32, 127)})
