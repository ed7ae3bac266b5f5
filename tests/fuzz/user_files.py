"""Files as people bring them: sound, manifests, settings and labels, drawn by a seed, and some of them spoilt.

Other targets change the bytes of valid files. Here whole files are made: each format and encoding that programs save,
in each form of a name, and what stands where a file should be: a folder, a pipe, a link to itself.
"""

from __future__ import annotations

import csv
import io
import os
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unicodedata import normalize

import numpy as np
import soundfile

from tests.fuzz.target import CORPUS, FOUND

KINDS = ("sound", "manifest", "settings", "labels")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252")
WORDS = (
    "yes",
    "no",
    "für",
    "tür",
    "hey jarvis",
    "ja-nein",
    "_unknown_",
    "_silence_",
    "",
    "x" * 70,
    "\u202eon",
    "日本",
    "\u3164",
)
NUMBERS = (
    "0",
    "1",
    "-1",
    "0.5",
    "1e308",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "9" * 40,
    "2" * 5000,
    "1,5",
    "½",
    "0x10",
    "1_0",
    "",
)
SUFFIXES = (".wav", ".WAV", ".flac", ".ogg", ".mp3", ".txt", "")


@dataclass(frozen=True)
class UserFile:
    """What somebody brings."""

    kind: str
    """One of `KINDS`."""
    path: Path
    """The file."""
    what: str
    """How it was made, for who looks for the cause."""


def make_user_file(seed: bytes | int, folder: Path, *, pipes: bool = True) -> UserFile:
    """Make a file of a kind in an empty folder; the same seed makes the same.

    Parameters
    ----------
    seed
        Any; a number's remainder by four is its kind.
    folder
        Its content goes.
    pipes
        Whether there may be a pipe in the place of a sound file.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    kind = KINDS[seed % 4] if isinstance(seed, int) else draw.choice(KINDS)
    path, how = MAKERS[kind](draw, folder)
    spoilt = _spoil(draw, path, pipes=pipes or kind != "sound")
    return UserFile(kind, path, f"{how}, {spoilt}")


# -- sound


@cache
def _sound_forms() -> list[tuple[str, str]]:
    """What libsndfile writes: asking it for one takes longer than reading a file."""
    return [(name, subtype) for name in soundfile.available_formats() for subtype in soundfile.available_subtypes(name)]


def _sound(draw: random.Random, folder: Path) -> tuple[Path, str]:
    name, subtype = draw.choice(_sound_forms())
    rate = draw.choice((8_000, 16_000, 16_000, 22_050, 44_100, 48_000))
    channels = draw.choice((1, 1, 1, 2, 3, 8))
    seconds = draw.choice((0, 0.0001, 0.5, 1.0, 1.0, 2.5))
    samples = _samples(draw, min(round(seconds * rate), 150_000), channels)
    if subtype not in ("FLOAT", "DOUBLE"):  # libsndfile looks for what is not finite outside of its tables
        samples = np.clip(np.nan_to_num(samples), -1, 1)
    path = folder / draw.choice(("yes", "für", "no")) / f"ann_nohash_0{draw.choice(SUFFIXES[:5])}"
    path.parent.mkdir()
    how = f"{name} {subtype} of {rate} Hz, {channels} channels, {len(samples)} samples"
    try:
        soundfile.write(path, samples, rate, format=name, subtype=subtype)
    except (soundfile.SoundFileError, ValueError, TypeError, OSError) as error:  # a pair that nothing can write
        path.write_bytes(_wav(samples, rate))
        how += f", as WAV ({type(error).__name__})"
    if draw.random() < 0.4 and path.stat().st_size > 60:
        data = bytearray(path.read_bytes())
        where = draw.choice((4, 16, 20, 22, 24, 28, 32, 34, 40, draw.randrange(60)))
        data[where : where + 4] = struct.pack("<I", draw.choice((0, 1, 3, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)))
        path.write_bytes(data)
        how += f", four bytes at {where} changed"
    return path, how


def _samples(draw: random.Random, length: int, channels: int) -> np.ndarray:
    rng = np.random.default_rng(draw.randrange(2**32))
    made = rng.normal(0, 0.2, (length, channels))
    kind = draw.randrange(6)
    if kind == 1:
        made *= 32_768
    if kind == 2:
        made[:] = 0
    if kind == 3 and length:
        made[draw.randrange(length)] = draw.choice((np.nan, np.inf, 1e30))
    if kind == 4 and channels == 2:
        made[:, 1] = -made[:, 0]
    return made.astype(np.float32)


def _wav(samples: np.ndarray, rate: int) -> bytes:
    data = np.clip(samples * 32_767, -32_768, 32_767).astype("<i2").tobytes()
    channels = samples.shape[1]
    head = struct.pack("<HHIIHH", 1, channels, rate, rate * 2 * channels % 2**32, 2 * channels, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(data))
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + head
        + (b"data" + struct.pack("<I", len(data)) + data)
    )


# -- text

VALID = sorted(path for path in CORPUS.glob("*.toml/*") if not path.name.startswith(FOUND))
"""Settings that are valid."""


def _manifest(draw: random.Random, folder: Path) -> tuple[Path, str]:
    good = folder / "clips" / "für"
    good.mkdir(parents=True)
    (good / "a.wav").write_bytes(_wav(np.full((8_000, 1), 0.1), 16_000))
    delimiter = draw.choice((",", "\t", ";", "|", ",", ":", " "))
    head = draw.choice(
        (["path", "word", "speaker"], ["client_id", "path", "sentence"], ["LINK", "WORD", "VALID", "SPEAKER"])
    )
    head = head if draw.random() < 0.8 else draw.sample([*head, "notes", ""], draw.randint(0, 4))
    paths = (
        "für/a.wav",
        "für\\a.wav",
        "../x",
        "/etc/passwd",
        "x" * 300,
        "",
        ".",
        "a\0b",
        normalize("NFD", "für/a.wav"),
    )
    rows = [[draw.choice((*paths, *WORDS, "TRUE", "ann")) for _ in head] for _ in range(draw.randint(0, 6))]
    if head == ["path", "word", "speaker"]:
        rows.append(["für/a.wav", "für", "ann"])
    text = io.StringIO()
    lines = csv.writer(text, delimiter=delimiter, quoting=draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)))
    lines.writerows([head, *rows])
    told = f"sep={delimiter}\n" if draw.random() < 0.1 else ""
    return _written(draw, folder / draw.choice(("list.csv", "list.tsv")), told + text.getvalue())


def _settings(draw: random.Random, folder: Path) -> tuple[Path, str]:
    lines = []
    if draw.random() < 0.5:
        lines = draw.choice(VALID).read_text("utf-8").splitlines()
    names = (
        "device",
        "state",
        "threads",
        "method",
        "rounds",
        "data",
        "words",
        "pack",
        "kind",
        "name",
        "epochs",
        "groups",
    )
    for _ in range(draw.choice((0, 0, 1, 2, 8))):
        if draw.random() < 0.3:
            table = draw.choice(
                ("detect", "detect.thresholds", "rounds", "report", "wifi", "clips", "windows", "a.b.c")
            )
            lines.append(f"[{table}]" if draw.random() < 0.8 else f"[[{table}]]")
        name = draw.choice((*names, "für", '""'))
        lines.append(f"{name} = {_value(draw, 3)}")
    return _written(draw, folder / "settings.toml", "\n".join(lines) + "\n")


def _value(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(6 if depth else 4)
    if kind == 0:
        return draw.choice(NUMBERS[:10])
    if kind == 1:
        return draw.choice(("true", "false", "1979-05-27", "07:32:00"))
    if kind == 2 and draw.random() < 0.1:
        return "[" * 3_000 + "]" * 3_000
    if kind in (2, 3):
        return '"' + draw.choice((*WORDS, "fedavg", "../..", "mqtts://hub", "digits")) + '"'
    inner = [_value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    return f"[{', '.join(inner)}]" if kind == 4 else "{ " + ", ".join(f"a{i} = {v}" for i, v in enumerate(inner)) + " }"


def _labels(draw: random.Random, folder: Path) -> tuple[Path, str]:
    lines = []
    wild = draw.choice((0, 0, 0.1))
    for _ in range(draw.choice((0, 1, 3, 20, 2_000))):
        start = draw.uniform(0, 1.5 if draw.random() > wild else 1e4)
        times = [f"{start:.3f}", f"{start + draw.uniform(0, 1):.3f}"]
        if draw.random() < max(wild, 0.02):
            times[draw.randrange(2)] = draw.choice(NUMBERS)
        separator = "\t" if draw.random() > wild else draw.choice((" ", ",", "\t\t", ""))
        lines.append(separator.join([*times, draw.choice(WORDS[:6] if draw.random() > wild else WORDS)]))
    return _written(draw, folder / "labels.txt", "\n".join(lines))


def _written(draw: random.Random, path: Path, text: str) -> tuple[Path, str]:
    encoding, form, end = (
        draw.choice(ENCODINGS),
        draw.choice(("NFC", "NFC", "NFD")),
        draw.choice(("\n", "\n", "\r\n", "\r")),
    )
    path.write_bytes(normalize(form, text).replace("\n", end).encode(encoding, "replace"))
    return path, f"{encoding}, {form}, line ends {end!r}"


MAKERS: dict[str, Callable[[random.Random, Path], tuple[Path, str]]] = {
    "sound": _sound,
    "manifest": _manifest,
    "settings": _settings,
    "labels": _labels,
}


# -- what becomes of it


def _spoil(draw: random.Random, path: Path, *, pipes: bool) -> str:
    """Change bytes of a file, or put something else in its place; what was done."""
    kind = draw.random()
    if kind < 0.55:
        return "whole"
    if kind < 0.9:
        data = bytearray(path.read_bytes())
        for _ in range(draw.randint(1, 4)):
            at = draw.randint(0, len(data))
            data[at : at + draw.choice((0, 1, 4, 100, len(data)))] = draw.choice(
                (b"", b"\0", b"\xff", b"\xef\xbb\xbf", draw.randbytes(8), b"\n" * 50, b'"', b"[" * 2_000)
            )
        path.write_bytes(data)
        return "bytes changed"
    path.unlink()
    other = draw.choice(("folder", "pipe" if pipes else "folder", "link to itself", "nothing", "empty"))
    if other == "folder":
        path.mkdir()
    elif other == "pipe":
        os.mkfifo(path)
    elif other == "link to itself":
        path.symlink_to(path)
    elif other == "empty":
        path.touch()
    return f"a {other} in its place"
