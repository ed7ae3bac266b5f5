"""Rollouts on both databases: stages, errors, silence, standing, and a process that ends at any step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.cloud.desk import ANA, BOB, TOPICS, Desk, signed
from tests.cloud.rolling import (
    FLEET,
    NEW,
    NEWER,
    NEXT_PACK,
    OLD,
    OTHER,
    PATH,
    ROWS,
    START,
    Killed,
    Rolling,
    killing,
    release,
)

from auricle.errors import StorageError
from auricle.wire.frames import seal
from auricle_cloud.states.rollout import TRANSITIONS, RolloutState, label
from auricle_cloud.states.rollout_plan import place as order_of
from auricle_cloud.storage.rollout_records import Rollouts
from auricle_cloud.storage.store import Store


@pytest.fixture
def rolling(store: Store) -> Rolling:
    return Rolling(store)


# -- the way of a rollout


def test_stages_open_one_after_the_other_in_the_order_of_the_hash(rolling: Rolling) -> None:
    name = rolling.start()
    order = sorted(rolling.names, key=lambda device: order_of(name, device))

    rolling.steps(name)
    assert sorted(rolling.asked()) == sorted(order[:2])
    assert rolling.steps(name, 30).stage == 0  # nobody has answered

    assert sorted(rolling.answer(name)) == sorted(order[:2])
    assert rolling.steps(name).stage == 0  # it soaks
    assert rolling.steps(name, 59).stage == 0
    assert rolling.steps(name, 2).stage == 1
    assert sorted(rolling.answer(name)) == sorted(order[2:10])
    rolling.steps(name)
    assert rolling.steps(name, 61).stage == 2
    assert sorted(rolling.answer(name)) == sorted(order[10:])
    rolling.steps(name)
    assert rolling.steps(name, 61).state == "finished"
    assert set(rolling.states(name).values()) == {"updated"}


def test_a_device_counts_only_by_its_own_word_that_it_is_healthy_on_the_target(rolling: Rolling) -> None:
    name, (device,) = rolling.begun(stages=[5.0])

    for said in (
        {"bundle": NEW, "confirmed": False, "state": "trial", "rollout": name},
        {"bundle": OLD, "confirmed": True, "state": "confirmed", "rollout": name},
        {"bundle": NEWER, "confirmed": True, "state": "confirmed", "rollout": name},
        {"bundle": None, "pack": NEW, "confirmed": True, "rollout": name},
    ):
        rolling.says(device, **said)
        assert rolling.states(name) == {device: "asked"}

    assert rolling.says(device, bundle=NEW) == [(name, "updated")]
    assert rolling.says(device, bundle=NEW) == []
    assert [row.device for row in rolling.store.journal.events(kind="updated")] == [device]


@pytest.mark.parametrize("state", ["failed", "refused"])
def test_too_many_errors_pause_and_say_why(rolling: Rolling, state: str) -> None:
    name, first = rolling.begun(stages=[50.0, 100.0])
    for device in first[:2]:
        rolling.says(device, bundle=NEW, rollout=name)
    assert rolling.steps(name).state == "running"
    rolling.says(first[2], rollout=name, state=state, reason="the microphone is dead")

    row = rolling.steps(name)

    assert (row.state, row.stage) == ("paused", 0)
    assert first[2] in row.reason and "the microphone is dead" in row.reason
    assert rolling.asked() == []
    (event,) = rolling.store.journal.events(kind="rollout paused")
    assert "the microphone is dead" in event.detail


def test_a_small_stage_is_judged_when_it_is_decided_and_another_fleets_bundle_pauses(rolling: Rolling) -> None:
    name, _ = rolling.begun(stages=[5.0, 100.0])
    rolling.answer(name, bundle=OLD, state="failed", reason="it did not start")
    assert rolling.steps(name, 61).state == "paused"

    rolling.rollouts.resume(name, who="ana")
    rolling.rollouts.step(name, rolling.now, "cabin")
    row = rolling.rollouts.get(name)
    assert (row.state, "home" in row.reason and "cabin" in row.reason) == ("paused", True)


def test_who_stays_silent_counts_as_an_error_until_it_speaks(rolling: Rolling) -> None:
    name, (device,) = rolling.begun(stages=[5.0, 100.0])
    assert rolling.steps(name, 599).state == "running"

    row = rolling.steps(name, 2)
    assert (row.state, rolling.states(name)) == ("paused", {device: "silent"})

    assert rolling.says(device, bundle=NEW) == [(name, "updated")]
    rolling.rollouts.resume(name, who="ana")
    rolling.steps(name)
    assert rolling.steps(name, 61).stage == 1


def test_each_step_of_the_way_prolongs_the_deadline_once(rolling: Rolling) -> None:
    name, (device,) = rolling.begun(stages=[5.0])
    heard = [rolling.rollouts.whole(name)[1][device].heard]
    for state in ("fetching", "fetching", "trial", "fetching", "trial"):
        rolling.says(device, rollout=name, state=state, confirmed=state == "fetching")
        heard.append(rolling.rollouts.whole(name)[1][device].heard)

    assert heard[0] != heard[1] == heard[2] != heard[3] == heard[4] == heard[5]


def test_who_is_away_does_not_hold_up_a_stage_for_ever_and_gets_it_when_it_comes(rolling: Rolling) -> None:
    for device in rolling.names[:19]:
        rolling.goes(device)
    name, _ = rolling.begun(stages=[100.0])
    assert rolling.answer(name) == [rolling.names[19]]
    assert rolling.steps(name, 599).settled is None
    rolling.steps(name, 2)
    assert rolling.steps(name, 61).state == "finished"

    rolling.comes(rolling.names[0])
    rolling.steps(name)
    assert rolling.asked() == [rolling.names[0]]
    rolling.answer(name)
    assert rolling.states(name)[rolling.names[0]] == "updated"


def test_a_stage_that_nobody_answered_does_not_pass(rolling: Rolling) -> None:
    for device in rolling.names:
        rolling.goes(device)
    name = rolling.start(stages=[10.0, 100.0])

    assert rolling.steps(name, 100_000).stage == 0
    assert rolling.steps(name, 100_000).state == "running"


def test_a_device_that_comes_later_gets_what_was_finished_and_who_runs_it_is_not_asked(rolling: Rolling) -> None:
    for device in rolling.names[1:]:
        rolling.says(device, bundle=NEW)
    name, asked = rolling.begun(stages=[100.0])
    assert asked == rolling.names[:1]
    assert rolling.passes(name).state == "finished"

    assert set(rolling.states(name).values()) == {"updated"}
    rolling.add("new-1")
    rolling.steps(name)

    assert rolling.asked() == ["new-1"]


def test_only_devices_of_the_label_board_and_standing_are_chosen(rolling: Rolling) -> None:
    rolling.add("pi4-1", board="pi4")
    rolling.add("pi4-2", board="pi4", os="bookworm")
    rolling.add("wait-1", "pending")
    for device in ("dev-00", "dev-01", "dev-02", "pi4-1", "pi4-2", "wait-1"):
        rolling.store.devices.set_label(device, "kitchen", who="ana")
    rolling.store.devices.set_standing(["dev-01"], "quarantined", who="ana")
    rolling.store.devices.set_standing(["dev-02"], "revoked", who="ana")

    rolling.begun(NEW, OTHER, label="kitchen", stages=[100.0])

    assert {row.device: row.identity for row in rolling.rollouts.asked()} == {"dev-00": NEW, "pi4-1": OTHER}


def test_a_device_in_quarantine_is_told_nothing_more_and_does_not_fall_silent(rolling: Rolling) -> None:
    name, (device,) = rolling.begun(stages=[5.0])
    rolling.store.devices.set_standing([device], "quarantined", who="ana")

    assert rolling.asked() == []
    assert rolling.steps(name, 10_000).state == "running"
    assert rolling.states(name)[device] == "asked"


def test_a_pack_goes_to_every_board_and_counts_by_the_pack(rolling: Rolling) -> None:
    rolling.add("pi4-1", board="pi4")
    name, _ = rolling.begun(NEXT_PACK, stages=[100.0])
    assert len(rolling.asked()) == 21

    rolling.says("pi4-1", board="pi4", pack=NEXT_PACK, rollout=name)
    rolling.says("dev-00", bundle=NEXT_PACK, rollout=name)

    states = rolling.states(name)
    assert (states["pi4-1"], states["dev-00"]) == ("updated", "asked")


# -- operators


def test_errors_are_forgiven_or_their_devices_asked_again(rolling: Rolling) -> None:
    name, _ = rolling.begun(stages=[50.0, 100.0])
    asked = rolling.answer(name, bundle=OLD, state="failed", reason="no space")
    assert rolling.steps(name).state == "paused"

    rolling.rollouts.resume(name, who="ana", retry=True)
    rolling.steps(name)
    assert rolling.asked() == asked
    assert {row.rollout for row in rolling.rollouts.asked()} == {f"{name}.2"}
    assert {(row.kind, row.path, row.identity) for row in rolling.rollouts.asked()} == {("bundle", PATH, NEW)}
    rolling.answer(name, bundle=OLD, state="failed", reason="said late of the first attempt")
    assert rolling.asked() == asked
    rolling.answer(f"{name}.2", bundle=OLD, state="failed", reason="no space")
    assert rolling.steps(name).state == "paused"

    rolling.rollouts.resume(name, who="ana")
    assert rolling.steps(name).state == "running"
    assert rolling.steps(name, 61).stage == 1


def test_nobody_is_asked_while_it_is_paused_or_after_it_was_aborted(rolling: Rolling) -> None:
    name = rolling.start(stages=[100.0])
    rolling.rollouts.pause(name, who="ana", reason="wait")
    rolling.steps(name)
    assert rolling.states(name) == {}
    rolling.rollouts.resume(name, who="ana")
    rolling.steps(name)
    rolling.rollouts.abort(name, who="ana")

    assert rolling.asked() == []
    for change in (rolling.rollouts.pause, rolling.rollouts.resume, rolling.rollouts.abort):
        with pytest.raises(StorageError, match="is aborted"):
            change(name, who="ana")
    # who has begun goes on, and what it says is true
    assert rolling.says("dev-00", bundle=NEW) == [(name, "updated")]


def test_a_device_follows_one_rollout_at_a_time(rolling: Rolling) -> None:
    first = rolling.start()
    with pytest.raises(StorageError, match=first):
        rolling.start(NEWER)
    with pytest.raises(StorageError, match="is running"):
        rolling.start(NEXT_PACK)
    other = rolling.start(OTHER)  # for another board
    rolling.steps(first)

    second = rolling.start(NEWER, replacing=True)

    assert [rolling.rollouts.get(name).state for name in (first, other, second)] == ["replaced", "running", "running"]
    assert rolling.asked() == []
    rolling.steps(second)
    assert {row.rollout for row in rolling.rollouts.asked()} == {second}


def test_a_finished_rollout_makes_way_for_a_newer_one(rolling: Rolling) -> None:
    first, _ = rolling.begun(stages=[100.0])
    assert rolling.passes(first).state == "finished"

    rolling.start(NEWER)

    assert rolling.rollouts.get(first).state == "replaced"
    with pytest.raises(StorageError, match="did you mean"):
        rolling.rollouts.get(first[:-1])


def test_rollouts_for_two_labels_share_no_device_even_if_a_label_changes(rolling: Rolling) -> None:
    for device in rolling.names:
        rolling.store.devices.set_label(device, "kitchen", who="ana")
    first = rolling.start(label="kitchen", stages=[100.0])
    second = rolling.start(NEWER, label="hall", stages=[100.0])
    rolling.steps(first)
    rolling.store.devices.set_label("dev-00", "hall", who="ana")

    rolling.steps(second)

    assert [row.rollout for row in rolling.rollouts.asked() if row.device == "dev-00"] == [first]
    rolling.says("dev-00", rollout=first, bundle=NEW)
    rolling.steps(second)
    assert [row.rollout for row in rolling.rollouts.asked() if row.device == "dev-00"] == [second]


# -- a process that ends at any step

POINTS = [
    f"{when} {what}"
    for when in ("before", "after")
    for what in ("rollout devices", "rollout settled", label("running", "running"), label("running", "finished"))
]


def _whole_way(rolling: Rolling, name: str, rollouts: Rollouts | None = None) -> None:
    for _ in range(4):
        rolling.steps(name, 61, rollouts)
        rolling.answer(name)
        rolling.steps(name, 0, rollouts)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_coordinator_killed_at_any_step_goes_on(rolling: Rolling, place: Path | str, point: str) -> None:
    name = rolling.start(stages=[50.0, 100.0])
    doomed = killing(place, point)

    with pytest.raises(Killed):
        _whole_way(rolling, name, doomed)
    _whole_way(rolling, name)

    assert rolling.rollouts.get(name).state == "finished"
    assert rolling.states(name) == dict.fromkeys(rolling.names, "updated")
    assert len(rolling.store.journal.events(kind="updated")) == len(rolling.names)
    assert len(rolling.store.journal.events(kind="rollout stage")) == 1
    assert len(rolling.store.journal.events(kind="rollout finished")) == 1
    doomed._db.close()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("old", "new"), sorted(TRANSITIONS - {("running", "running"), ("running", "finished")}))
def test_a_change_cut_off_is_whole_or_was_not_made(
    rolling: Rolling, place: Path | str, old: RolloutState, new: RolloutState, when: str
) -> None:
    name, _ = rolling.begun(stages=[100.0])
    if old == "paused":
        rolling.rollouts.pause(name, who="ana")
    elif old == "finished":
        rolling.answer(name)
        rolling.steps(name)
        rolling.steps(name, 61)
    doomed = killing(place, f"{when} {'rollout started' if new == 'replaced' else label(old, new)}")

    with pytest.raises(Killed):
        _change(doomed, name, new)

    made = rolling.rollouts.get(name).state
    assert made == (new if when == "after" else old)
    if when == "before":
        _change(rolling.rollouts, name, new)
        assert rolling.rollouts.get(name).state == new
    doomed._db.close()


def _change(rollouts: Rollouts, name: str, new: RolloutState) -> None:
    if new == "paused":
        rollouts.pause(name, who="ana")
    elif new == "running":
        rollouts.resume(name, who="ana")
    elif new == "aborted":
        rollouts.abort(name, who="ana")
    else:
        rollouts.start([ROWS[1]], **{**START, "replacing": True})


# -- what hostile devices say


def rows(store: Store) -> Any:
    """Everything that a device's word could change."""
    listed = store.rollouts.listed(limit=10)
    return [listed, *(store.rollouts.whole(row.rollout)[1] for row in listed)]


@pytest.fixture
def attacked(either: Desk) -> tuple[Desk, str]:
    """A desk at which dev-a and dev-b are asked to update."""
    for name, key in (("dev-a", ANA), ("dev-b", BOB)):
        either.tell(key, name, "rel", release(name, fleet="f"))
    either.store.releases.mirror([replace(ROWS[0], fleet="f")], who="test")
    given = {**START, "stages": [100.0], "soak": 0.0}
    rollout = either.store.rollouts.start(either.store.releases.all(), **given)
    either.store.rollouts.step(rollout, 1e9, "f")
    either.heard.said.clear()
    return either, rollout


def test_a_device_speaks_for_itself_only(attacked: tuple[Desk, str]) -> None:
    desk, rollout = attacked
    before = rows(desk.store)

    desk.tell(ANA, "dev-b", "rel", release("dev-b", fleet="f", bundle=NEW, rollout=rollout))
    topic = TOPICS.up("dev-a", "rel")
    desk.give(topic, seal(ANA, topic, release("dev-b", fleet="f", bundle=NEW)))
    desk.tell(ANA, "dev-a", "rel", release("dev-a", fleet="cabin", bundle=NEW, rollout=rollout))

    assert rows(desk.store) == before
    assert desk.answers == []
    assert len(desk.heard.refusals) == 3


def test_a_rollout_that_is_unknown_or_not_ones_own_changes_nothing(attacked: tuple[Desk, str]) -> None:
    desk, rollout = attacked
    before = rows(desk.store)

    for name in ("", "r999-0000", rollout + "x", "'; DROP TABLE rollouts; --"):
        for state in ("fetching", "failed", "refused", "trial", "confirmed", "idle"):
            desk.tell(ANA, "dev-a", "rel", release("dev-a", fleet="f", rollout=name, state=state))

    assert rows(desk.store) == before


HOSTILE: dict[str, Any] = {
    "a huge reason": {"reason": "x" * 100_000},
    "a huge rollout": {"rollout": "r" * 10_000},
    "a number for a word": {"rollout": 7},
    "a board that escapes": {"board": "\x1b[2J"},
    "no identity": {"bundle": "../x"},
    "a state that is none": {"state": "updated"},
    "confirmed by a word": {"confirmed": "yes"},
    "no pack": {"pack": None},
    "a list": {"version": ["1"]},
}


def test_what_is_no_release_is_refused(attacked: tuple[Desk, str]) -> None:
    desk, rollout = attacked
    before = rows(desk.store)
    honest = msgspec.to_builtins(release("dev-a", fleet="f", bundle=NEW, rollout=rollout))
    topic = TOPICS.up("dev-a", "rel")

    for what, lie in HOSTILE.items():
        desk.give(topic, signed(ANA, topic, {**honest, **lie}))
        assert rows(desk.store) == before, what

    assert [code for _, code, _ in desk.heard.refusals] == ["schema"] * len(HOSTILE)
    desk.give(topic, signed(ANA, topic, honest))
    assert desk.answers == [("Release", "dev-a", f"{rollout}:updated")]


def test_a_reason_with_what_no_database_takes_is_kept_in_plain_text(attacked: tuple[Desk, str]) -> None:
    desk, rollout = attacked
    desk.tell(ANA, "dev-a", "rel", release("dev-a", fleet="f", rollout=rollout, state="failed", reason="a\0b"))

    assert desk.store.rollouts.whole(rollout)[1]["dev-a"].reason == "a?b"


def test_a_revoked_device_is_not_heard(attacked: tuple[Desk, str]) -> None:
    desk, rollout = attacked
    desk.store.devices.set_standing(["dev-a"], "revoked", who="ana")
    desk.inbox.reload()
    before = rows(desk.store)

    desk.tell(ANA, "dev-a", "rel", release("dev-a", fleet="f", rollout=rollout, bundle=NEW))

    assert rows(desk.store) == before


def test_the_mirror_follows_the_repository(rolling: Rolling) -> None:
    rolling.store.releases.mirror(ROWS[1:], who="ana")

    assert PATH not in [row.path for row in rolling.store.releases.all()]
    assert FLEET in {row.fleet for row in rolling.store.releases.all()}
    assert [row.detail for row in rolling.store.journal.events(kind="release removed")] == [PATH]
