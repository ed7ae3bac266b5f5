"""A device in a secure sum: the same answers after a restart, nothing else for the same sum, and never both secrets."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from auricle.errors import WireError
from auricle.wire.messages import Invite
from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.messages import JoinSum, RevealSum, SumBoxes, SumKeys, SumNeighbours, SumReveal, SumShares
from auricle.wire.secure_sum.quantised import quantise, words_of
from auricle_edge.fleet.device_messages import DeviceMessages
from auricle_edge.fleet.secure_sum.kept import FILE, Kept, KeptSum
from auricle_edge.fleet.secure_sum.part import SumPart

TASK, SUM, OTHER = "keywords", "5" * 32, "6" * 32
SIZE = 50
TOLD = SecureSum(id=SUM, bound=1.0)
NOBODY: Any = SimpleNamespace(pack=SimpleNamespace(identity="a" * 64), architecture="crnn-lite")


def place(sum_id: str = SUM) -> dict[str, Any]:
    return {"fleet": "f", "device": "dev-a", "boot": "b", "task": TASK, "round": 1, "epoch": 1, "sum": sum_id}


def invite() -> Invite:
    told = {name: value for name, value in place().items() if name != "sum"}
    return Invite(**told, base="a" * 64, ttl=60.0, plan=Plan(secure_sum=TOLD), length=4, codec="float32", chunks=1)


class Device:
    """One that can be started again: everything it has to know is on its disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.restart()

    def restart(self) -> None:
        self.part = SumPart(KeptSum(self.folder), DeviceMessages("f", "dev-a", "b", NOBODY, bytes(32)))

    @property
    def file(self) -> Path:
        return self.folder / FILE

    def ask(self, question: Any) -> Any:
        return self.part.answer(question)


class Sum:
    """Four devices, taken as far as a test wants."""

    def __init__(self, folder: Path, count: int = 4, threshold: int = 2) -> None:
        self.devices = {seat: Device(folder / str(seat)) for seat in range(1, count + 1)}
        self.keys: dict[int, SumKeys] = {seat: each.ask(JoinSum(**place())) for seat, each in self.devices.items()}
        self.threshold = threshold
        self.shared: dict[int, SumShares] = {}

    def neighbours(self, seat: int, **changes: Any) -> SumNeighbours:
        seats = tuple(other for other in self.keys if other != seat)
        values: dict[str, Any] = {"seat": seat, "threshold": self.threshold, "seats": seats}
        values |= {name: tuple(getattr(self.keys[o], name) for o in seats) for name in ("boxes", "masks")}
        return SumNeighbours(**place(), **{**values, **changes})

    def share(self) -> None:
        self.shared = {seat: each.ask(self.neighbours(seat)) for seat, each in self.devices.items()}

    def boxes(self, seat: int) -> SumBoxes:
        others = tuple(other for other in self.shared if other != seat)
        sealed = [self.shared[other].boxes[[*self.neighbours(other).seats].index(seat)] for other in others]
        return SumBoxes(**place(), seats=others, boxes=tuple(sealed))

    def hand_out(self) -> None:
        for seat, device in self.devices.items():
            assert device.ask(self.boxes(seat)) is None

    def ready(self) -> Sum:
        self.share()
        self.hand_out()
        return self

    def mask(self, seat: int, values: float = 0.25) -> bytes:
        device = self.devices[seat].part
        assert device.is_ready(invite(), TOLD)
        body = device.masked(invite(), TOLD, np.zeros(SIZE, np.float32), np.full(SIZE, values, np.float32))
        device.note_masked()
        return body


def reveal(came: tuple[int, ...], missing: tuple[int, ...]) -> RevealSum:
    return RevealSum(**place(), came=came, missing=missing)


def test_a_device_that_starts_again_says_the_same_bytes_in_every_state(tmp_path: Path) -> None:
    run = Sum(tmp_path)
    first = run.devices[1]
    first.restart()
    assert first.ask(JoinSum(**place())) == run.keys[1]
    run.share()
    first.restart()
    assert first.ask(run.neighbours(1)) == run.shared[1]
    run.hand_out()
    first.restart()
    first.ask(run.boxes(1))
    body = run.mask(1)
    assert body != quantise(np.full(SIZE, 0.25), 1.0).tobytes()
    assert words_of(body, SIZE).shape == (SIZE,)
    said = first.ask(reveal((2, 3), (4,)))
    assert isinstance(said, SumReveal) and (len(said.own), len(said.masks)) == (2, 1)
    first.restart()
    assert first.ask(reveal((2, 3), (4,))) == said


def test_what_it_keeps_is_for_the_device_alone_and_its_secrets_go_when_they_are_of_no_more_use(tmp_path: Path) -> None:
    run = Sum(tmp_path)
    device = run.devices[1]
    assert stat.S_IMODE(device.file.stat().st_mode) == 0o600
    kept = KeptSum(device.folder).read()
    assert kept is not None and kept.secrets is not None
    run.ready().mask(1)
    device.ask(reveal((2, 3, 4), ()))
    left = device.file.read_bytes()
    assert not any(secret in left for secret in msgspec.structs.astuple(kept.secrets))
    for number, exists in ((2, True), (1, False), (1, False)):
        device.part.forget(TASK, number)
        assert device.file.exists() is exists


def test_both_secrets_of_a_neighbour_are_never_revealed_in_one_answer_nor_in_two(tmp_path: Path) -> None:
    run = Sum(tmp_path).ready()
    device = run.devices[1]
    with pytest.raises(WireError, match="masked with"):
        device.ask(reveal((2, 3, 4), ()))  # it sent no update
    run.mask(1)
    for came, missing in (((2, 3, 4), (4,)), ((2, 3), (3, 4)), ((2, 3), ()), ((2, 3, 4, 5), ()), ((2, 2, 3), (4,))):
        with pytest.raises(WireError, match="masked with"):
            device.ask(reveal(came, missing))
    with pytest.raises(WireError, match="too few"):
        device.ask(reveal((2,), (3, 4)))
    device.ask(reveal((2, 3), (4,)))
    for came, missing in (((2, 3, 4), ()), ((2, 4), (3,))):
        device.restart()
        with pytest.raises(WireError, match="uncover"):
            device.ask(reveal(came, missing))


def test_a_second_update_is_never_masked_in_the_same_sum(tmp_path: Path) -> None:
    run = Sum(tmp_path).ready()
    run.mask(1)
    device = run.devices[1]
    device.restart()
    with pytest.raises(WireError, match="second"):
        device.part.is_ready(invite(), TOLD)
    with pytest.raises(WireError, match="before"):
        device.part.masked(invite(), TOLD, np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32))


def test_neighbours_and_boxes_that_cannot_be_are_refused_and_so_are_others_than_before(tmp_path: Path) -> None:
    run = Sum(tmp_path)
    device, told = run.devices[1], run.neighbours(1)
    keys = told.boxes

    def refuses(says: str, question: Any) -> None:
        with pytest.raises(WireError, match=says):
            device.ask(question)

    for changes in (
        {"seats": (2, 3, 3)},
        {"seats": (3, 2, 4)},
        {"seats": (1, 2, 3)},
        {"seats": (2,), "boxes": keys[:1], "masks": told.masks[:1]},
        {"boxes": keys[:2]},
        {"boxes": (keys[0], keys[0], keys[2])},
        {"boxes": (run.keys[1].boxes, *keys[1:])},
        {"masks": keys},
    ):
        refuses("cannot be", run.neighbours(1, **changes))
    refuses("threshold", run.neighbours(1, threshold=1))
    refuses("before its neighbours", SumBoxes(**place(), seats=(2,), boxes=(bytes(84),)))
    run.share()
    refuses("other neighbours", run.neighbours(1, threshold=3))
    assert not device.part.is_ready(invite(), TOLD)
    given = run.boxes(1)
    first, second, third = given.boxes
    for says, changed in (
        ("changed", {"boxes": (second, first, third)}),
        ("too few", {"seats": given.seats[:1], "boxes": (first,)}),
        ("each", {"boxes": (first,)}),
    ):
        refuses(says, msgspec.structs.replace(given, **changed))
    device.ask(given)
    refuses("before", msgspec.structs.replace(given, seats=given.seats[:2], boxes=given.boxes[:2]))


def test_a_sum_that_it_did_not_join_or_lost_is_refused_and_another_one_has_other_keys(tmp_path: Path) -> None:
    run = Sum(tmp_path)
    device = run.devices[1]
    run.share()
    device.file.write_bytes(device.file.read_bytes()[:-3])
    for question in (run.neighbours(1), run.boxes(1), reveal((2, 3), (4,))):
        with pytest.raises(WireError, match="join"):
            device.ask(question)
    again = device.ask(JoinSum(**place(OTHER)))
    assert {again.boxes, again.masks}.isdisjoint({run.keys[1].boxes, run.keys[1].masks})
    with pytest.raises(WireError, match="join"):
        device.ask(run.neighbours(1))
    kept = KeptSum(device.folder).read()
    assert isinstance(kept, Kept)
    KeptSum(device.folder).put(msgspec.structs.replace(kept, secrets=None))
    with pytest.raises(WireError, match="over"):
        device.ask(JoinSum(**place(OTHER)))
