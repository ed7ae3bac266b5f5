"""By schema: nothing that crosses the wire can carry audio, features, labels or the local model."""

from __future__ import annotations

import math
import types
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from auricle.wire import kinds, messages
from auricle.wire.frames import LARGEST_HEADER, Topics
from auricle.wire.messages import Get, Invite, Message, Register, Update
from auricle.wire.plan import Bavd, FixMatch, Noise, Plan
from auricle.wire.secure_sum import messages as sum_messages

EVERY_MESSAGE = tuple(t for union in (messages.Uplink, messages.Downlink, messages.Retained) for t in get_args(union))
LARGEST_TEXT = 200
LISTS = {"Register.codecs": 8, "Register.capabilities": 16, "HearingReport.each": 64}
LISTS |= {"Update.vectors": 4, "Invite.vectors": 2}
LISTS |= dict.fromkeys(
    ("SumShares.boxes", "SumReveal.own", "SumReveal.masks", "SumNeighbours.seats", "SumNeighbours.boxes"), 30
)
LISTS |= dict.fromkeys(
    ("SumNeighbours.masks", "SumBoxes.seats", "SumBoxes.boxes", "RevealSum.came", "RevealSum.missing"), 30
)
"""The only lists that travel: names of codecs and capabilities, coarse counts, headers of vectors that a method
declares, and what a secure sum shares out, a piece a neighbour."""
TABLES = {"Invite.plan.options": 12}
"""The one table that travels: the options of the round's method."""
BYTES = {"Register.public_key": 32, "SumKeys.boxes": 32, "SumKeys.masks": 32}
BYTES |= {"SumNeighbours.boxes[]": 32, "SumNeighbours.masks[]": 32}
BYTES |= {"SumShares.boxes[]": 84, "SumBoxes.boxes[]": 84, "SumReveal.own[]": 33, "SumReveal.masks[]": 33}
"""The only bytes that travel: public keys, sealed shares of keys and shares of keys, each of one length."""
FORBIDDEN = ("audio", "clip", "feature", "mel", "label", "target", "word", "local_model", "weights", "speaker", "wav")
ALLOWED = {"local_rate", "keep_state", "clip", "loss"}
"""`clip` of a plan is the largest norm of a gradient, a number."""


def _fields(kind: inspect.Type, path: str) -> list[tuple[str, inspect.Type]]:
    """Every leaf of a type, with the way to it."""
    if isinstance(kind, inspect.StructType):
        return [leaf for f in kind.fields for leaf in _fields(f.type, f"{path}.{f.encode_name}")]
    if isinstance(kind, inspect.UnionType):
        return [leaf for member in kind.types for leaf in _fields(member, path)]
    if isinstance(kind, inspect.VarTupleType):
        return [(path, kind), *_fields(kind.item_type, f"{path}[]")]
    if isinstance(kind, inspect.DictType):
        parts = [*_fields(kind.key_type, f"{path}[].name"), *_fields(kind.value_type, f"{path}[].value")]
        return [(path, kind), *parts]
    return [(path, kind)]


LEAVES = [leaf for m in EVERY_MESSAGE for leaf in _fields(inspect.type_info(m), m.__name__)]


def test_the_walk_sees_every_message_the_reader_accepts() -> None:
    assert set(EVERY_MESSAGE) == set(get_args(messages.WireMessage))
    assert isinstance(messages.WireMessage, types.UnionType)
    named = [*vars(messages).values(), *vars(sum_messages).values()]
    concrete = {m for m in named if isinstance(m, type) and issubclass(m, Message) and m is not Message}
    assert set(EVERY_MESSAGE) == concrete
    assert {"Invite.plan.alpha", "Update.loss", "Register.codecs[]"} <= {path for path, _ in LEAVES}


@pytest.mark.parametrize(("path", "kind"), LEAVES, ids=[path for path, _ in LEAVES])
def test_a_field_is_a_bounded_scalar(path: str, kind: inspect.Type) -> None:
    """Strings of at most 200 characters, bounded integers, single floats, flags; bytes of one length that are keys."""
    if isinstance(kind, inspect.StrType):
        assert kind.max_length is not None
        assert kind.max_length <= LARGEST_TEXT
    elif isinstance(kind, inspect.IntType):
        assert kind.ge is not None
        assert kind.le is not None
    elif isinstance(kind, inspect.BytesType):
        assert (kind.min_length, kind.max_length) == (BYTES[path], BYTES[path])
    elif isinstance(kind, inspect.VarTupleType):
        assert kind.max_length == LISTS[path]
        scalars = inspect.StrType | inspect.LiteralType | inspect.BytesType | inspect.IntType
        assert isinstance(kind.item_type, scalars | inspect.StructType)
    elif isinstance(kind, inspect.DictType):
        assert kind.max_length == TABLES[path]
    else:
        assert isinstance(kind, inspect.FloatType | inspect.BoolType | inspect.LiteralType | inspect.NoneType)


@pytest.mark.parametrize("path", [path for path, _ in LEAVES])
def test_no_field_is_named_for_what_must_not_travel(path: str) -> None:
    name = path.split(".", 1)[1]
    assert not any(word in name for word in FORBIDDEN) or name.split(".")[-1] in ALLOWED


@pytest.mark.parametrize("message", EVERY_MESSAGE)
def test_the_largest_message_of_a_type_fits_a_header(message: type) -> None:
    """Not counting an update's body, which the frame checks against its signed length."""
    largest: dict[str, int] = {}
    for path, kind in (leaf for leaf in LEAVES if leaf[0].startswith(message.__name__ + ".")):
        whole, among, _ = path.partition("[]")
        times = {**LISTS, **TABLES}[whole] if among else 1
        key = len(path.rpartition(".")[2]) + 2 + 5  # its name with a head, and the head of what it stands in
        keys = 1 if path.endswith("[]") else times
        size = key * keys + 9 * times  # a number, or the head of a string, takes at most 9 bytes
        if isinstance(kind, inspect.StrType):
            ascii_only = kind.pattern is not None
            size += (kind.max_length or 0) * (1 if ascii_only else 4) * times
        if isinstance(kind, inspect.BytesType):
            size += ((kind.max_length or 0) - 7) * times  # and two bytes before each
        largest[path] = max(size, largest.get(path, 0))  # it is one of several kinds
    total = sum(largest.values())
    assert total < LARGEST_HEADER


def _get(**changes: Any) -> dict[str, Any]:
    return {"type": "get", "fleet": "home", "device": "kitchen", "boot": "b", "schema": 1, "round": 1, **changes}


def each(**wrong: tuple[Any, ...]) -> Any:
    """A case for each value of each field."""
    cases = [(name, value) for name, values in wrong.items() for value in values]
    return pytest.mark.parametrize(("field", "value"), cases)


@each(
    device=("a", "a" * 65, "Kitchen", "kitchen\n", "../etc", "kit/chen", "kit+"),
    fleet=("", "home\n"),
    boot=("x" * 65, "\x1b[2J", "a\nb", 3),
    round=(-1, 1 << 32, 1.5, True, None),
    schema=(0,),
)
def test_a_field_out_of_its_bounds_is_refused(field: str, value: Any) -> None:
    msgspec.convert(_get(), Get)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(_get(**{field: value}), Get)


@each(
    rate=(0, -1.0, math.nan, math.inf),
    momentum=(1.0,),
    alpha=(1.1, math.nan),
    clip=(math.nan, -1.0),
    decay=(math.inf,),
    epochs=(0, 1001),
    optimizer=("lion",),
    mode=("central",),
    plugin_ce=(-0.5,),
    codec=("x" * 65,),
    colour=("red",),
    order=("reversed",),
    temperature=(0, math.nan, 101),
    mu=(-0.1, math.inf, 101),
)
def test_a_plan_that_cannot_be_trained_is_refused(field: str, value: Any) -> None:
    msgspec.convert({}, Plan)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({field: value}, Plan)


def _hearing(**changes: Any) -> dict[str, Any]:
    head = {"type": "hearingreport", "fleet": "home", "device": "kitchen", "boot": "b"}
    counts = {"detections": 5, "denied": 1, "missed": 0}
    return {**head, "period": 1, "pack": "a" * 64, "span": 4, "heard": 4, **counts, **changes}


@each(
    detections=(4, 1001, -1),
    denied=(6, 1.0),
    missed=("yes", None),
    span=(0, 97),
    heard=(97, 0.5, -1),
    period=(0, 1 << 31),
    level=(-31, 3, -99, -30.5),
    noise=(math.nan,),
    full_scale=("0.0123", 0.5),
    offset=("left",),
    each=([4], [1.5], ["yes"], [0] * 65, [[1]]),
    base=("yes",),
    pack=("",),
)
def test_a_report_of_hearing_can_say_nothing_between_its_steps(field: str, value: Any) -> None:
    msgspec.convert(_hearing(), messages.HearingReport)
    msgspec.convert(_hearing(level=-30, noise=-96, each=[0, 1, 1000], offset="large"), messages.HearingReport)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(_hearing(**{field: value}), messages.HearingReport)


@pytest.mark.parametrize("text", ["A" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n", "g" * 64])
def test_a_hash_is_64_lower_case_hexadecimal_digits(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, kinds.Sha256)


def test_the_default_plan_is_fedmlacs() -> None:
    """ALGORITHMS 3.1: E = 1, plain SGD at 0.01 for both, alpha 0.5, no cross-entropy on the plug-in, simultaneous."""
    plan = Plan()
    assert (plan.mode, plan.epochs, plan.optimizer, plan.rate, plan.local_rate) == ("mutual", 1, "sgd", 0.01, 0.01)
    assert (plan.alpha, plan.plugin_ce, plan.momentum, plan.decay, plan.clip) == (0.5, 0.0, 0.0, 0.0, 0.0)
    assert (plan.order, plan.temperature, plan.mu) == ("simultaneous", 1.0, 0.0)
    assert (plan.augment, plan.keep_state, plan.codec) == (False, False, "float32")


def test_messages_cannot_be_changed() -> None:
    for message in EVERY_MESSAGE:
        assert message.__struct_config__.frozen
        assert message.__struct_config__.tag == message.__name__.lower().removesuffix("state")
        assert not message.__struct_config__.forbid_unknown_fields
    assert {Register, Update, Invite} <= set(EVERY_MESSAGE)


def test_topics_have_at_most_seven_slashes() -> None:
    home = Topics("home")
    named = (home.up("kitchen", "upd"), home.down("kitchen", "inv"), home.device_state("kitchen"), home.blob("ab", 3))
    assert named == tuple(
        f"auricle/1/home/{end}" for end in ("d/kitchen/up/upd", "d/kitchen/dn/inv", "d/kitchen/state", "b/ab/3")
    )
    assert (home.coordinator_state, home.model) == ("auricle/1/home/c/state", "auricle/1/home/c/model")
    assert home.blob("ab") == "auricle/1/home/b/ab/+"
    assert max(topic.count("/") for topic in named) <= 7


NOISE = ({"clip": 0.0, "deviation": 1.0}, {"clip": 1.0, "deviation": -1.0}, {"clip": 1.0})
FIXMATCH = ({"threshold": 0.0}, {"threshold": 1.01}, {"weight": 0.0}, {"weight": 101}, {"tau": 0.7})


@pytest.mark.parametrize(
    ("field", "plan", "refused"),
    [
        ("noise", Plan(noise=Noise(clip=0.5, deviation=0.1)), NOISE),
        ("bavd", Plan(bavd=Bavd(maps=True)), (1, {"maps": 1}, {"map": True})),
        ("fixmatch", Plan(fixmatch=FixMatch(threshold=0.9)), FIXMATCH),
    ],
)
def test_a_plan_says_only_what_it_asks_for_and_refuses_nonsense(
    field: str, plan: Plan, refused: tuple[Any, ...]
) -> None:
    assert field not in msgspec.msgpack.decode(msgspec.msgpack.encode(Plan()))
    assert getattr(msgspec.convert({"epochs": 2}, Plan), field) is msgspec.UNSET
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
    for wrong in refused:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({field: wrong}, Plan)


def test_what_a_part_of_a_plan_means_by_itself() -> None:
    assert not Bavd().maps
    assert (FixMatch().threshold, FixMatch().weight) == (0.7, 1.0)
