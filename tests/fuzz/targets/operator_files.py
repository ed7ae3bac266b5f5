"""Files that operators and makers of cards bring: fleets, boards, recipes, images, collections of speech."""

from __future__ import annotations

import io
import lzma
from pathlib import Path

import msgspec
import numpy as np

from auricle.errors import AuricleError, DataError, SettingsError, StorageError
from auricle.hearing.splits import TWINS, twin_groups
from auricle.speech.list_columns import Columns
from auricle.speech.speech_manifest import read_manifest
from auricle.wire.tensors import TensorTable, encode
from auricle_export.flash.boards import load_board
from auricle_export.flash.fleet_file import read_fleet
from auricle_export.flash.image.partitions import partitions
from auricle_export.flash.push.facts import active, read_facts
from auricle_export.flash.push.installation import read_health
from auricle_export.flash.write.image import measure_unpacked
from auricle_export.pretrain.recipe import load_recipe
from auricle_fleet.population.last_round import FILE as LAST_ROUND
from auricle_fleet.population.last_round import LastRound, read_last_round, write_last_round
from auricle_fleet.population.run_model import read_plugin, write_plugin
from auricle_fleet.results.compare import _summary
from auricle_fleet.results.metrics import Metrics
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.virtual.checkpoint import NOTE, Checkpoint, Kept, Note
from tests.core import tiny_pack
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target
from tests.fuzz.targets.packs import tiny
from tests.fuzz.targets.wire import HASH

CHECKOUT = Path(__file__).parents[3]
FLEET = b"""\
name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443"
ca_pin = "%s"
coordinator = "%s"
[device]
settings = { threads = 1, detect = { threshold = 0.9, thresholds = { yes = 0.8 } } }
""" % (b"ab" * 32, b"0f" * 32)


@target(
    "fleet.toml",
    "auricle_export.flash.fleet_file auricle_export.flash.document auricle_export.flash.toml_lines",
    examples=lambda: {"home": FLEET},
    form="toml",
    refusals=(AuricleError,),
    tokens=(b"[wifi]\n", b"[login]\n", b"settings = ", b"passphrase = ", b"true", b"[[device]]\n"),
)
def fleet_toml(data: bytes) -> object:
    """A fleet's file: the mistakes of it, by line."""
    fleet, problems = read_fleet(written(data, "fleet.toml"))
    assert (fleet is None) == bool(problems)
    return fleet is None, len(problems)


@target(
    "board.toml",
    "auricle_export.flash.boards auricle_export.flash.board auricle_export.flash.document",
    examples=lambda: {"pi5": (CHECKOUT / "firmware-configs/pi5.toml").read_bytes()},
    form="toml",
)
def board_toml(data: bytes) -> object:
    """A board's profile."""
    return load_board(written(data, "pi5.toml")).title


@target(
    "recipe.toml",
    "auricle_export.pretrain.recipe",
    examples=lambda: {"home": (CHECKOUT / "export/auricle_export/pretrain/recipes/home.toml").read_bytes()},
    form="toml",
    refusals=(SettingsError,),
)
def recipe_toml(data: bytes) -> object:
    """How a pack's weights are trained."""
    return type(load_recipe(str(written(data, "recipe.toml")))).__name__


@target(
    "speech-manifest",
    "auricle.speech.speech_manifest auricle.speech.list_columns",
    examples=lambda: {
        "tabs": b"client_id\tpath\tsentence\na1\ta.wav\tYes.\nb2\tb.wav\tno\n",
        "commas": b"LINK,WORD,VALID,SPEAKER\na.wav,yes,TRUE,a1\n",
    },
    form="text",
    tokens=(b"\t", b",", b'"', b"\n", b"\r", b"../", b"\0"),
)
def speech_manifest(data: bytes) -> object:
    """The table of a collection of speech."""
    path = written(data, "speech/manifest.tsv")
    rows = read_manifest(path, path.parent, Columns(), sentences=False)
    return [type(row).__name__ for row in rows][:3]


@target(
    "twins.csv",
    "auricle.hearing.splits",
    examples=lambda: {"twins": b"path,recording\nset/yes/a.wav,1\nset/no/b.wav,2\n"},
    form="text",
    refusals=(DataError,),
    tokens=(b",", b'"', b"\n", b"set/"),
)
def twins(data: bytes) -> object:
    """Which recordings are of one take."""
    return len(twin_groups(written(data, f"set/{TWINS}").parent))


def _card() -> bytes:
    record = bytearray(512)
    record[446:462] = bytes((0, 0, 0, 0, 0x0C, 0, 0, 0)) + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    record[510:] = b"\x55\xaa"
    return bytes(record) + bytes(1024)


@target("partitions", "auricle_export.flash.image.partitions", examples=lambda: {"card": _card()})
def partition_table(data: bytes) -> object:
    """The beginning of a card's image."""
    found = partitions(io.BytesIO(data), "The image")
    assert all(partition.start > 0 and partition.start + partition.size <= len(data) for partition in found)
    return len(found)


@target(
    "xz-index",
    "auricle_export.flash.write.image",
    examples=lambda: {"zeros": lzma.compress(bytes(5000)), "two": lzma.compress(b"a") + lzma.compress(b"b")},
    refusals=(lzma.LZMAError,),
)
def xz_index(data: bytes) -> object:
    """How large a compressed image is."""
    return measure_unpacked(io.BytesIO(data))


SAID = b"""\
auricle:kernel=Linux
auricle:machine=aarch64
auricle:free=100
auricle:status={"journal": {"active": "a", "confirmed": true}, "slots": {"a": {"identity": "ab"}}}
auricle:service=active
auricle:doctor={"findings": [{"check": "clock", "verdict": "good", "sentence": "It is right."}]}
"""


@target(
    "board-answers",
    "auricle_export.flash.push.facts auricle_export.flash.push.installation",
    examples=lambda: {"said": SAID},
    form="text",
    refusals=(),
    tokens=(b"auricle:", b"=", b"\n", b'{"journal":'),
)
def board_answers(data: bytes) -> object:
    """What a board prints to who pushes a bundle to it."""
    text = data.decode("utf-8", "replace")
    facts = read_facts(text)
    return facts.installed is None, active(text) is None, len(read_health(text)[1])


@target(
    "run-settings",
    "auricle_fleet.settings.fleet_settings",
    examples=lambda: {"settings": msgspec.json.encode(FleetSettings())},
    form="json",
    refusals=(StorageError, SettingsError),
)
def run_settings(data: bytes) -> object:
    """Settings of an earlier run."""
    return FleetSettings.read(written(data, "settings.json")).devices


@target(
    "run-summary",
    "auricle_fleet.results.compare auricle_fleet.results.metrics",
    examples=lambda: {"rounds": b'{"round": 1, "loss": 0.5}\n{"round": 2}\n'},
    form="json",
    refusals=(),
)
def run_summary(data: bytes) -> object:
    """What an earlier run wrote, a line a round, and its summary."""
    written(data, "run/metrics.jsonl")
    written(data, "run/summary.json")
    try:
        _summary(scratch() / "run")
    except StorageError:
        """Few are one."""
    return len(Metrics(scratch() / "run").rounds)


def _last_round() -> bytes:
    write_last_round(scratch(), LastRound(3, ("dev-a", "dev-b"), np.ones((2, 15), np.float32), {"dev-a": 1}))
    return (scratch() / LAST_ROUND).read_bytes()


@target(
    "last-round",
    "auricle_fleet.population.last_round",
    examples=lambda: {"round": _last_round()},
    refusals=(StorageError,),
    tokens=(b'"F16"', b'"BF16"', b"data_offsets", b'"round":', b"head", b"weights"),
)
def last_round(data: bytes) -> object:
    """The updates of a run's newest round: as many rows as devices."""
    written(data, LAST_ROUND)
    found = read_last_round(scratch())
    assert found is not None and found.weights.shape[0] == len(found.devices)
    return len(found.devices)


def _run_model() -> bytes:
    pack = tiny()
    write_plugin(scratch() / "model.safetensors", pack, pack.plugin_table.initial(1), {"round": "3"})
    return (scratch() / "model.safetensors").read_bytes()


@target(
    "run-model",
    "auricle_fleet.population.run_model",
    examples=lambda: {"model": _run_model()},
    tokens=(b'"F16"', b'"F32"', b'"BF16"', b'"F8_E4M3"', b"__metadata__", b"data_offsets"),
)
def run_model(data: bytes) -> object:
    """The model of an earlier run, from which another begins."""
    found = read_plugin(written(data, "model.safetensors"), tiny())
    assert np.isfinite(found).all()
    return found.shape


def _note() -> bytes:
    weights = encode(np.ones(15, np.float32))
    return msgspec.msgpack.encode(Note(1, HASH, ((weights, b""),), {"dev-a": Kept(0, 5, HASH, 2)}, ({},), {}, 0.0, b""))


@target(
    "run-checkpoint",
    "auricle_fleet.virtual.checkpoint",
    examples=lambda: {"note": _note()},
    form="msgpack",
)
def run_checkpoint(data: bytes) -> object:
    """Where a virtual run is, from which it goes on."""
    written(data, NOTE)
    kept = Checkpoint(scratch(), HASH, TensorTable(tiny_pack.TABLE))
    note = kept.read()
    assert note is not None
    return kept.models(note)[0].weights.shape
