"""What the first bytes of a file of sound say: its format, how much sound it claims, and whether that is there.

Chunks as in "Multimedia Programming Interface and Data Specifications 1.0" (RIFF), EBU Tech 3306 (RF64), AIFF-C of 1991
and the Core Audio Format Specification; pages as in RFC 3533 (Ogg).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from auricle.speech.flac_header import read_flac
from auricle.speech.mp3_header import find_mp3, id3_length, is_mp3
from auricle.speech.sound_decoder import Piece

_HEAD = 4_096
_MOST_CHUNKS = 64
_SPARE_BYTES = 128
"""Behind the sound, of whatever kind."""
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
    """How much sound the header claims, in `unit`; 0 where it does not say."""

    there: int = 0
    """How much sound there is."""

    unit: str = "bytes"

    has_size: bool = True
    """Whether the header says how much sound there is."""

    patch: tuple[int, bytes] = (0, b"")
    """Where to put which bytes, so that a decoder reads to the end."""

    pieces: tuple[Piece, ...] = ()
    """What a decoder is given: bytes, and from where to where in the file; empty: all of it."""

    streams: int = 1
    """Recordings that lie in it one behind the other, or beside each other."""

    lost: int = 0
    """Pages that are missing between others."""

    is_ended: bool = True
    """Whether the last page says that it is the last."""

    is_damaged: bool = False
    """Whether it begins as a format that is read, and does not go on so."""

    @property
    def is_cut(self) -> bool:
        """Whether more sound is claimed than there is; a recorder that counts its header as sound is forgiven."""
        return self.has_size and self.claimed > self.there

    @property
    def is_less(self) -> bool:
        """Whether less is claimed than there is, and all of it is read."""
        return not self.has_size and 0 < self.claimed < self.there


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
        there = max(0, size - start)
        if claimed + _SPARE_BYTES < there:
            told = struct.pack(">I" if head[:4] == b".snd" else "<I", there)
            return Header("au", claimed=claimed, there=there, has_size=False, patch=(8, told))
        return Header("au", claimed=claimed, there=there, has_size=not _is_open(claimed, size))
    if head[:4] == b"fLaC":
        return _flac(descriptor, 0, size)
    if head[:3] == b"ID3" and os.pread(descriptor, 4, tagged := id3_length(head)) == b"fLaC":
        return _flac(descriptor, tagged, size)
    if head[:4] == b"riff" and head[24:28] == b"wave":
        return Header("w64", claimed=int.from_bytes(head[16:24], "little"), there=size)
    if head[:8] == b"NIST_1A\n":
        return _sphere(head, size)
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
        if claimed < header.there and (not claimed or _goes_on(descriptor, size - header.there + claimed, size, 4)):
            return Header(
                "wav", claimed=claimed, there=header.there, has_size=False, patch=(28, struct.pack("<Q", header.there))
            )
        return Header("wav", claimed=claimed, there=header.there)
    riff = struct.unpack(order, head[4:8])[0]
    if not (header.has_size or header.claimed) and header.patch[1] and riff + 8 == size:
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
        if not is_open and counted < there and _goes_on(descriptor, body + claimed, size, struct.calcsize(order)):
            told = struct.pack(order, there + before)
            return Header(kind, claimed=counted, there=there, has_size=False, patch=(field, told))
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


def _sphere(head: bytes, size: int) -> Header:
    """A file of NIST's SPHERE, whose header is text; a decoder takes what is there, whatever that claims."""
    if b",embedded-shorten" in head:
        return Header(foreign="Shorten in SPHERE")
    fields = dict(re.findall(rb"^(sample_count|channel_count|sample_n_bytes) -i (\d{1,15})\s", head, re.MULTILINE))
    claimed = prod(int(value) for value in fields.values()) if len(fields) == 3 else 0
    there = max(0, size - int(head[8:16])) if head[8:16].strip().isdigit() else 0
    return Header("sphere", claimed=claimed, there=there, has_size=claimed + _SPARE_BYTES >= there or not claimed)


def _goes_on(descriptor: int, place: int, size: int, width: int) -> bool:
    """Whether what follows the sound that a header claims is more of it: no chunk, no tag, and not only zeros."""
    rest = os.pread(descriptor, _HEAD, place)
    if size - place <= _SPARE_BYTES or rest.startswith(b"TAG") or _is_zero(descriptor, place, size):
        return False
    for start in (0, 1):  # a chunk may be padded to an even place
        name, length = rest[start : start + 4], rest[start + 4 : start + 4 + width]
        sizes = (int.from_bytes(length, "little"), int.from_bytes(length, "big"))
        if all(32 <= byte < 127 for byte in name) and min(sizes) <= size - place:
            return False
    return True


def _is_zero(descriptor: int, place: int, size: int) -> bool:
    return not any(os.pread(descriptor, _HEAD, start).strip(b"\0") for start in range(place, size, _HEAD))


def _is_open(claimed: int, size: int) -> bool:
    return claimed >= _ENDLESS and claimed > size


def _flac(descriptor: int, place: int, size: int) -> Header:
    """A decoder takes the first of several streams, and of that no more than is claimed."""
    flac = read_flac(descriptor, place, size)
    is_less = 0 < flac.claimed < flac.samples
    at, patch = flac.patch
    pieces: tuple[Piece, ...] = ((place, size),) if place else ()
    if flac.claimed < flac.samples:
        pieces = (place, at), patch, (at + len(patch), size)
    return Header(
        "flac",
        claimed=flac.claimed if is_less else 0,
        there=flac.samples,
        unit="samples",
        has_size=not is_less,
        pieces=pieces,
        streams=flac.streams,
        is_ended=flac.is_ended,
    )


def _ogg(descriptor: int, head: bytes, size: int) -> Header:
    """What its pages say: each has the number after the one before, and only the first of a stream begins one."""
    codec = "opus" if b"OpusHead" in head[:64] else ""
    if b"Speex  " in head[:64]:
        return Header(foreign="Speex")
    place = numbers = streams = lost = length = samples = most = 0
    flags, page = 0, head
    while place < size and page[:4] == b"OggS" and len(page) > 26:
        flags, number, most = page[5], int.from_bytes(page[18:22], "little"), max(most, samples)
        samples = int.from_bytes(page[6:14], "little", signed=True)
        streams += bool(flags & 2)
        lost += 0 if flags & 2 else max(0, number - numbers)
        length = 27 + page[26] + sum(page[27 : 27 + page[26]])
        numbers, place = number + 1, place + length
        page = os.pread(descriptor, 27 + 255, place)
    there = length - max(0, place - size)
    if streams <= 1 and 0 <= samples < most:  # a decoder would stop there, in the middle
        return Header("ogg", is_damaged=True)
    is_ended = bool(flags & 4) and samples >= 0
    return Header("ogg", codec, claimed=length, there=there, streams=max(1, streams), lost=lost, is_ended=is_ended)


def _mp3(descriptor: int, size: int) -> Header:
    found = find_mp3(descriptor, size)
    if found is None or not found.frames or not (found.is_whole or found.claimed > size - found.start):
        return Header("mp3", is_damaged=True)
    pieces: tuple[Piece, ...] = (found.tag, *found.pieces)
    there = size - found.start
    return Header("mp3", "mp3", claimed=found.claimed, there=there, pieces=pieces, is_ended=found.is_ended)


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
