"""Opens one file of sound and gives it in pieces: what its header claims is checked, never trusted.

Everything that reads sound from files goes through here, so that a file is decoded by all or refused by all, with the
same sentence. libsndfile decodes; none of its messages comes out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from auricle.errors import because
from auricle.speech.quiet_decoder import quiet_decoder
from auricle.speech.sound_decoder import Piece, Pieces, decodes, forward_class, sound_library
from auricle.speech.sound_faults import Finding, SoundError, SoundFault
from auricle.speech.sound_files import is_raw, raw_conversion
from auricle.speech.sound_header import Header, read_header

if TYPE_CHECKING:
    from soundfile import SoundFile

RATES = (4_000, 192_000)
"""Hz, the lowest and the highest that is read; beyond lies damage, or no speech."""

MOST_CHANNELS = 2
"""More are those of an array: some are processed, some raw, one may be what the device plays."""

_ENDLESS = 1 << 62
"""Frames that libsndfile announces where a header does not say how many there are."""
_UNSUPPORTED = 4
"""libsndfile's code of a codec that it has not."""
_SPARE_FRAMES = 2_304
"""By which an MP3 may be shorter than it says: two of its frames, of an encoder's delay."""
_FORMATS = {"mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}


class OpenSound:
    """A file of sound while it is read; a context manager.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    SoundError
        It cannot be read.
    DataError
        soundfile is not installed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: tuple[Finding, ...] = ()
        """What is wrong with the file although its sound is used."""
        library = sound_library()
        descriptor = _open_regular(path)
        try:
            size = os.fstat(descriptor).st_size
            if not size:
                raise fault(path, SoundFault.EMPTY, "has no byte: replace or remove it.")
            self._header = read_header(descriptor, size)
            self._check_header(library)
            self._file = self._decoder(library, descriptor)
        except OSError as error:
            os.close(descriptor)
            raise fault(path, SoundFault.CLOSED, f"cannot be read: {because(error)}.") from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self.rate: int = self._file.samplerate
        """Hz."""
        self.channels: int = self._file.channels
        self.is_float: bool = self._file.subtype in ("FLOAT", "DOUBLE")
        """Whether samples are floats, of whatever scale."""
        known = (self._header.has_size or self._header.is_less) and self._file.frames < _ENDLESS
        self._claimed: int = self._file.frames if known else 0
        self._given = 0

    def __enter__(self) -> OpenSound:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; twice is no mistake."""
        if self._descriptor >= 0:
            self._file.close()
            os.close(self._descriptor)
            self._descriptor = -1

    def check(self) -> None:
        """Refuse what cannot be a recording of speech: the rate, or more than two channels.

        Raises
        ------
        SoundError
            It says what to do.
        """
        self.check_rate()
        if self.channels > MOST_CHANNELS:
            raise fault(
                self.path,
                SoundFault.CHANNELS,
                f"has {self.channels} channels, of which some may hold music or noise: take one channel out of it, as "
                f"with sox {quote(self.path.name)} {quote(self.path.stem)}-1.wav remix 1.",
            )

    def check_rate(self) -> None:
        """Refuse a rate that no recording of speech has; SoundError."""
        if not RATES[0] <= self.rate <= RATES[1]:
            said = f"claims {self.rate} samples a second: convert it to 16000 or repair its header."
            raise fault(self.path, SoundFault.RATE, said)

    def read(self, frames: int) -> NDArray[np.float32]:
        """Decode the next `frames` frames, fewer at the end.

        Returns
        -------
        NDArray[np.float32]
            (frames, channels), full scale at 1 unless the file holds floats; (0, channels) after the end.

        Raises
        ------
        SoundError
            What comes cannot be decoded, or the file ended before what its header claims.
        """
        if self._claimed:  # a decoder that is asked for more than there is begins again, which takes as long
            frames = min(frames, self._claimed - self._given)
        try:
            with self._quiet():
                piece = np.asarray(self._file.read(frames, dtype="float32", always_2d=True))
        except (RuntimeError, ValueError, OverflowError, TypeError, MemoryError) as error:
            if self._given < self._claimed:
                raise self._cut() from error
            raise self._damage() from error
        except OSError as error:
            raise fault(self.path, SoundFault.CLOSED, f"cannot be read: {because(error)}.") from error
        self._given += len(piece)
        if not len(piece):
            self._check_end()
        return piece

    def _check_end(self) -> None:
        if not self._given:
            raise fault(self.path, SoundFault.EMPTY, "holds no sound: replace or remove it.")
        spare = _SPARE_FRAMES if self._header.kind == "mp3" else 0
        if self._given + spare < self._claimed:
            raise self._cut()

    def _check_header(self, library: ModuleType) -> None:
        header, path = self._header, self.path
        if header.foreign:
            raise fault(path, SoundFault.FORMAT, f"is {header.foreign}, which is not read: {conversion(path)}")
        if header.other:
            said = f"is {header.other}, and not sound: put the recording in its place, or remove it."
            raise fault(path, SoundFault.FORMAT, said)
        if header.is_damaged and is_raw(path):  # samples that begin as a frame of an MP3 does
            raise fault(path, SoundFault.RAW, raw_conversion(path))
        if header.is_damaged:
            raise self._damage()
        if header.codec and not decodes(library, *_FORMATS[header.codec]):
            raise fault(
                path,
                SoundFault.OLD_LIBRARY,
                f"is {header.codec.upper()}, which libsndfile {library.__libsndfile_version__} cannot decode: pip "
                f"install -U soundfile, or {conversion(path)}",
            )
        if header.streams > 1:
            raise fault(
                path,
                SoundFault.SEVERAL,
                f"holds {header.streams} recordings one behind the other, of which a decoder takes the first: write "
                "each into a file of its own.",
            )
        if header.lost:
            pages = f"{header.lost:,} pages are" if header.lost > 1 else "1 page is"
            raise fault(path, SoundFault.CUT, f"lacks sound, {pages} missing between others: copy it again.")
        if header.is_cut:
            raise fault(
                path,
                SoundFault.CUT,
                f"holds {header.there:,} of the {header.claimed:,} {header.unit} of sound that its header claims: copy "
                "it again, or remove it.",
            )
        self.findings = tuple(_read_to_end(header, path))

    def _decoder(self, library: ModuleType, descriptor: int) -> SoundFile:
        forward = forward_class(library)
        place, patch = self._header.patch
        pieces: tuple[Piece, ...] = self._header.pieces
        if patch:
            pieces = ((0, place), patch, (place + len(patch), os.fstat(descriptor).st_size))
        try:
            if pieces:
                with self._quiet():
                    return forward(Pieces(descriptor, pieces))
            os.lseek(descriptor, 0, os.SEEK_SET)
            return forward(descriptor, closefd=False)
        except OSError as error:
            raise fault(self.path, SoundFault.CLOSED, f"cannot be read: {because(error)}.") from error
        except (RuntimeError, ValueError, OverflowError, TypeError, MemoryError) as error:
            if getattr(error, "code", None) == _UNSUPPORTED:
                said = f"holds a codec that libsndfile cannot decode: {conversion(self.path)}"
                raise fault(self.path, SoundFault.FORMAT, said) from error
            if is_raw(self.path):
                raise fault(self.path, SoundFault.RAW, raw_conversion(self.path)) from error
            if not self._header.kind:
                said = f"is in a format that is not known; where it is sound, {conversion(self.path)}"
                raise fault(self.path, SoundFault.FORMAT, said) from error
            raise self._damage() from error

    def _quiet(self) -> AbstractContextManager[None]:
        return quiet_decoder() if self._header.codec == "mp3" else nullcontext()

    def _damage(self) -> SoundError:
        return fault(self.path, SoundFault.DAMAGED, "is damaged and cannot be decoded: replace or remove it.")

    def _cut(self) -> SoundError:
        return fault(
            self.path,
            SoundFault.CUT,
            f"holds less than the {self._claimed:,} samples that its header claims: copy it again, or remove it.",
        )


def _read_to_end(header: Header, path: Path) -> Iterator[Finding]:
    """What is said of a file that is read to its end, whatever its header says of that."""
    if header.is_less:
        yield SoundFault.LESS.finding(
            f"{path} holds {header.there:,} {header.unit} of sound, and its header claims {header.claimed:,}: read to "
            "the end."
        )
    elif not header.has_size:
        yield SoundFault.NO_SIZE.finding(
            f"{path} was not closed by its recorder, its header has no size: read to the end."
        )
    elif not header.is_ended:
        yield SoundFault.NO_END.finding(f"{path} was not closed by its recorder: read to where it ends.")


def fault(path: Path, kind: SoundFault, said: str) -> SoundError:
    """The error of a file, which the sentence names first."""
    return SoundError(kind, f"{path} {said}")


def conversion(path: Path) -> str:
    """The command that converts a file, as the end of a sentence."""
    target = path.with_suffix(".wav").name
    target = f"{path.stem}-16k.wav" if target == path.name else target
    return f"ffmpeg -i {quote(path.name)} -ar 16000 -ac 1 {quote(target)} converts it."


def _open_regular(path: Path) -> int:
    """A descriptor of a regular file; what else has such a name is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise fault(path, SoundFault.NOT_REGULAR, "is not a regular file: name a recording.") from error
        kind = SoundFault.ABSENT if error.errno == errno.ENOENT else SoundFault.CLOSED
        raise fault(path, kind, f"cannot be read: {because(error)}.") from error
    except ValueError as error:
        raise fault(path, SoundFault.ABSENT, "is not a valid path: a name cannot hold a zero byte.") from error
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise fault(path, SoundFault.NOT_REGULAR, "is not a regular file: name a recording.")
