"""What a pack's manifest says."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal
from unicodedata import category, is_normalized

import msgspec
from msgspec import UNSET, UnsetType

from auricle.errors import PackError
from auricle.packs.frontend import Bands, Frontend, Network, Sentence
from auricle.packs.graph_interface import FilePath, Graph
from auricle.wire.kinds import UNDECODABLE, Sha256, Short, Token, plain
from auricle.wire.tensor_specs import Dim, Name, TensorSpec

MANIFEST_FILE = "manifest.json"
LARGEST_MANIFEST = 4 << 20
"""Most bytes of a `manifest.json`."""

FORMAT = 2
"""Of packs that say nothing about how a device listens with them."""
LISTENING_FORMAT = 3
"""Of packs that do: `Manifest.listening`, `Manifest.negatives`, or a `Start` with `hearing`, `attribution` or
`speech`."""
NETWORK_FORMAT = 4
"""Of packs whose front-end has a network, `Frontend.network` or `Frontend.filters`, or which have a `Vote`."""
READABLE = (FORMAT, LISTENING_FORMAT, NETWORK_FORMAT)
LARGEST_PACK = 32 << 20
"""Most bytes a pack may unpack to."""

SAMPLE_RATE = 16_000
"""Hz of all sound that a pack is made for."""
USUAL_HOP = 0.1
"""Seconds between judged windows."""
WINDOWS = (0.5, 4.0)
"""Seconds: the shortest and the longest window that a pack's models look at."""

UNKNOWN = "_unknown_"
"""The label of every word that is not a command."""

SILENCE = "_silence_"
"""The label of a window in which nobody speaks."""

SPECIAL_LABELS = frozenset({UNKNOWN, SILENCE})
"""Labels that are not words: their clips are made from other words and from noise."""

LONGEST_LABEL = 64
"""Characters."""
JOINERS = "\u200c\u200d"
"""What words of Persian and of Indian scripts have between letters, and nobody sees."""
_INNER = f" -_'’{JOINERS}"
LONGEST_LABEL_BYTES = 192
"""Of a label in UTF-8: it names a folder, and the file that is written there has room for more."""
_INVISIBLE = frozenset(
    map(chr, (0x34F, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810), 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Letters and marks that Unicode has shown as nothing (DerivedCoreProperties, Default_Ignorable_Code_Point)."""


def is_label(text: str) -> bool:
    """Whether a text has the form of a label: it names folders, and stands on terminals and pages.

    That is a special label, or at most `LONGEST_LABEL` letters, marks and digits of any script in Unicode's form NFC, a
    letter or digit first, with single spaces, hyphens, apostrophes, underscores and `JOINERS` only inside. None of them
    is one that nobody sees, and all together are at most `LONGEST_LABEL_BYTES` bytes.
    """
    if text in SPECIAL_LABELS:
        return True
    kinds = [category(character)[0] for character in text]
    return (
        0 < len(text) <= LONGEST_LABEL
        and kinds[0] in "LN"
        and kinds[-1] in "LMN"
        and all(kind in "LMN" or character in _INNER for kind, character in zip(kinds, text, strict=True))
        and "  " not in text
        and _INVISIBLE.isdisjoint(text)
        and len(text.encode()) <= LONGEST_LABEL_BYTES
        and is_normalized("NFC", text)
    )


def refuse_label(label: str, where: str) -> None:
    """PackError for a label that has not the form of one; `where` it stands, as the user knows it."""
    if not is_label(label):
        shown = plain(label if len(label) <= LONGEST_LABEL else f"{label[:LONGEST_LABEL]}...")
        raise PackError(
            f'"{shown}" in {where} is not a valid label: write at most {LONGEST_LABEL} letters and digits, in Unicode '
            "NFC, with single spaces, hyphens, apostrophes or underscores between them."
        )


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is recognised, and from what input."""

    labels: Annotated[tuple[Name, ...], msgspec.Meta(min_length=2, max_length=10_000)]
    sample_rate: Dim = SAMPLE_RATE
    clip_samples: Dim = 16_000
    """Of a window, as long as the models look at: `WINDOWS` seconds."""
    frames: Bands = 100
    """Of a window's log-mels."""
    frontend: Frontend = Frontend()

    @property
    def seconds(self) -> float:
        """Of a window."""
        return self.clip_samples / self.sample_rate

    @property
    def input_shape(self) -> tuple[int, int]:
        """Of a window as models take it: its log-mels (frames, mels), or the vectors of the front-end's network."""
        network = self.frontend.network
        if network is UNSET:
            return self.frames, self.frontend.mels
        return max(0, self.frames - network.field) // network.stride + 1, network.size

    @property
    def unit(self) -> int:
        """Frames from one window that models can look at to the next: a network's stride."""
        network = self.frontend.network
        return 1 if network is UNSET else network.stride

    @property
    def usual_hop(self) -> float:
        """Seconds between judged windows where nobody says otherwise: 0.1, or as many units as are not longer."""
        unit = self.unit * self.frontend.hop / self.sample_rate
        return round(max(1, int(USUAL_HOP / unit + 1e-9)) * unit, 6)


Content = bytes
"""What is in a file; inside `FileEntry`, `bytes` is its length."""


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the pack."""

    path: FilePath
    bytes: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PACK)]
    sha256: Sha256

    @classmethod
    def of(cls, path: str, content: Content) -> FileEntry:
        """The entry of a file with this content."""
        return cls(path, len(content), hashlib.sha256(content).hexdigest())


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
LevelDrop = Annotated[float, msgspec.Meta(ge=0, le=120)]
"""Decibels."""


class Listening(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a device listens with this pack: what its author chose on streams of validation speakers.

    Every number is a default that a device's own settings override.
    """

    hop: Annotated[float, msgspec.Meta(ge=0.01, le=0.5)] = USUAL_HOP
    """Seconds between judged windows; these three are what the thresholds were chosen with."""
    smoothing: Annotated[int, msgspec.Meta(ge=1, le=50)] = 3
    patience: Annotated[int, msgspec.Meta(ge=1, le=50)] = 2
    thresholds: dict[Name, Share] = {}
    """Smoothed posterior from which a keyword counts while the device waits."""
    wake: tuple[Name, ...] = ()
    """Wake words: only these count while the device waits; each opens a window in which the commands count.
    Empty: every keyword always counts."""
    window: Annotated[float, msgspec.Meta(ge=0.5, le=30)] = 3.0
    """Seconds after a wake word in which commands count."""
    commands: dict[Name, Share] = {}
    """Thresholds of the commands inside that window."""
    command_drop: LevelDrop | UnsetType = UNSET
    """Decibels by which a command may be fainter than its wake word at these thresholds; without, by any."""
    second_stage: Token | UnsetType = UNSET
    """Architecture of the device's own model, where these thresholds are for it as a second stage: it judges what the
    plug-in proposes. The pack has trained weights of it."""


class HeardAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A point of the curve of hits over false accepts."""

    false_accepts_per_hour: Annotated[float, msgspec.Meta(ge=0)]
    hits: dict[Short, Share]
    """Share of spoken keywords that were detected, by kind of scene."""


class Hearing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a model hears of people it was not trained on, live, measured by `auricle edge evaluate`."""

    data: Sentence
    """Who and what judged."""
    words: Count
    """Spoken keywords in all scenes."""
    hours: Positive
    """Of sound without keywords."""
    curve: tuple[HeardAt, ...]


class Vote(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A second model that hears the same sound through another front-end, and has a part in every posterior.

    What counts is the softmax of share * log(vote) + (1 - share) * log(what the pack's own models say):
    `auricle.hearing.vote`. It is neither trained in rounds nor sent; `Pack.voter` is it as a pack of its own.
    """

    model: Token
    """One of `Manifest.architectures`, with trained weights in `start`; of graphs it has only `evaluate`."""
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    """Of the mean of log posteriors."""
    clip_samples: Dim
    """Of its window."""
    frames: Bands
    """Of its window's log-mels."""
    frontend: Frontend
    """Its own; the network of it, if it has one, is run by the pack's graphs of the kinds `FRONTENDS`."""


class Negatives(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sound without keywords that a pack carries, as features: what rounds train on and are judged by, half and half.

    The file holds int8 numbers q, frame by frame, (sum of `frames`, mels); a mel energy is
    exp(offset + step * q) - floor, not below 0. It cannot be turned back into speech that anybody understands.
    """

    file: FilePath
    step: Positive
    offset: float
    frames: Annotated[tuple[Annotated[int, msgspec.Meta(ge=1)], ...], msgspec.Meta(min_length=1, max_length=1_000)]
    """Length of each stretch; stretches are not connected."""
    kinds: tuple[Short, ...]
    """What each stretch is: `speech`, `words`, `noise`, ..."""


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Trained weights to start from, and where they come from."""

    file: FilePath
    """safetensors, float16 or float32, the model's tensors by name."""
    data: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """What it was trained on."""
    clips: Annotated[int, msgspec.Meta(ge=1)]
    speakers: Annotated[int, msgspec.Meta(ge=1)]
    accuracy: Annotated[float, msgspec.Meta(ge=0, le=1)]
    """On speakers that were not trained on."""
    judged_clips: Annotated[int, msgspec.Meta(ge=1)]
    seed: int = 0
    hearing: Hearing | UnsetType = UNSET
    """What it hears live, of people it was not trained on."""
    attribution: Annotated[tuple[Sentence, ...], msgspec.Meta(max_length=50)] | UnsetType = UNSET
    """Whom the licences of the recordings ask to name."""
    speech: Sha256 | UnsetType = UNSET
    """SHA-256 of everything that it was trained on, as `auricle export pretrain --recipe` computes it."""


class OrtTraining(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """onnxruntime-training artifacts of a model."""

    training: FilePath
    evaluation: FilePath
    optimizers: dict[Literal["sgd", "adamw"], FilePath] = msgspec.field(name="optimisers")
    checkpoint: FilePath
    batch: Dim


class Buffer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the weights of one tensor lie in a `.tflite`."""

    tensor: Name
    offset: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PACK)]
    """Byte at which its numbers begin."""
    axes: tuple[Annotated[int, msgspec.Meta(ge=0, le=7)], ...] = ()
    """Order in which the file holds the axes of the pack's tensor; empty: the pack's own."""
    scale: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PACK)] | None = None
    """Byte of its float32 scales, one for each first-dimension slice; None: the numbers are float32."""


class Tflite(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An inference model for LiteRT whose weights can be replaced in place."""

    model: Token
    precision: Literal["float32", "int8"]
    file: FilePath
    batch: Dim = 1
    buffers: tuple[Buffer, ...]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a pack is. The label count of `head.*` tensors is that of `task.labels`."""

    format: Annotated[int, msgspec.Meta(ge=1)]
    name: Token
    task: Task
    plugin: Token
    architectures: dict[Token, tuple[TensorSpec, ...]]
    graphs: tuple[Graph, ...]
    files: tuple[FileEntry, ...]
    producers: dict[Short, Short]
    start: dict[Token, Start] = {}
    """Trained weights by model; without, a run starts from seeded noise."""
    ort_training: dict[Token, OrtTraining] = {}
    tflite: tuple[Tflite, ...] = ()
    listening: Listening | UnsetType = UNSET
    """How a device listens with it; without, as the device's settings say."""
    negatives: Negatives | UnsetType = UNSET
    """Sound without keywords to judge rounds by."""
    vote: Vote | UnsetType = UNSET
    """A second model whose posteriors count beside those of the pack's own."""

    @property
    def network(self) -> Network | UnsetType:
        """The frozen network that the pack's graphs run: its front-end's, or that of its vote."""
        own = self.task.frontend.network
        return self.vote.frontend.network if own is UNSET and self.vote is not UNSET else own

    @property
    def needed_format(self) -> int:
        """The oldest format that has everything that is said here."""
        extended: list[object] = [self.listening, self.negatives]
        for start in self.start.values():
            extended += [start.hearing, start.attribution, start.speech]
        parts = (self.task.frontend.network, self.task.frontend.filters, self.vote)
        if any(part is not UNSET for part in parts):
            return NETWORK_FORMAT
        return FORMAT if all(value is UNSET for value in extended) else LISTENING_FORMAT


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's bytes: sorted keys, two spaces, a final newline; their SHA-256 names the pack."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=2) + b"\n"


class _Format(msgspec.Struct):
    format: int


def refuse_format(version: int, where: str) -> None:
    """PackError for a format that this version does not read."""
    if version not in READABLE:
        readable = f"{READABLE[0]} to {READABLE[-1]}"
        raise PackError(f"{where} has format {version}; this version of Auricle reads {readable}.")


def decode_manifest(data: bytes | None, where: str) -> Manifest:
    """A manifest of its bytes; PackError where there are none, too many, or they are not a manifest."""
    if data is None:
        raise PackError(f"{where} is not a pack: it has no {MANIFEST_FILE}.")
    if len(data) > LARGEST_MANIFEST:
        raise PackError(f"The manifest of {where} holds more than {LARGEST_MANIFEST >> 20} MiB.")
    try:
        version = msgspec.json.decode(data, type=_Format).format
        refuse_format(version, where)
        return msgspec.json.decode(data, type=Manifest)
    except UNDECODABLE as error:
        raise PackError(f"The manifest of {where} is not valid: {error}.") from error
