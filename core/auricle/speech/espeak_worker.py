"""One synthetic speaker in one process: `python -m auricle.speech.espeak_worker`, a job on stdin, samples on stdout.

espeak-ng keeps its voice and its settings in global variables, so that every speaker gets a process. The job is a JSON
object. With "utterances" the answer is the sample rate as a little-endian uint32 and then, for every utterance, its
number of samples as a uint32 and the samples as int16; with "spell" it is a line of phonemes for every text, parted by
underscores and the words by spaces. What goes wrong is one line on stderr and exit code 1. The C interface is that of
https://github.com/espeak-ng/espeak-ng/blob/1.52.0/src/include/espeak-ng/speak_lib.h.

A fleet starts one for each of its speakers: what it imports takes longer than what it says.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

_SYNCHRONOUS_RETRIEVAL = 2
_DO_NOT_EXIT = 0x8000
_UTF8 = 1
_IPA_WITH_UNDERSCORES = 0x02 | ord("_") << 8
_PARAMETERS = {"rate": 1, "pitch": 3, "range": 4}
_LONGEST_DATA_PATH = 140
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class EspeakError(Exception):
    """espeak-ng could not be loaded or refused a call."""


def main(job_source: BinaryIO, answer: BinaryIO) -> None:
    """Do one job and answer.

    `{"voice": ..., "utterances": [{"text", "rate", "pitch", "range"}, ...]}` or `{"voice": ..., "spell": [text, ...]}`.
    """
    job = json.load(job_source)
    import espeakng_loader

    path = str(espeakng_loader.get_data_path())
    if len(os.fsencode(path)) <= _LONGEST_DATA_PATH:
        _do(job, path, answer)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="auricle-", dir="/tmp") as folder:
        link = str(Path(folder, "espeak-ng-data"))
        Path(link).symlink_to(path)
        _do(job, link, answer)


def _do(job: dict[str, Any], data: str, answer: BinaryIO) -> None:
    """Do the job with espeak-ng's data at a path that fits its 160-byte buffer."""
    library, rate = _start(data)
    if library.espeak_SetVoiceByName(job["voice"].encode()):
        raise EspeakError(f"espeak-ng has no voice {job['voice']}")
    if "spell" in job:
        answer.write("".join(f"{_spell(library, text)}\n" for text in job["spell"]).encode())
        return
    mouth = _Mouth(library)
    answer.write(struct.pack("<I", rate))
    for utterance in job["utterances"]:
        samples = mouth.speak(utterance)
        answer.write(struct.pack("<I", len(samples) // 2))
        answer.write(samples)


def _start(data: str) -> tuple[ctypes.CDLL, int]:
    """Load the library and give it with its sample rate in Hz."""
    import espeakng_loader

    try:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except OSError as error:
        raise EspeakError(f"the espeak-ng library cannot be loaded: {error}") from error
    library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
    library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    library.espeak_Synth.argtypes = [
        *(ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint),
        *(ctypes.c_void_p, ctypes.c_void_p),
    ]
    rate = int(library.espeak_Initialize(_SYNCHRONOUS_RETRIEVAL, 0, data.encode(), _DO_NOT_EXIT))
    if rate <= 0:
        raise EspeakError(f"espeak-ng found no data in {data}")
    return library, rate


def _spell(library: ctypes.CDLL, text: str) -> str:
    """Give the phonemes of a text; the library takes one clause at a time and moves the pointer on."""
    buffer = ctypes.create_string_buffer(text.encode())
    position = ctypes.c_void_p(ctypes.addressof(buffer))
    clauses: list[str] = []
    while position.value:
        sounds = library.espeak_TextToPhonemes(ctypes.byref(position), _UTF8, _IPA_WITH_UNDERSCORES)
        clauses.append(" ".join((sounds or b"").decode(errors="replace").split()))
    return " ".join(clauses)


class _Mouth:
    """The callback that espeak-ng gives its samples to, kept alive as long as the library may call it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._spoken = bytearray()
        self._callback = _CALLBACK(self._collect)
        library.espeak_SetSynthCallback(self._callback)

    def speak(self, utterance: dict[str, Any]) -> bytes:
        """Speak one utterance and give its int16 samples."""
        for name, number in _PARAMETERS.items():
            self._library.espeak_SetParameter(number, utterance[name], 0)
        self._spoken.clear()
        text = utterance["text"].encode() + b"\0"
        if self._library.espeak_Synth(text, len(text), 0, 0, 0, _UTF8, None, None):
            raise EspeakError(f"espeak-ng would not speak {utterance['text']!r}")
        return bytes(self._spoken)

    def _collect(self, samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            self._spoken.extend(ctypes.string_at(samples, 2 * count))
        return 0


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except EspeakError as problem:
        sys.exit(str(problem))
