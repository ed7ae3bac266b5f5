"""What devices say in a secure sum, at the coordinator's door: in turn, once, by who was invited, and for this sum."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.cloud.desk import BASE, FLEET, PACK, SIZE, TASK, Desk, body_of, register, update

from auricle.wire.identity import Identity
from auricle.wire.messages import Message
from auricle.wire.plan import Plan, SecureSum
from auricle.wire.secure_sum.messages import SumKeys, SumReveal, SumShares
from auricle_cloud.states.round import State
from auricle_cloud.storage.store import Store

SUM, OTHER = "5" * 32, "6" * 32
KEYS = {f"dev-{letter}": Identity(letter.encode() * 32) for letter in "abcde"}
INVITED = ("dev-a", "dev-b", "dev-c", "dev-d")
WORDS = np.arange(SIZE, dtype="<u4").tobytes()


def place(device: str, **changes: Any) -> dict[str, Any]:
    return {"fleet": FLEET, "device": device, "boot": "b1", "task": TASK, "round": 2, "sum": SUM, **changes}


def keys(device: str, boxes: int = 0, **changes: Any) -> SumKeys:
    first = boxes or ord(device[-1])
    return SumKeys(**place(device, **changes), boxes=bytes([first]) * 32, masks=bytes([first ^ 128]) * 32)


def shares(device: str, count: int = 3, **changes: Any) -> SumShares:
    return SumShares(**place(device, **changes), boxes=(bytes([ord(device[-1])]) * 84,) * count)


def revealed(device: str, own: int, lost: int, **changes: Any) -> SumReveal:
    return SumReveal(**place(device, **changes), own=(bytes(33),) * own, masks=(bytes([1]) * 33,) * lost)


class SumDesk(Desk):
    """A desk at which round 2 is the secure sum of four devices; a fifth one is not invited."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name, key in KEYS.items():
            if name not in ("dev-a", "dev-b"):
                self.speak(name, register(name, key), "reg")
        plan = msgspec.msgpack.encode(Plan(secure_sum=SecureSum(id=SUM, bound=1.0)))
        self.store.rounds.plan(TASK, 1)
        begun = {"opened": time.time(), "base_version": 0, "base": BASE, "plan": plan, "report": {}}
        with self.store.rounds.moving(TASK, 2, "planned", "keys", **begun) as tx:  # type: ignore[arg-type]
            self.store.rounds.invite(tx, TASK, 2, INVITED)
        self.answers.clear()

    def speak(self, device: str, message: Message, kind: str = "sum", body: bytes = b"") -> None:
        self.tell(KEYS[device], device, kind, message, body)

    @property
    def refusals(self) -> list[str]:
        return [detail for _, _, detail in self.heard.refusals]

    def move(self, old: State, new: State) -> None:
        self.store.rounds.move(TASK, 2, old, new)

    def seat(self) -> None:
        """All four gave keys, and have each other as neighbours."""
        for device in INVITED:
            self.speak(device, keys(device))
        with self.store.rounds.moving(TASK, 2, "keys", "shares") as tx:
            near = {name: (i, [s for s in range(1, 5) if s != i]) for i, name in enumerate(INVITED, 1)}
            self.store.sums.seat(tx, TASK, 2, near)

    def admit(self, names: tuple[str, ...] = INVITED) -> None:
        for device in names:
            self.speak(device, shares(device))
        with self.store.rounds.moving(TASK, 2, "shares", "inviting") as tx:
            self.store.sums.admit(tx, TASK, 2, names)

    def send(self, device: str, body: bytes = WORDS, **changes: Any) -> None:
        values = {"round": 2, "sum": SUM, "codec": "sum32", **changes}
        self.speak(device, update(body, device, **values), "upd", body)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[SumDesk]:
    made = SumDesk(tmp_path)
    yield made
    made.close()


def test_keys_count_once_for_who_was_invited_and_as_long_as_they_are_waited_for(desk: SumDesk) -> None:
    desk.speak("dev-a", keys("dev-a"))
    desk.speak("dev-a", keys("dev-a"))
    assert desk.answers == [("SumKeys", "dev-a", "sum")] * 2  # the second one changes nothing
    desk.speak("dev-a", keys("dev-a", 77))
    desk.speak("dev-b", keys("dev-b", ord("a")))
    desk.speak("dev-b", msgspec.structs.replace(keys("dev-b"), masks=keys("dev-b").boxes))
    desk.speak("dev-b", keys("dev-b", sum=OTHER))
    desk.speak("dev-b", keys("dev-b", round=1))
    desk.speak("dev-b", keys("dev-b", round=99))
    desk.speak("dev-e", keys("dev-e"))
    desk.store.devices.set_standing(["dev-d"], "quarantined", who="test")
    desk.speak("dev-d", keys("dev-d"))
    with desk.store.rounds.moving(TASK, 2, "keys", "shares"):
        pass
    desk.speak("dev-c", keys("dev-c"))
    desk.speak("dev-a", keys("dev-a"))
    whose, other = "keys of another device", "another secure sum"
    said = ("other keys", whose, whose, *[other] * 3, "not invited", "quarantined", "late")
    assert all(noun in refused for noun, refused in zip(said, desk.refusals, strict=True)), desk.refusals
    assert [row.device for row in desk.store.sums.rows(TASK, 2)] == ["dev-a"]
    assert {code for _, code, _ in desk.heard.refusals} == {"sum", "not invited", "quarantined"}


def test_shares_are_one_for_each_neighbour_once_and_in_their_turn(desk: SumDesk) -> None:
    desk.speak("dev-a", shares("dev-a"))
    desk.seat()
    desk.speak("dev-a", shares("dev-a", 2))
    desk.speak("dev-a", shares("dev-a"))
    desk.speak("dev-a", shares("dev-a"))
    desk.speak("dev-a", msgspec.structs.replace(shares("dev-a"), boxes=shares("dev-b").boxes))
    desk.move("shares", "inviting")
    desk.speak("dev-b", shares("dev-b"))
    said = ("nobody waits for", "each neighbour", "other shares", "late")
    assert all(noun in refused for noun, refused in zip(said, desk.refusals, strict=True)), desk.refusals
    assert [row.shares for row in desk.store.sums.rows(TASK, 2)] == [b"a" * 252, None, None, None]


def test_of_updates_only_masked_ones_of_who_is_part_of_this_sum_count(desk: SumDesk) -> None:
    desk.seat()
    desk.admit(("dev-a", "dev-b", "dev-c"))
    desk.send("dev-a")
    desk.send("dev-a")
    desk.send("dev-d")
    desk.send("dev-b", sum=OTHER)
    plain = body_of(0.5)
    desk.send("dev-b", plain, sum=msgspec.UNSET, codec="float32")
    desk.send("dev-b", plain, codec="float32")
    desk.send("dev-b", sum=msgspec.UNSET)
    desk.send("dev-b", WORDS[:-4])
    desk.send("dev-b", base="b" * 64)
    desk.send("dev-c", np.full(SIZE, 0xFFFFFFFF, "<u4").tobytes())  # no number of it is refused: it is noise
    desk.move("inviting", "collecting")
    desk.move("collecting", "revealing")
    desk.send("dev-b")
    codes = [":".join(verdict.split(":")[:2]) for verdict in desk.verdicts()]
    refused = ["rejected:sum"] * 5 + ["rejected:shape", "rejected:base"]
    assert codes == ["accepted", "duplicate", *refused, "accepted", "late"]
    assert desk.store.updates.counted_devices(TASK, 2) == {"dev-a", "dev-c"}


def test_a_masked_update_in_a_round_without_a_secure_sum_does_not_count(desk: SumDesk) -> None:
    desk.send("dev-a", round=1)
    assert desk.verdicts() == ["rejected:sum"]


def test_revealed_shares_are_those_that_were_asked_for_once_and_of_who_is_in_the_sum(desk: SumDesk) -> None:
    desk.seat()
    desk.admit()
    for device in ("dev-a", "dev-b", "dev-c"):
        desk.send(device)
    desk.move("inviting", "collecting")
    desk.speak("dev-a", revealed("dev-a", 2, 1))
    desk.move("collecting", "revealing")
    desk.answers.clear()
    desk.speak("dev-a", revealed("dev-a", 3, 0))
    desk.speak("dev-a", revealed("dev-a", 2, 0))
    desk.speak("dev-d", revealed("dev-d", 3, 0))
    desk.speak("dev-a", revealed("dev-a", 2, 1))
    desk.speak("dev-a", revealed("dev-a", 2, 1))
    desk.speak("dev-a", msgspec.structs.replace(revealed("dev-a", 2, 1), masks=(bytes(33),)))
    desk.move("revealing", "closing")
    desk.speak("dev-b", revealed("dev-b", 2, 1))
    said = ("late", *["other numbers"] * 3, "than before", "late")
    assert all(noun in refused for noun, refused in zip(said, desk.refusals, strict=True)), desk.refusals
    assert desk.answers == [("SumReveal", "dev-a", "sum")] * 2
    desk.store.sums.forget(TASK, 2)
    assert desk.store.sums.rows(TASK, 2) == []


def test_on_postgresql_the_same_rows_are_kept(postgres_url: str) -> None:
    store = Store(postgres_url)
    store.models.begin(TASK, PACK, BASE)
    store.rounds.plan(TASK, 1)
    plan = msgspec.msgpack.encode(Plan(secure_sum=SecureSum(id=SUM, bound=1.0)))
    with store.database.writing() as tx:
        store.devices.enter(tx, register("dev-a", KEYS["dev-a"]), "approved")
    with store.rounds.moving(TASK, 1, "planned", "keys", base_version=0, base=BASE, plan=plan) as tx:
        store.rounds.invite(tx, TASK, 1, ["dev-a"])
    with store.database.writing() as tx:
        assert store.sums.enter(tx, keys("dev-a", round=1)) is None
        store.sums.seat(tx, TASK, 1, {"dev-a": (1, [2, 3])})
        store.sums.admit(tx, TASK, 1, ["dev-a"])
    (row,) = store.sums.rows(TASK, 1)
    assert (row.seat, row.near, row.part, row.shares) == (1, [2, 3], True, None)
    store.close()
