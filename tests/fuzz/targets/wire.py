"""What devices and coordinators say to each other."""

from __future__ import annotations

import struct
from functools import cache

import msgspec
import numpy as np

from auricle.errors import WireError
from auricle.wire.frames import MAGIC, Sealed, _bytes_to_sign, open_frame, seal
from auricle.wire.identity import Identity, verify
from auricle.wire.messages import (
    Abort,
    Ack,
    CoordinatorState,
    DeviceState,
    Get,
    HearingReport,
    Invite,
    Loss,
    Measure,
    Message,
    Model,
    Nothing,
    Register,
    Release,
    Status,
    Target,
    Tune,
    Update,
)
from auricle.wire.plan import Plan
from auricle.wire.prior_knowledge import PriorKnowledge, Tuning
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumKeys, SumNeighbours, SumReveal, SumShares
from auricle.wire.tensor_specs import TensorSpec
from auricle.wire.tensors import CODECS, TensorTable, decode, encode
from auricle.wire.update_codec import TOP_K, UPDATE_CODECS, decode_update, encode_update, length_of
from tests.core import tiny_pack
from tests.fuzz.target import target

KEY = Identity(bytes(range(32)))
TOPIC = "auricle/1/home/d/kitchen/up/upd"
HASH = "a" * 64
PLACE = {"task": "keywords", "round": 3, "epoch": 1}
SUM = {"task": "keywords", "round": 3, "sum": "5" * 32}
HALF = bytes(range(32))
BLOB = {"length": 60, "codec": "float32", "chunks": 1}
_WEIGHTS = np.linspace(-1, 1, 15).astype(np.float32)
LINES = {"fleet": "home", "device": "kitchen", "boot": "b00t", "nonce": "0123456789abcdef"}


@cache
def messages() -> tuple[Message, ...]:
    """One of every kind."""
    return (
        Register(
            **LINES, public_key=KEY.public, agent="1", pack=HASH, architecture="lite", codecs=("float32",), samples=9
        ),
        Get(**LINES, round=3),
        Status(**LINES, task="keywords", round=3, state="failed", reason="too warm"),
        Loss(**LINES, **PLACE, base=HASH, loss=2.5, samples=9),
        Update(**LINES, **PLACE, attempt=1, base=HASH, body=HASH, length=60, codec="float32", samples=9, loss=2.5),
        SumKeys(**LINES, **SUM, boxes=KEY.public, masks=HALF),
        SumShares(**LINES, **SUM, boxes=(bytes(84), bytes(range(84)))),
        SumReveal(**LINES, **SUM, own=(bytes(33),), masks=(bytes(range(33)),)),
        JoinSum(**LINES, **SUM, epoch=1),
        SumNeighbours(**LINES, **SUM, epoch=1, seat=1, threshold=2, seats=(2, 3), boxes=(HALF,) * 2, masks=(HALF,) * 2),
        SumBoxes(**LINES, **SUM, epoch=1, seats=(2, 3), boxes=(bytes(84), bytes(range(84)))),
        RevealSum(**LINES, **SUM, epoch=1, came=(2, 3), missing=(4,)),
        Release(**LINES, version="1", pack=HASH, confirmed=True),
        HearingReport(**LINES, period=1, pack=HASH, span=4, heard=4, detections=5, denied=0, missed=1, each=(1, 2)),
        Invite(**LINES, **PLACE, **BLOB, base=HASH, ttl=60.0, plan=Plan()),
        Measure(**LINES, **PLACE, **BLOB, base=HASH),
        Ack(**LINES, **PLACE, attempt=1, body=HASH, verdict="accepted"),
        Nothing(**LINES, epoch=1, standing="pending", reason="wait", key="ab"),
        Abort(**LINES, **PLACE, reason="closed"),
        Target(**LINES, epoch=1, rollout="r1", kind="pack", path="packs/home-2.tar.zst", identity=HASH),
        Tune(**LINES, epoch=1, sensitivity=-1),
        CoordinatorState(**LINES, online=True, epoch=1),
        DeviceState(**LINES, online=True, agent="1", pack=HASH, sensitivity=1),
        Model(**LINES, **BLOB, task="keywords", version=1, epoch=1, pack=HASH, blob=HASH, ttl=60.0),
    )


def _name(message: Message) -> str:
    return type(message).__name__.lower()


@target(
    "frame",
    "auricle.wire.frames auricle.wire.identity",
    examples=lambda: {_name(m): seal(KEY, TOPIC, m, b"x" * (60 if isinstance(m, Update) else 0)) for m in messages()},
    refusals=(WireError,),
    tokens=(MAGIC,),
    megabytes=8,
)
def frame(data: bytes) -> object:
    """A whole frame, as it comes from the broker."""
    message, body = open_frame(data, TOPIC, lambda message: getattr(message, "public_key", KEY.public))
    assert len(body) <= getattr(message, "length", 0)
    return message


@target(
    "message",
    "auricle.wire.messages auricle.wire.kinds auricle.wire.plan auricle.wire.secure_sum.messages",
    examples=lambda: {_name(m): msgspec.msgpack.encode(m) for m in messages()},
    form="msgpack",
    refusals=(WireError,),
    megabytes=8,
)
def message(data: bytes) -> object:
    """Any message, rightly signed by who sends it."""
    header = msgspec.msgpack.encode(Sealed(data, KEY.sign(_bytes_to_sign(TOPIC, data))))
    opened, _ = open_frame(MAGIC + struct.pack("<H", len(header) & 0xFFFF) + header, TOPIC, lambda _: KEY.public)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(opened), type=type(opened)) == opened or "nan" in repr(opened)
    return opened


@target(
    "tensors",
    "auricle.wire.tensors",
    examples=lambda: {codec: codec.encode() + b"\n" + encode(_WEIGHTS, codec) for codec in CODECS},
    refusals=(WireError,),
    tokens=[codec.encode() + b"\n" for codec in CODECS],
)
def tensors(data: bytes) -> object:
    """A block of weights with the name of its codec on the line before."""
    codec, _, block = data.partition(b"\n")
    flat = decode(block, 15, codec.decode("latin-1"))
    assert flat.shape == (15,) and flat.dtype == np.float32 and np.isfinite(flat).all()
    return codec


TABLE = tiny_pack.TABLE


@target(
    "update-codec",
    "auricle.wire.update_codec",
    examples=lambda: {
        codec: codec.encode() + b"\n" + encode_update(_WEIGHTS, np.zeros(15, np.float32), TensorTable(TABLE), codec)
        for codec in UPDATE_CODECS
    },
    refusals=(WireError,),
    tokens=[codec.encode() + b"\n" for codec in UPDATE_CODECS],
)
def update_codec(data: bytes) -> object:
    """The weights of an update, with its codec on the line before, beside a model of zeros."""
    codec, _, body = data.partition(b"\n")
    flat = decode_update(body, np.zeros(15, np.float32), TensorTable(TABLE), codec.decode("latin-1"))
    assert flat.shape == (15,) and flat.dtype == np.float32 and np.isfinite(flat).all()
    return codec


_TINY, _SENT = TensorTable(TABLE), 8
"""A tiny model of 15 weights, of which `top-k` sends 8."""


def _as_many_as_due(body: bytes) -> bytes:
    """A body of the due length with as many places as are due, none of them beyond the last weight."""
    head = 4 * len(_TINY.specs)
    if len(body) != length_of(_TINY, TOP_K):
        return body
    bits = np.unpackbits(np.frombuffer(body, np.uint8, 2, head), bitorder="little")[:15]
    sent = np.zeros(15, np.uint8)
    sent[np.argsort(1 - bits, kind="stable")[:_SENT]] = 1
    return body[:head] + np.packbits(sent, bitorder="little").tobytes() + body[head + 2 :]


@target(
    "top-k",
    "auricle.wire.update_codec",
    examples=lambda: {
        "drawn": encode_update(_WEIGHTS, np.zeros(15, np.float32), _TINY, TOP_K),
        "still": encode_update(_WEIGHTS, _WEIGHTS, _TINY, TOP_K),
    },
    refusals=(WireError,),
    mend=_as_many_as_due,
)
def top_k(data: bytes) -> object:
    """The larger half of what moved, beside a model of zeros: no other weight moves."""
    flat = decode_update(data, np.zeros(15, np.float32), _TINY, TOP_K)
    assert flat.shape == (15,) and flat.dtype == np.float32 and np.isfinite(flat).all()
    assert np.count_nonzero(flat) <= _SENT
    return flat.tolist()


@target(
    "prior-knowledge",
    "auricle.wire.prior_knowledge",
    examples=lambda: {
        str(size): PriorKnowledge(
            _WEIGHTS[:9], tuple(range(size)), np.ones((size, 2, 2), np.float32), Tuning(features=2, epochs=1, rate=0.1)
        ).to_bytes()
        for size in (0, 2)
    },
    form="msgpack",
    refusals=(WireError,),
)
def prior_knowledge(data: bytes) -> object:
    """What is lent to tune a classifier of three classes and two features by."""
    found = PriorKnowledge.from_bytes(data, 3, 2)
    assert found.classifier.shape == (9,) and found.features.shape == (len(found.labels), found.tuning.features, 2)
    assert np.isfinite(found.features).all() and set(found.labels) <= {0, 1, 2}
    return found.labels


@target(
    "tensor-table",
    "auricle.wire.tensors",
    examples=lambda: {"table": msgspec.json.encode(TABLE)},
    form="json",
    refusals=(WireError, msgspec.ValidationError),
)
def tensor_table(data: bytes) -> object:
    """A table of tensors, once its entries are what their types say."""
    try:
        specs = msgspec.json.decode(data, type=tuple[TensorSpec, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError("not entries") from error
    table = TensorTable(specs)
    assert sum(span.stop - span.start for span in table.offsets.values()) == table.size
    return len(specs)


@target(
    "signature",
    "auricle.wire.identity",
    examples=lambda: {"right": KEY.public + KEY.sign(b"said") + b"said"},
    refusals=(),
)
def signature(data: bytes) -> object:
    """Key, signature and what was signed: nothing is ever raised, and nothing else than the example is right."""
    right = verify(data[:32], data[32:96], data[96:])
    assert not right or data[:32] != KEY.public or data[96:] == b"said"
    return right
