"""What regions and the place where they meet say to each other, and what that place keeps."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import numpy as np

from auricle.errors import SettingsError, WireError
from auricle.packs.pack import load_pack
from auricle.wire.plan import Plan
from auricle.wire.tensors import digest, encode
from auricle_cloud.link.region_messages import (
    FromRegion,
    JoinRound,
    Joint,
    Later,
    MatrixQuestion,
    RegionPart,
    Reply,
    Wait,
    method_text,
    read_message,
    write_numbers,
)
from auricle_cloud.rounds.regions import joint
from auricle_cloud.rounds.regions.joint import Meeting
from auricle_cloud.rounds.regions.joint_cohort import summarise
from auricle_cloud.rounds.regions.joint_model import JointState, read_joint_state
from auricle_cloud.rounds.regions.member import RegionMember
from auricle_cloud.settings import JointSettings
from auricle_learning.aggregation.cohort import Cohort, layers_of
from auricle_learning.methods import MethodSettings
from auricle_learning.presets import Preset
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target

COUNT = 3


@cache
def _pack() -> Any:
    return load_pack("digits")


@cache
def _cohort() -> Cohort:
    """A region's updates, of a model of twelve weights."""
    start = np.linspace(-1, 1, 12, dtype=np.float32)
    return Cohort.build(
        ids=[f"dev-{k}" for k in range(COUNT)],
        weights=np.tile(start, (COUNT, 1)) + np.float32(0.5),
        samples=[4, 5, 6],
        start=start,
        layers=layers_of([("a.weight", 9, None), ("b.weight", 3, None)]),
    )


@cache
def _meeting() -> Meeting:
    joint.HOLD_SECONDS = 0.0
    settings = JointSettings(scratch() / "meeting", ("north", "south"), Preset(Plan(), MethodSettings("fedavg")), 2)
    return Meeting(settings, _pack(), _pack().plugin_table.initial(1))


def _said() -> dict[str, bytes]:
    meeting = _meeting()
    base = digest(encode(_pack().plugin_table.initial(1)))
    said = {
        "join": JoinRound("j0", base, _pack().identity, method_text(meeting.rule), summarise(_cohort()), ("dev-9",)),
        "wait": Wait("j0"),
        "reply": Reply("j0", 1, write_numbers(np.ones(2))),
    }
    return {name: msgspec.msgpack.encode(message) for name, message in said.items()}


@target(
    "region-said",
    "auricle_cloud.rounds.regions.joint auricle_cloud.link.region_messages",
    examples=_said,
    form="msgpack",
    refusals=(WireError, SettingsError),
)
def region_said(data: bytes) -> object:
    return _meeting().take("north", read_message(data, FromRegion))  # type: ignore[arg-type]


def _answers() -> dict[str, bytes]:
    size, layers = _cohort().start.size, 2
    spans = (((0, 9),), ((9, 12),))
    table = np.ones((COUNT, layers))
    part = RegionPart(COUNT, write_numbers(table), bytes(COUNT * layers), write_numbers(table), bytes(COUNT * layers))
    answers = {
        "later": Later(1, 2),
        "sum": MatrixQuestion(1, "sum", spans, write_numbers(table)),
        "distances": MatrixQuestion(2, "distances", spans, write_numbers(np.ones(size))),
        "joint": Joint(3, ("north",), encode(np.ones(size, np.float32)), part),
        "late": Joint(3, ("north",), encode(np.ones(size, np.float32))),
    }
    return {name: msgspec.msgpack.encode(message) for name, message in answers.items()}


@target(
    "region-answer",
    "auricle_cloud.rounds.regions.member auricle_cloud.rounds.regions.joint_cohort",
    examples=_answers,
    form="msgpack",
    refusals=(WireError,),
)
def region_answer(data: bytes) -> object:
    member = RegionMember(lambda _: data, _pack().identity, _meeting().rule)
    return member.answer(JoinRound("j0", "0" * 64, _pack().identity, "", summarise(_cohort())), Wait("j0"), _cohort())


def _kept() -> dict[str, bytes]:
    first = _pack().plugin_table.initial(1)
    kept = JointState(
        2, _pack().identity, "0" * 64, encode(first), None, {"north": ("dev-0",)}, {"north": RegionPart(1, b"", b"")}
    )
    return {"kept": msgspec.msgpack.encode(kept)}


@target("joint-model", "auricle_cloud.rounds.regions.joint_model", examples=_kept, form="msgpack")
def joint_model(data: bytes) -> object:
    return read_joint_state(written(data, "joint.msgpack"), _pack(), _pack().plugin_table.initial(1))
