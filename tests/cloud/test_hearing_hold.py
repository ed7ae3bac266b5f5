"""Rollouts and promotions that are held while devices hear worse, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cloud.hearing_reports import DAY, HOUR, approve, days_of, enter, report
from tests.cloud.rolling import NEW, Rolling

from auricle_cloud.operations.operating import ConflictError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.states.hearing_comparison import Evidence, Heard, hold_of
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store

FOUR = [f"dev-{number:02}" for number in range(4)]


def heard(complaints: int, hours: float, devices: int = 2) -> list[Heard]:
    return [Heard(name, complaints, hours) for name in FOUR[:devices]]


# -- the rule


def test_updated_devices_are_compared_with_themselves_before() -> None:
    fine = hold_of(Evidence(heard(12, 12.0), heard(12, 12.0), heard(0, 100.0)), 24)
    bad = hold_of(Evidence(heard(36, 12.0), heard(12, 12.0), heard(300, 100.0)), 24)

    assert fine is None
    assert bad is not None and bad.kind == "worse"
    assert "3 an hour (72 in 24 h of 2 devices), and of the same devices before it 1 an hour" in bad.reason


def test_without_enough_from_before_they_are_compared_with_the_others() -> None:
    bad = hold_of(Evidence(heard(36, 12.0), heard(36, 2.0), heard(12, 12.0)), 24)

    assert bad is not None and bad.kind == "worse"
    assert "devices without it 1 an hour" in bad.reason


@pytest.mark.parametrize(
    "evidence",
    [Evidence(), Evidence(heard(90, 11.9), heard(1, 12.0)), Evidence(heard(90, 12.0), heard(1, 3.0), heard(1, 3.0))],
    ids=["nobody reports", "not enough since", "nothing to compare with"],
)
def test_it_waits_for_enough_hours_on_both_sides(evidence: Evidence) -> None:
    hold = hold_of(evidence, 24)

    assert hold is not None and hold.kind == "waits"
    assert "24 h of each are needed" in hold.reason


# -- rollouts


class Told(Rolling):
    """Rollouts of devices that report their hearing."""

    def __init__(self, store: Store, devices: int = 4) -> None:
        super().__init__(store, devices)
        self.periods = dict.fromkeys(self.names, 1)

    def reports(self, names: list[str], hours: int, **said: int) -> None:
        """A report an hour of each of these, the last of them now."""
        for name in names:
            self.periods[name] = days_of(self.store, name, hours / 24, self.now, self.periods[name], **said)

    def begin(self, **changes: object) -> str:
        """A rollout of two stages that was held for nothing so far: half of the devices are updated."""
        name = self.start(NEW, stages=[50.0, 100.0], soak=60.0, hearing_hours=24.0, **changes)
        self.steps(name)
        self.answer(name)
        self.steps(name)
        return name


@pytest.fixture
def rolling(store: Store) -> Told:
    return Told(store)


def updated(rolling: Told, name: str) -> list[str]:
    return [device for device, state in rolling.states(name).items() if state == "updated"]


def test_a_stage_waits_for_reports_and_goes_on_when_they_are_no_worse(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.begin()

    row = rolling.steps(name, 61)
    assert (row.state, row.stage) == ("running", 0)
    assert row.reason.startswith("It waits for reports of hearing: 0 h of updated devices and 48 h of the same")
    sentences = Operations(rolling.store, Blobs(Path("/tmp")), "t").show_rollout(name).sentences
    assert "To go on without: pause it, and resume it." in sentences[-1]

    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=1)
    row = rolling.steps(name)
    assert (row.state, row.stage, row.reason) == ("running", 1, "")


@pytest.mark.slow
def test_a_stage_after_which_devices_are_told_more_often_that_they_were_wrong_pauses_the_rollout(
    rolling: Told,
) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.begin()
    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=2, missed=1)

    rolling.steps(name)
    row = rolling.steps(name, 61)
    assert (row.state, row.stage) == ("paused", 0)
    assert row.reason.startswith("Updated devices hear worse: people complained 3 an hour (72 in 24 h of 2 devices)")
    assert rolling.asked() == []

    rolling.rollouts.resume(name, who="ana")  # she has looked, and lets it pass
    rolling.steps(name)
    assert rolling.steps(name, 61).stage == 1


def test_resuming_to_ask_again_does_not_let_worse_hearing_pass(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.begin()
    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=3)
    rolling.steps(name)
    assert rolling.steps(name, 61).state == "paused"

    rolling.rollouts.resume(name, who="ana", retry=True)
    rolling.steps(name)
    assert rolling.steps(name, 61).state == "paused"


def test_devices_that_were_not_updated_stand_for_before_where_nothing_is_known_of_it(rolling: Told) -> None:
    name = rolling.begin()
    rolling.later += 25 * HOUR
    new = updated(rolling, name)
    rolling.reports([device for device in rolling.names if device not in new], 24, denied=1)
    rolling.reports(new, 24, denied=3)

    rolling.steps(name)
    row = rolling.steps(name, 61)
    assert row.state == "paused"
    assert "and of devices without it 1 an hour (48 in 48 h of 2 devices)" in row.reason


def test_a_rollout_that_was_not_to_be_held_is_not(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=0)
    name = rolling.start(NEW, stages=[50.0, 100.0], soak=60.0)
    rolling.steps(name)
    rolling.answer(name)
    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=20)

    rolling.steps(name)
    assert rolling.steps(name, 61).stage == 1


def test_the_last_stage_waits_for_no_report(store: Store) -> None:
    rolling = Told(store)
    name = rolling.start(NEW, stages=[100.0], soak=60.0, hearing_hours=24.0)
    rolling.steps(name)
    rolling.answer(name)
    rolling.steps(name)
    assert rolling.steps(name, 61).state == "finished"


def test_the_last_stage_pauses_too_when_devices_hear_worse(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.start(NEW, stages=[100.0], soak=60.0, hearing_hours=24.0)
    rolling.steps(name)
    rolling.answer(name)
    rolling.later += 13 * HOUR
    rolling.reports(rolling.names, 12, denied=3)

    rolling.steps(name)
    assert rolling.steps(name, 61).state == "paused"


# -- promotion


def test_a_version_with_which_devices_hear_worse_is_not_promoted(store: Store, tmp_path: Path) -> None:
    first, second = "a" * 64, "b" * 64
    store.models.begin("t", "c" * 64, first)
    with store.database.writing() as tx:
        store.models.add(tx, "t", second, optimizer=None, origin="round", number=1)
    approve(store, "dev-a")
    do = Operations(store, Blobs(tmp_path / "blobs"), "t")
    now = 1_800_000_000.0
    following = days_of(store, "dev-a", 1, now, base=second, denied=1)

    with pytest.raises(ConflictError, match="0 h with version 0 and 24 h with version 1, and 24 h of each"):
        do.promote_model(0, hearing_hours=24)
    following = days_of(store, "dev-a", 1, now + 2 * DAY, following, base=first, denied=3)
    with pytest.raises(ConflictError, match=r"version 0 hear worse: people complained 3 an hour \(72 in 24 h"):
        do.promote_model(0, hearing_hours=24)
    assert do.show_model(1).current

    assert do.promote_model(0).current  # without the condition
    assert do.promote_model(1, hearing_hours=24).current  # better than what is current
    assert do.promote_model(1, hearing_hours=24).current  # it is current
    assert enter(store, now + 9 * DAY, report(period=following)) is None
