"""A device in a secure sum: what it is asked, and what it kept on its disk."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from auricle.errors import AuricleError, WireError
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.secure_sum.device import Secrets
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumNeighbours, SumQuestion, SumReveal
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.secure_sum.kept import FILE, Kept, KeptSum
from auricle_edge.fleet.secure_sum.part import SumPart
from tests.fuzz.scratch import scratch, written
from tests.fuzz.target import target

PLACE: dict[str, Any] = {"task": "keywords", "round": 3, "epoch": 1, "sum": "5" * 32}
LINES = {"fleet": "home", "device": "kitchen", "boot": "b00t", "nonce": "0123456789abcdef"}
NOBODY: Any = SimpleNamespace(pack=SimpleNamespace(identity="a" * 64), architecture="lite")


def _part(folder: Path) -> SumPart:
    return SumPart(KeptSum(folder), DeviceMessages("home", "kitchen", "b00t", NOBODY, bytes(32)))


@cache
def _sum() -> tuple[dict[str, SumQuestion], dict[str, bytes]]:
    """What the first of three devices is asked to the end, and what it had on its disk before each question."""
    folders = {seat: scratch() / f"sum-{seat}" for seat in (1, 2, 3)}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
    for seat, folder in folders.items():  # the same in every process: examples in the tree fit them
        drawn = Secrets(*(bytes([seat + more]) * 32 for more in (0, 10, 20)))
        KeptSum(folder).put(Kept(task=PLACE["task"], round=PLACE["round"], sum=PLACE["sum"], secrets=drawn))
    parts = {seat: _part(folder) for seat, folder in folders.items()}
    keys: Any = {seat: part.answer(JoinSum(**LINES, **PLACE)) for seat, part in parts.items()}
    told = {}
    for seat in parts:
        near = tuple(other for other in parts if other != seat)
        boxes, masks = (tuple(getattr(keys[other], kind) for other in near) for kind in ("boxes", "masks"))
        told[seat] = SumNeighbours(**LINES, **PLACE, seat=seat, threshold=2, seats=near, boxes=boxes, masks=masks)
    joined = (folders[1] / FILE).read_bytes()
    shared: Any = {seat: part.answer(told[seat]) for seat, part in parts.items()}
    sealed = SumBoxes(**LINES, **PLACE, seats=(2, 3), boxes=(shared[2].boxes[0], shared[3].boxes[0]))
    waits = (folders[1] / FILE).read_bytes()
    parts[1].answer(sealed)
    parts[1].note_masked()
    masked = (folders[1] / FILE).read_bytes()
    reveal = RevealSum(**LINES, **PLACE, came=(2, 3), missing=())
    questions: dict[str, SumQuestion] = {"neighbours": told[1], "boxes": sealed, "reveal": reveal}
    return questions, {"neighbours": joined, "boxes": waits, "reveal": masked}


QUESTION = msgspec.msgpack.Decoder(SumQuestion)


@target(
    "secure-sum",
    "auricle_edge.fleet.secure_sum.part auricle.wire.secure_sum.device auricle.wire.secure_sum.masks",
    examples=lambda: {name: msgspec.msgpack.encode(question) for name, question in _sum()[0].items()},
    form="msgpack",
    refusals=(WireError,),
    seconds=3.0,
)
def secure_sum(data: bytes) -> object:
    """What its coordinator asks, in the state that a question is for: no answer has both secrets of a device."""
    try:
        question = QUESTION.decode(data)
    except UNDECODABLE as error:
        raise WireError("no question") from error
    before = {SumNeighbours: "neighbours", SumBoxes: "boxes", RevealSum: "reveal"}.get(type(question), "neighbours")
    written(_sum()[1][before], FILE)
    said = _part(scratch()).answer(question)
    if isinstance(said, SumReveal) and isinstance(question, RevealSum):
        assert not set(question.came) & set(question.missing)
        assert (len(said.own), len(said.masks)) == (len(question.came), len(question.missing))
    return type(said).__name__


@target(
    "kept-sum",
    "auricle_edge.fleet.secure_sum.kept",
    examples=lambda: _sum()[1],
    form="msgpack",
    refusals=(AuricleError,),
    seconds=3.0,
)
def kept_sum(data: bytes) -> object:
    """What it kept of its sum: of a damaged file it says that it knows nothing, or what does not fit."""
    written(data, FILE)
    said = None
    for question in _sum()[0].values():
        try:
            said = _part(scratch()).answer(question) or said
        except WireError:
            continue
    return type(said).__name__
