"""What operators can do, on both databases: looking, page by page, and requests with their author."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import sqlalchemy as sa
from safetensors.numpy import load
from tests.cloud.filled_store import DEVICES, TASK, Filled, fill

from auricle.errors import SettingsError, StorageError
from auricle.wire.plan import InferenceLoss, Plan
from auricle.wire.tensors import decode
from auricle_cloud.api.remote import checked
from auricle_cloud.operations.operating import ConflictError, NotFoundError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.schema import rounds, updates
from auricle_cloud.storage.store import Store

ODD_LABELS = (
    *("a\nb", "kitchen\u202egnp.exe", "\u2066kitchen\u2069", "kitchen\u200b"),
    *("k\x9b2J", "\ufeffkitchen", "a\u2028b"),
)


@pytest.fixture
def filled(tmp_path: Path, place: Path | str) -> Iterator[Filled]:
    filled = fill(tmp_path, place)
    yield filled
    filled.store.close()


@pytest.fixture
def do(filled: Filled) -> Operations:
    return checked(filled.operations())


def test_the_overview_counts_what_there_is(do: Operations) -> None:
    seen = do.overview()

    assert (seen.devices, seen.online, seen.ready, seen.planned, seen.epoch) == (5, 5, 4, 1, 1)
    assert seen.standings == {"pending": 1, "approved": 4, "quarantined": 0, "revoked": 0}
    assert seen.under_way is not None and (seen.under_way.round, seen.under_way.state) == (2, "collecting")
    assert seen.last is not None and seen.last.round == 1
    assert seen.model is not None and (seen.model.version, seen.model.accuracy) == (1, 0.75)
    assert [event.detail for event in seen.alarms] == ["losses rose"]


def test_a_round_is_tallied_by_samples(do: Operations) -> None:
    row = do.show_round(1).row

    assert (row.invited, row.failed, row.counted, row.samples) == (4, 1, 2, 40)
    assert row.loss == pytest.approx((10 * 1.5 + 30 * 0.5) / 40)
    assert (row.plugin_accuracy, row.personal_accuracy) == (0.5, 0.75)


def test_a_device_that_says_many_held_out_clips_does_not_decide_the_accuracy(do: Operations, filled: Filled) -> None:
    """0.5 of one and 1.0 of the other are 0.75, whatever number of clips one of them says."""
    name, _ = sorted(update.device for update in do.show_round(1).cohort if update.samples)
    with filled.store.database.writing() as tx:
        lie = sa.update(updates).where(updates.c.device == name)
        tx.execute(lie.values(held_out=1 << 40, plugin_accuracy=1.0))

    assert do.show_round(1).row.plugin_accuracy == 0.75


@pytest.mark.parametrize("kind", ["ce", "l1"])
def test_a_round_and_a_devices_part_in_it_say_which_loss_theirs_is(
    do: Operations, filled: Filled, kind: InferenceLoss
) -> None:
    with filled.store.database.writing() as tx:
        plan = msgspec.msgpack.encode(Plan(inference_loss=kind))
        tx.execute(sa.update(rounds).where(rounds.c.round == 2).values(plan=plan))

    said = {row.round: row.inference_loss for row in do.list_rounds().rounds}
    assert said == {1: None, 2: kind, 3: None}  # round 1 is of a store without plans, and 3 has not begun
    assert {past.round: past.inference_loss for past in do.show_device(DEVICES[0]).history} == {1: None, 2: kind}


def test_pages_fit_together_and_end(do: Operations) -> None:
    def pages(ask: Callable[..., Any], told: str) -> list[list[Any]]:
        found = [ask(limit=2)]
        while found[-1].next is not None:
            found.append(ask(limit=2, **{told: found[-1].next}))
        return found

    rounds = [[row.round for row in page.rounds] for page in pages(do.list_rounds, "before")]
    devices = [[row.device for row in page.devices] for page in pages(do.list_devices, "after")]
    first = do.show_round(1, limit=3)
    events = do.list_events(limit=4)

    assert (rounds, devices) == ([[3, 2], [1]], [["dev-a", "dev-b"], ["dev-c", "dev-d"], ["dev-e"]])
    assert [m.device for m in first.cohort] == ["dev-a", "dev-b", "dev-c"] and first.next == "dev-c"
    assert [m.device for m in do.show_round(1, after=first.next).cohort] == ["dev-d"]
    assert {e.id for e in events.events}.isdisjoint(e.id for e in do.list_events(before=events.next).events)
    assert do.why_round(1, limit=2).next == "dev-b"
    assert [d.device for d in do.why_round(1, after="dev-b").devices] == ["dev-c", "dev-d"]


def test_a_device_has_its_history_refusals_and_events(do: Operations) -> None:
    seen = do.show_device("dev-b")

    history = [(past.round, past.state, past.counted_in) for past in seen.history]
    assert history == [(2, "invited", None), (1, "counted", 1)]
    assert [(r.code, r.count, r.detail) for r in seen.refusals] == [("schema", 3, "bad frame")]
    assert [event.kind for event in seen.events] == ["registered"]
    assert [past.round for past in do.show_device("dev-b", before=2).history] == [1]
    assert [row.device for row in do.list_devices(standing="pending").devices] == ["dev-e"]
    assert do.list_devices(online=False).devices == []
    assert [row.ineligible for row in do.list_devices().devices] == ["", "", "", "", "waits for an operator's approval"]


def test_devices_are_found_by_name_and_label_and_paged(filled: Filled, do: Operations) -> None:
    for device, label in (("dev-a", "Kitchen 50%"), ("dev-b", "Küche"), ("dev-c", "50 steps"), ("dev-d", "Küche")):
        do.label_device(device, label)

    def found(**wanted: Any) -> list[str]:
        return [row.device for row in do.list_devices(**wanted).devices]

    assert found(search="KITCH") == ["dev-a"] and found(search="v-C") == ["dev-c"]
    assert found(search="0%") == ["dev-a"] and found(search="_") == [] and found(search="'") == []
    assert found(search="Küche") == found(search="küche") == found(label="Küche") == ["dev-b", "dev-d"]
    assert found(label="") == ["dev-e"] and found(label="Kitchen") == []
    assert found(search="dev", standing="pending") == ["dev-e"] and found(search="dev", online=False) == []
    first = do.list_devices(limit=1, search="küche")
    assert first.next == "dev-b" and found(limit=1, search="küche", after=first.next) == ["dev-d"]


@pytest.mark.parametrize(
    ("number", "outcome", "devices"),
    [
        (1, "counted", ["dev-a", "dev-b"]),
        (1, "failed", ["dev-c"]),
        (1, "silent", ["dev-d"]),
        (1, "late", []),
        (1, "pruned", ["dev-b"]),
        (2, "silent", ["dev-a", "dev-b", "dev-c", "dev-d"]),
        (2, "counted", []),
    ],
)
def test_a_cohort_is_shown_by_how_its_devices_fared(
    do: Operations, number: int, outcome: Any, devices: list[str]
) -> None:
    assert [member.device for member in do.show_round(number, outcome=outcome).cohort] == devices
    if number == 1:
        said = do.why_round(1, outcome=outcome)
        assert [why.device for why in said.devices] == devices and f"{len(devices)} device" in said.sentences[-1]


def test_a_cohort_of_one_fate_is_paged(do: Operations) -> None:
    first = do.show_round(2, limit=3, outcome="silent")

    assert first.next == "dev-c"
    assert [member.device for member in do.show_round(2, after="dev-c", outcome="silent").cohort] == ["dev-d"]
    assert do.why_round(1, limit=1, outcome="counted").next == "dev-a"
    assert [why.device for why in do.why_round(1, after="dev-a", outcome="counted").devices] == ["dev-b"]


def test_standings_move_as_their_names_say_and_a_revoked_device_stays_so(do: Operations) -> None:
    assert do.approve_devices(["dev-e"], "known").devices == ["dev-e"]
    assert do.approve_devices(["dev-e"]).devices == []
    assert do.quarantine_devices(["dev-a", "dev-b"], "odd").devices == ["dev-a", "dev-b"]
    with pytest.raises(ConflictError, match="quarantine"):
        do.approve_devices(["dev-a"])
    assert do.release_device("dev-a", "well again").devices == ["dev-a"]
    assert do.release_devices(["dev-a"]).devices == []
    assert do.revoke_devices(["dev-b"]).standing == "revoked"
    for ask, whom in ((do.release_device, "dev-b"), (do.release_devices, ["dev-b"])):
        with pytest.raises(ConflictError, match="revoked"):
            ask(whom)  # type: ignore[operator]
    with pytest.raises(NotFoundError, match='did you mean "dev-a"'):
        do.quarantine_devices(["dev-c", "dev-aa"])
    assert do.show_device("dev-c").row.standing == "approved"
    assert do.show_device("dev-b").row.standing == "revoked"


def test_rounds_are_planned_aborted_and_taken_back(filled: Filled) -> None:
    woken: list[str] = []
    do = Operations(filled.store, filled.blobs, TASK, lambda: woken.append("up"), "alice")

    assert do.start_rounds(2, "async").rounds == [4, 5]
    assert do.abort_round(2, "power cut").request == "abort"
    assert do.resume_round(2).request is None
    with pytest.raises(ConflictError, match="already published"):
        do.abort_round(1)
    with pytest.raises(NotFoundError):
        do.abort_round(99)
    assert woken == ["up"] * 3
    assert {event.who for event in do.list_events(limit=3).events} == {"alice"}


def test_models_are_promoted_rolled_back_and_fetched(filled: Filled, do: Operations) -> None:
    assert do.rollback_model().version == 0
    with pytest.raises(ConflictError, match="no earlier one"):
        do.rollback_model()
    assert do.promote_model(1, "better").current
    assert [(row.version, row.current) for row in do.list_models().models] == [(1, True), (0, False)]

    table = filled.pack.plugin_table
    weights = decode(do.download_model(1, "raw").content, table.size)
    named = load(do.download_model(1).content)

    assert np.array_equal(weights, table.initial(0) + np.float32(0.5))
    assert list(named) and all(np.array_equal(named[s.name], table.tensor(weights, s.name)) for s in table.specs)
    assert do.download_model(1) == do.download_model(1)
    assert [entry.content for entry in filled.store.journal.outgoing()][-1] == {"version": 1}


def test_tokens_and_schedules_come_and_go(do: Operations, filled: Filled) -> None:
    made = do.create_token("bob", "operator", 1.5)
    assert made.token.startswith("auricle_")
    assert [(row.name, row.role) for row in do.list_tokens().tokens] == [("bob", "operator")]
    with pytest.raises(ConflictError, match="already a token"):
        do.create_token("bob", "viewer")
    assert "revoked" in do.revoke_token("bob").done
    with pytest.raises(NotFoundError, match="none exists yet"):
        do.revoke_token("bob")

    assert do.set_schedule("nightly", "02:30", 3, 2).idle == 3
    assert do.set_schedule("nightly", "always").at == "always"
    (row,) = do.list_schedules().schedules
    assert (row.name, row.last) == ("nightly", None)  # it was set, and has not run
    number = filled.store.rounds.plan(TASK, 2, who="schedule nightly")[1]
    filled.store.rounds.plan(TASK, 1, who="ana")
    (row,) = do.list_schedules().schedules
    assert row.last == filled.store.rounds.get(TASK, number).planned
    assert row.zone.startswith("UTC")
    assert do.remove_schedule("nightly").done
    with pytest.raises(NotFoundError):
        do.remove_schedule("nightly")


@pytest.mark.parametrize(
    ("operation", "values", "says"),
    [
        ("list_rounds", {"limit": 0}, "limit: .* >= 1"),
        ("list_rounds", {"limit": 1001}, "limit: .* <= 1000"),
        ("show_round", {"number": -1}, "number: .* >= 0"),
        ("show_round", {"number": 1, "outcome": "sillent"}, 'outcome: .* "silent"'),
        ("start_rounds", {"count": 10_001}, "count: .* <= 10000"),
        ("start_rounds", {"mode": "asnc"}, 'mode: .* "async"'),
        ("label_device", {"device": "dev-a"}, "label is missing"),
        *(("label_device", {"device": "dev-a", "label": label}, "label: .* one line") for label in ODD_LABELS),
        ("quarantine_devices", {"devices": ["dev-a"], "reason": "\u202e"}, "reason: .* one line"),
        ("approve_devices", {"devices": []}, "devices: .* >= 1"),
        ("approve_devices", {"devices": ["Dev A"]}, "devices: .* 4 to 64 small letters"),
        ("set_schedule", {"name": "a", "at": "25:00"}, "at: .* HH:MM"),
        ("create_token", {"name": "x", "role": "king"}, "role: .* admin, operator, viewer"),
        ("overview", {"colour": "red"}, 'parameter "colour"'),
        ("list_devices", {"serach": "x"}, 'parameter "serach"; did you mean "search"'),
    ],
)
def test_values_that_are_not_allowed_are_refused_with_what_would_be(
    tmp_path: Path, migrated_file: Path, operation: str, values: dict[str, object], says: str
) -> None:
    store = Store(migrated_file)
    with pytest.raises(SettingsError, match=says):
        getattr(checked(Operations(store, Blobs(tmp_path), TASK)), operation)(**values)
    store.close()


def test_labels_of_any_script_are_taken(filled: Filled, do: Operations) -> None:
    for label in ("Küche 50 %", "مطبخ", "می‌خواهم", "厨房", "👨‍👩‍👧 room", "a b"):
        assert checked(do).label_device(device="dev-a", label=label).label == label


def test_an_empty_database_is_told_of_without_a_fault(tmp_path: Path, place: Path | str) -> None:
    store = Store(place)
    do = Operations(store, Blobs(tmp_path), TASK)

    seen = do.overview()
    assert (seen.devices, seen.model, seen.under_way, seen.last, seen.pack) == (0, None, None, None, None)
    assert do.list_rounds().rounds == [] and do.list_models().models == [] and do.list_devices().devices == []
    with pytest.raises(NotFoundError, match="no coordinator has begun"):
        do.rollback_model()
    store.close()


def test_a_failing_database_is_no_conflict(tmp_path: Path) -> None:
    filled = fill(tmp_path)
    with filled.store.database.writing() as tx:
        tx.exec_driver_sql("DROP TABLE schedules")

    with pytest.raises(StorageError) as caught:
        filled.operations().list_schedules()
    assert not isinstance(caught.value, (NotFoundError, ConflictError))
    filled.store.close()
