"""Recordings, and packs, as people have them: wrong rate, cut off, another's."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import soundfile

from auricle.packs.archive import tar_bytes
from auricle.packs.manifest import MANIFEST_FILE
from auricle.packs.pack import load_pack, pack_bytes
from tests.mistakes.before import Before

RATE = 16_000


def _noise(seconds: float, rate: int = RATE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.05, int(seconds * rate)).astype(np.float32)


def _clip(path: Path, sound: np.ndarray, rate: int = RATE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate)


def recordings(before: Before) -> None:
    """Files of every kind: 8 kHz, stereo, without a sample, a text that is called .wav, and a good one."""
    _clip(before.folder / "good.wav", _noise(3))
    _clip(before.folder / "eight.wav", _noise(12, 8000), 8000)
    _clip(before.folder / "stereo.wav", np.stack([_noise(12), _noise(12, seed=1)], 1))
    _clip(before.folder / "nothing.wav", _noise(0))
    (before.folder / "text.wav").write_text("This is what I said on Tuesday.\n")
    (before.folder / "zero.wav").write_bytes(b"")


def empty(before: Before) -> None:
    (before.folder / "empty").mkdir()


def music(before: Before) -> None:
    for name in ("one", "two"):
        path = before.folder / "music" / f"{name}.mp3"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"ID3\x04\x00\x00" + hashlib.sha256(name.encode()).digest() * 40)


def _words(folder: Path, speakers: int, rate: int = RATE, words: str = "yes no", takes: int = 4) -> None:
    for word in words.split():
        for speaker in range(speakers):
            for take in range(takes):
                _clip(folder / word / f"ab{speaker:06d}_nohash_{take}.wav", _noise(1, rate, speaker), rate)


def voices(before: Before) -> None:
    """Two words of four speakers, four takes each."""
    _words(before.folder / "voices", 4)


def one_voice(before: Before) -> None:
    _words(before.folder / "mine", 1, takes=12)


def telephone(before: Before) -> None:
    """Words of four speakers at 8 kHz."""
    _words(before.folder / "telephone", 4, 8000)


def texts(before: Before) -> None:
    """A folder of words in which every file is a text."""
    for word in ("yes", "no"):
        for speaker in range(3):
            path = before.folder / "texts" / word / f"ab{speaker:06d}_nohash_0.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("yes")


def flat(before: Before) -> None:
    """Recordings side by side, without a folder for each word."""
    for number in range(3):
        _clip(before.folder / "flat" / f"yes-{number}.wav", _noise(1, seed=number))


def other_words(before: Before) -> None:
    _words(before.folder / "others", 4, words="apfel birne")


def _shipped(name: str) -> bytes:
    return (resources.files("auricle.packs") / f"{name}.tar.zst").read_bytes()


def packs(before: Before) -> None:
    """A pack that is cut in the middle, one that is not a pack, one of a later format, one with a byte changed."""
    whole = _shipped("gsc12")
    (before.folder / "whole.tar.zst").write_bytes(whole)
    (before.folder / "cut.tar.zst").write_bytes(whole[: len(whole) // 2])
    (before.folder / "letter.tar.zst").write_text("Dear all, please find attached the pack.\n")
    files = dict(load_pack("gsc12").files)
    manifest = load_pack("gsc12").manifest_bytes
    later = msgspec.json.encode({**msgspec.json.decode(manifest), "format": 99})
    (before.folder / "later.tar.zst").write_bytes(tar_bytes([(MANIFEST_FILE, later), *files.items()]))
    changed = before.folder / "changed"
    for name, data in {MANIFEST_FILE: manifest, **files}.items():
        (changed / name).parent.mkdir(parents=True, exist_ok=True)
        (changed / name).write_bytes(data)
    graph = next(changed.rglob("*.onnx"))
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")


def own_pack(before: Before) -> None:
    """A pack of somebody's own, whose one model is called lite."""
    from tests.core.tiny_pack import pack

    (before.folder / "own.tar.zst").write_bytes(before.need.once("own_pack", lambda _: pack_bytes(pack())))


def my_key(before: Before) -> None:
    (before.folder / "me.key").write_bytes(hashlib.sha256(b"mine").digest())


def model(before: Before) -> None:
    """Files of Python in which somebody looks for a module."""
    (before.folder / "net.py").write_text("import torch\n\nclass Net(torch.nn.Module):\n    pass\n")
    (before.folder / "typo.py").write_text("import torch\n\nclass Net(torch.nn.Module:\n    pass\n")
    (before.folder / "number.py").write_text("Net = 3\n")
    (before.folder / "absent.py").write_text("import a_library_that_nobody_has\n\nclass Net:\n    pass\n")


def network_pack(before: Before) -> None:
    """A pack whose front-end has a network."""
    from tests.export.frozen_toy import toy_network_pack

    whole = before.need.once("network_pack", lambda _: pack_bytes(toy_network_pack()))
    (before.folder / "over.tar.zst").write_bytes(whole)


def folder_in_the_way(before: Before) -> None:
    """A folder that is called as the file that will be written."""
    (before.folder / "out.tar.zst").mkdir()
