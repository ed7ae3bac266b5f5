"""Files in a device's folders: a card may be pulled out at any moment, and another program may write there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from auricle.errors import AuricleError, DataError, PackError, SettingsError, StorageError
from auricle.mqtt_link.private_link import FOLDER
from auricle.wire.broker_passwords import read_login, write_login
from auricle.wire.claims import read_token_file, token_text
from auricle.wire.identity import Identity
from auricle.wire.messages import Update
from auricle.wire.tensors import TensorTable, digest
from auricle_edge.board.trusted_time import REMEMBERED, _last_date, judge_time
from auricle_edge.clips.coding import AUDIO, FEATURES, decode, encode_audio, encode_features
from auricle_edge.clips.key import Seal, read_key
from auricle_edge.clips.record import Record
from auricle_edge.clips.vector_files import checksum, encode
from auricle_edge.clips.vector_files import decode as vectors_of
from auricle_edge.fleet.agent_context import FLEET_FILE, FleetRecord, read_fleet_record
from auricle_edge.fleet.unsent_moves import UnsentMoves
from auricle_edge.fleet.update_delivery import Outbox, Pending
from auricle_edge.listening.tuning import FILE as TUNING
from auricle_edge.listening.tuning import Tuning
from auricle_edge.ota.installation import BundleFacts, Journal, SlotOutcome, SlotTrial, bundle_facts
from auricle_edge.ota.pack_shelf import SWITCH, PackShelf, Switch
from auricle_edge.ota.records import Answer, PackTrial, Progress, Wanted, own_record, read_record
from auricle_edge.training.judge.best import Best, BestStore
from auricle_edge.training.judge.comparison import Heard
from auricle_edge.training.local_store import LocalStore
from auricle_learning.native.plan import (
    Plan,
    UnsoundPlanError,
    opened,
    plan_bytes,
    plan_of,
    refuse_outside,
    sealed,
)
from auricle_learning.native.program import Program
from auricle_learning.training.train import LocalState
from auricle_learning.training.vector_shelf import NAME_BYTES, Variant
from tests.core import tiny_pack
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target
from tests.fuzz.targets.wire import HASH, KEY, messages

TABLE = TensorTable(tiny_pack.TABLE)


def _read(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _pending() -> bytes:
    body = b"x" * 60
    update = next(message for message in messages() if isinstance(message, Update))
    Outbox(scratch()).put(Pending(msgspec.structs.replace(update, body=digest(body), length=60), body))
    return _read(scratch() / "pending.update")


@target(
    "outbox", "auricle_edge.fleet.update_delivery", examples=lambda: {"pending": _pending()}, refusals=(StorageError,)
)
def outbox(data: bytes) -> object:
    """The update that is on its way."""
    written(data, "pending.update")
    pending = Outbox(scratch()).read()
    assert pending is None or digest(pending.body) == pending.update.body
    return None if pending is None else len(pending.parts())


@cache
def _unsent() -> bytes:
    update = next(message for message in messages() if isinstance(message, Update))
    moves = UnsentMoves(scratch(), HASH, TABLE.size)
    for seed in (1, 2):
        moves.keep(update, TABLE.initial(seed))
    return _read(scratch() / "unsent.moves")


@target(
    "unsent-moves", "auricle_edge.fleet.unsent_moves", examples=lambda: {"two": _unsent()}, refusals=(StorageError,)
)
def unsent_moves(data: bytes) -> object:
    """What a codec left out of updates: damaged, it is nothing."""
    written(data, "unsent.moves")
    moves = UnsentMoves(scratch(), HASH, TABLE.size).of("keywords")
    assert moves is None or (moves.shape == (15,) and np.isfinite(moves).all())
    return moves is None


def _local() -> bytes:
    state = LocalState(TABLE.initial(1), {"lite.momentum": TABLE.initial(2)}, 7)
    LocalStore(scratch(), HASH, TABLE).save(state)
    return _read(scratch() / "local.safetensors")


@target("local-model", "auricle_edge.training.local_store", examples=lambda: {"state": _local()}, refusals=())
def local_model(data: bytes) -> object:
    """A device's own model: a damaged one is as good as none, and nothing is raised."""
    written(data, "local.safetensors")
    state = LocalStore(scratch(), HASH, TABLE).read()
    assert state is None or (state.weights.shape == (15,) and np.isfinite(state.weights).all())
    return state is None


def _best() -> bytes:
    heard = Heard(np.array([0, 2, 1], np.uint8), np.array([1, 0], np.uint8), 0.01)
    BestStore(scratch(), HASH, {"plugin": TABLE}).save({"plugin": Best(TABLE.initial(1), HASH, heard)})
    return _read(scratch() / "best.safetensors")


@target("best-model", "auricle_edge.training.judge.best", examples=lambda: {"best": _best()}, refusals=())
def best_model(data: bytes) -> object:
    """The best state that a device had, with what it heard."""
    written(data, "best.safetensors")
    best = BestStore(scratch(), HASH, {"plugin": TABLE}).read()
    return sorted(best)


RECORD = Record(id="0123456789ab", word="yes", source="enrolled", weight=1.0, created=1.7e9, held_out=False)


@target(
    "clip-sound",
    "auricle_edge.clips.coding",
    examples=lambda: {"flac": encode_audio((np.sin(np.arange(1600) / 9) * 9000).astype(np.int16), RECORD)},
    refusals=(DataError,),
    megabytes=128,
)
def clip_sound(data: bytes) -> object:
    """A kept clip, FLAC with its record as a comment."""
    content = decode(data, AUDIO)
    assert content.samples is not None and content.samples.ndim == 1
    return content.record.source


@target(
    "clip-features",
    "auricle_edge.clips.coding",
    examples=lambda: {"energies": encode_features(np.ones((4, 3), np.float32), RECORD)},
    refusals=(DataError,),
)
def clip_features(data: bytes) -> object:
    """A kept clip, as mel energies."""
    content = decode(data, FEATURES)
    assert content.energies is not None and content.energies.ndim == 2
    return content.record.source


CLIP, MAKER = bytes(16), bytes(range(16))


@cache
def _vectors() -> bytes:
    made = {Variant("strong", place, CLIP): np.full((2, 3), place, np.float16) for place in range(2)}
    return encode(CLIP, MAKER, made)


@target(
    "clip-vectors",
    "auricle_edge.clips.vector_files",
    examples=lambda: {"two": _vectors()[NAME_BYTES:]},
    refusals=(DataError,),
)
def clip_vectors(data: bytes) -> object:
    """What a frozen network made of a clip, behind a digest that fits."""
    made = vectors_of(checksum(data) + data, CLIP, MAKER, (2, 3))
    assert all(each.shape == (2, 3) and np.isfinite(each).all() for each in made.values())
    return sorted(made)


@target(
    "clip-seal",
    "auricle_edge.clips.key",
    examples=lambda: {"box": Seal(bytes(32)).close(b"clip", "clip 1")},
    refusals=(DataError,),
)
def clip_seal(data: bytes) -> object:
    """A sealed clip: what opens is what was closed."""
    assert Seal(bytes(32)).open(data, "clip 1") == b"clip"
    return True


@target("clip-key", "auricle_edge.clips.key", examples=lambda: {"key": bytes(range(32))}, refusals=(AuricleError,))
def clip_key(data: bytes) -> object:
    """The key of the clips."""
    path = written(data, "clips.key")
    path.chmod(0o600)
    return read_key(path) is not None


@target(
    "sensitivity",
    "auricle_edge.listening.tuning",
    examples=lambda: {"one": b"1"},
    form="json",
    refusals=(StorageError,),
)
def sensitivity(data: bytes) -> object:
    """The sensitivity that a coordinator asked for."""
    written(data, TUNING)
    return Tuning(scratch(), accepted=True).step


@target(
    "pack-switch",
    "auricle_edge.ota.pack_shelf",
    examples=lambda: {"switch": msgspec.json.encode(Switch(HASH, None))},
    form="json",
    refusals=(PackError,),
)
def pack_switch(data: bytes) -> object:
    """Which pack runs."""
    written(data, f"packs/{SWITCH}")
    return PackShelf(scratch(), "home").switch.current is None


RECORDS = (
    Wanted(rollout="r1", path="packs/home-2.tar.zst", identity=HASH, attempt=1),
    Answer(rollout="r1", identity=HASH, attempt=1, state="staged", reason="well"),
    Progress(kind="pack", wanted=Wanted(rollout="r1")),
    PackTrial(identity=HASH, version="2", starts=1),
    Journal(active="a", trial=SlotTrial(identity=HASH), last=SlotOutcome(identity=HASH, outcome="reverted")),
)


@target(
    "update-records",
    "auricle_edge.ota.records",
    examples=lambda: {type(record).__name__.lower(): msgspec.json.encode(record) for record in RECORDS},
    form="json",
    refusals=(StorageError,),
)
def update_records(data: bytes) -> object:
    """What an agent without rights leaves for root, and root for the agent."""
    path = written(data, "record.json")
    answers = [own_record(path, type(record)) for record in RECORDS]
    if not any(answers):
        read_record(path, Wanted)
    return [type(answer).__name__ for answer in answers]


FACTS = BundleFacts(version="1", board="pi5", os="debian-12", fleet="home")


@target(
    "bundle-facts",
    "auricle_edge.ota.installation",
    examples=lambda: {"facts": msgspec.json.encode(FACTS)},
    form="json",
    refusals=(StorageError,),
)
def facts(data: bytes) -> object:
    """What a bundle says of itself."""
    return bundle_facts(data, "bundle.json").board


@target("remembered-time", "auricle_edge.board.trusted_time", examples=lambda: {"time": b"1700000000"}, form="text")
def remembered_time(data: bytes) -> object:
    """The time at which metadata was in order: no text drives it beyond what a date can be, and nothing is raised."""
    written(data, REMEMBERED)
    return judge_time(1.7e9, None, (), _last_date(scratch())).moment.year


@target(
    "claim-token",
    "auricle.wire.claims",
    examples=lambda: {"token": token_text("A" * 43, "https://hub:8443", "ab" * 32).encode(), "bare": b"A" * 43},
    form="text",
    refusals=(DataError,),
    tokens=(b"server ", b"ca-pin ", b"\n"),
)
def claim_token(data: bytes) -> object:
    """The file of a claim token."""
    return read_token_file(written(data, "claim.token")).server is None


def _login() -> bytes:
    write_login(scratch() / "login", "kitchen", "A" * 43)
    return _read(scratch() / "login")


@target(
    "broker-login",
    "auricle.wire.broker_passwords",
    examples=lambda: {"login": _login()},
    form="text",
    refusals=(SettingsError,),
)
def broker_login(data: bytes) -> object:
    """Name and password for the broker."""
    found = read_login(written(data, "login"))
    return found is None or len(found[1])


@target("device-key", "auricle.wire.identity", examples=lambda: {"seed": bytes(range(32))}, refusals=(StorageError,))
def device_key(data: bytes) -> object:
    """A device's private key."""
    return Identity.load_or_create(written(data, "device.key")).public == KEY.public


@target(
    "fleet-record",
    "auricle_edge.fleet.agent_context",
    examples=lambda: {
        "record": msgspec.json.encode(FleetRecord(fleet="home", broker="mqtts://hub:8883", coordinator=HASH))
    },
    form="json",
    refusals=(),
)
def fleet_record(data: bytes) -> object:
    """What a device was told of its fleet: a damaged record is as good as none."""
    written(data, f"{FOLDER}/{FLEET_FILE}")
    return read_fleet_record(scratch()) is None


PLANNED = {"x": ("unlabelled", 3), "rate": ()}, {"loss": ()}
"""What the graph of a stored plan takes and gives."""


def _plan() -> bytes:
    program = Program(np.array([4, 8, 0, 2, 3, 0, 3, 16], np.int32), 64)
    made = Plan(program, {"x": (0, (2, 3)), "rate": (16, ())}, {"loss": (32, ())}, ((48, np.ones(3, np.float32)),))
    return opened(plan_bytes(made, HASH))


@target(
    "native-plan",
    "auricle_learning.native.plan",
    examples=lambda: {"plan": _plan()},
    form="msgpack",
    refusals=(UnsoundPlanError,),
)
def native_plan(data: bytes) -> object:
    """A plan of a graph with a right checksum: all that it names lies inside its arena. The library checks the rest."""
    plan = plan_of(sealed(data), HASH, *PLANNED)
    refuse_outside(plan)
    assert plan.inputs.keys() == PLANNED[0].keys() and plan.inputs["x"][1][1:] == (3,)
    return plan.program.words.size
