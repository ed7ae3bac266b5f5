"""The comparison of two rates, and rollouts and promotions that are held while devices hear worse."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.cloud.hearing_reports import DAY, HOUR, approve, days_of, enter, report
from tests.cloud.rolling import NEW, Rolling

from auricle_cloud.operations.operating import ConflictError
from auricle_cloud.operations.operations import Operations
from auricle_cloud.states.hearing_comparison import Evidence, Heard, compare, hold_of, rate_of, tail
from auricle_cloud.storage.blobs import Blobs
from auricle_cloud.storage.store import Store

FOUR = [f"dev-{number:02}" for number in range(4)]


def heard(complaints: int, hours: float, devices: int = 2) -> list[Heard]:
    return [Heard(name, complaints, hours) for name in FOUR[:devices]]


# -- the comparison: by hand, exactly, and against one device that shouts


@pytest.mark.parametrize(
    ("least", "trials", "share", "expected"),
    [
        *((3, 3, 0.5, 1 / 8), (2, 3, 0.5, 4 / 8), (1, 2, 0.25, 7 / 16), (2, 2, 0.25, 1 / 16)),
        *((0, 5, 0.3, 1.0), (3, 2, 0.5, 0.0), (1, 4, 0.0, 0.0), (4, 4, 1.0, 1.0)),
    ],
)
def test_the_tail_of_a_binomial_by_hand(least: int, trials: int, share: float, expected: float) -> None:
    assert tail(least, trials, share) == pytest.approx(expected)


def test_the_tail_is_the_exact_sum_of_whole_numbers_for_many_trials() -> None:
    trials = 400
    exact = sum(math.comb(trials, k) for k in range(230, trials + 1)) / 2**trials
    assert tail(230, trials, 0.5) == pytest.approx(exact, rel=1e-9)


def test_seven_complaints_after_none_in_the_same_time_are_no_chance_and_six_are_not_enough() -> None:
    """P = 1 / 2^7 = 0.0078 and 1 / 2^6 = 0.0156, against 0.01."""
    quiet = [Heard("dev-a", 0, 24.0)]
    assert compare([Heard("dev-a", 7, 24.0)], quiet).is_worse
    assert compare([Heard("dev-a", 7, 24.0)], quiet).probability == pytest.approx(1 / 128)
    assert not compare([Heard("dev-a", 6, 24.0)], quiet).is_worse


def test_the_same_rate_over_more_time_is_not_worse() -> None:
    compared = compare([Heard("dev-a", 40, 40.0)], [Heard("dev-b", 10, 10.0)])
    assert not compared.is_worse
    assert compared.after.an_hour == compared.before.an_hour == 1.0
    assert (compared.lacks(10.0), compared.lacks(10.25)) == (False, True)


def test_a_lower_rate_is_never_worse_nor_what_nobody_has_measured() -> None:
    assert not compare([Heard("dev-a", 0, 40.0)], [Heard("dev-a", 90, 10.0)]).is_worse
    assert not compare([Heard("dev-a", 400, 40.0)], []).is_worse
    assert not compare([], [Heard("dev-a", 4, 40.0)]).is_worse
    assert compare([], []).after.an_hour == 0.0


def test_of_several_devices_one_alone_cannot_make_a_rate_look_worse() -> None:
    before = [Heard(name, 2, 24.0) for name in ("dev-a", "dev-b", "dev-c")]
    calm = [Heard("dev-a", 2, 24.0), Heard("dev-b", 2, 24.0)]
    shouting = compare([*calm, Heard("dev-c", 480, 24.0)], before)
    assert shouting.probability < 1e-9
    assert not shouting.is_worse
    assert compare([Heard(each.device, each.complaints + 18, 24.0) for each in before], before).is_worse


def test_a_rate_in_words() -> None:
    assert "1.5 an hour (9 in 6 h of 2" in str(rate_of([Heard("dev-a", 6, 4.0), Heard("dev-b", 3, 2.0)]))
    assert "0 an hour (0 in 4 h of 1" in str(rate_of([Heard("dev-a", 0, 4.0), Heard("dev-b", 9, 0.0)]))


# -- the rule


def test_updated_devices_are_compared_with_themselves_before() -> None:
    fine = hold_of(Evidence(heard(12, 12.0), heard(12, 12.0), heard(0, 100.0)), 24)
    bad = hold_of(Evidence(heard(36, 12.0), heard(12, 12.0), heard(300, 100.0)), 24)
    assert fine is None
    assert bad is not None and bad.kind == "worse"
    assert "3 an hour (72 in 24 h of 2 devices)" in bad.reason and "before it 1 an hour" in bad.reason


@pytest.mark.parametrize(
    "evidence",
    [Evidence(), Evidence(heard(90, 11.9), heard(1, 12.0)), Evidence(heard(90, 12.0), heard(1, 3.0), heard(1, 3.0))],
    ids=["nobody reports", "not enough since", "nothing to compare with"],
)
def test_it_waits_for_enough_hours_on_both_sides(evidence: Evidence) -> None:
    hold = hold_of(evidence, 24)
    assert hold is not None and hold.kind == "waits" and "24 h" in hold.reason


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


@pytest.mark.slow
def test_a_stage_waits_for_reports_and_goes_on_when_they_are_no_worse(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.begin()

    row = rolling.steps(name, 61)
    assert (row.state, row.stage) == ("running", 0)
    assert "0 h of updated devices and 48 h" in row.reason

    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=1)
    row = rolling.steps(name)
    assert (row.state, row.stage, row.reason) == ("running", 1, "")


@pytest.mark.slow
def test_a_stage_after_which_devices_are_told_more_often_that_they_were_wrong_pauses_the_rollout(rolling: Told) -> None:
    rolling.reports(rolling.names, 24, denied=1)
    name = rolling.begin()
    rolling.later += 13 * HOUR
    rolling.reports(updated(rolling, name), 12, denied=2, missed=1)

    rolling.steps(name)
    row = rolling.steps(name, 61)
    assert (row.state, row.stage) == ("paused", 0)
    assert "3 an hour (72 in 24 h of 2 devices)" in row.reason
    assert rolling.asked() == []

    rolling.rollouts.resume(name, who="ana", retry=True)  # to ask again does not let it pass
    rolling.steps(name)
    assert rolling.steps(name, 61).state == "paused"
    rolling.rollouts.resume(name, who="ana")  # she has looked, and lets it pass
    rolling.steps(name)
    assert rolling.steps(name, 61).stage == 1


@pytest.mark.slow
def test_devices_that_were_not_updated_stand_for_before_where_nothing_is_known_of_it(rolling: Told) -> None:
    name = rolling.begin()
    rolling.later += 25 * HOUR
    new = updated(rolling, name)
    rolling.reports([device for device in rolling.names if device not in new], 24, denied=1)
    rolling.reports(new, 24, denied=3)

    rolling.steps(name)
    row = rolling.steps(name, 61)
    assert row.state == "paused"
    assert "1 an hour (48 in 48 h of 2 devices)" in row.reason


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


@pytest.mark.slow
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

    with pytest.raises(ConflictError, match="0 h with version 0 and 24 h with version 1"):
        do.promote_model(0, hearing_hours=24)
    following = days_of(store, "dev-a", 1, now + 2 * DAY, following, base=first, denied=3)
    with pytest.raises(ConflictError, match=r"3 an hour \(72 in 24 h"):
        do.promote_model(0, hearing_hours=24)
    assert do.show_model(1).current

    assert do.promote_model(0).current  # without the condition
    assert do.promote_model(1, hearing_hours=24).current  # better than what is current
    assert do.promote_model(1, hearing_hours=24).current  # it is current
    assert enter(store, now + 9 * DAY, report(period=following)) is None
