"""Rounds for operators: seen, explained, started, aborted, scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from auricle.errors import StorageError
from auricle.process.times import how_many, time_zone
from auricle.wire.kinds import DeviceId
from auricle_cloud.operations.explanation import (
    explain,
    filter_by_outcome,
    involved,
    is_whole,
    privacy_of,
    secure_sum_of,
)
from auricle_cloud.operations.group_explanation import about_groups
from auricle_cloud.operations.operating import (
    ConflictError,
    NotFoundError,
    Operator,
    absent,
    as_answer,
    outcome_state,
    unknown,
)
from auricle_cloud.operations.round_answers import (
    Member,
    OutcomeFilter,
    RoundDetail,
    RoundPage,
    RoundRow,
    RoundWhy,
    ScheduleList,
    ScheduleRow,
    Started,
    Waiting,
)
from auricle_cloud.operations.types import At, Done, Idle, Limit, Mode, Name, Number, Reason, Rounds
from auricle_cloud.operations.waiting import (
    Wanted,
    begun_waits,
    none_planned,
    planned_waits,
    unfinished,
)
from auricle_cloud.states.report import read_report
from auricle_cloud.states.round import FINISHED
from auricle_cloud.states.selection import unfit
from auricle_cloud.storage import rows
from auricle_cloud.storage.cohort_report import report_with_cohort

if TYPE_CHECKING:
    from auricle_cloud.storage.database import Pulse

AT_A_GLANCE = 20
"""Devices of which an overview says why a round waits for them."""


class RoundOperations(Operator):
    """What operators can do with rounds."""

    def _found(self, number: int) -> rows.RoundRow:
        try:
            return self.store.rounds.get(self.task, number)
        except StorageError as error:
            newest = self.store.rounds.listed(self.task, limit=1)
            hint = f"The newest is round {newest[0].round}." if newest else "No round was planned yet."
            raise absent(error, hint) from error

    def _rows(self, found: Sequence[rows.RoundGlance]) -> list[RoundRow]:
        numbers = [row.round for row in found]
        tallies, losses = self._list.tallies(self.task, numbers), self._list.inference_losses(self.task, numbers)
        return [
            as_answer(RoundRow, row, **asdict(tallies[row.round]), inference_loss=losses.get(row.round))
            for row in found
        ]

    def _round(self, number: int) -> RoundRow:
        (row,) = self._rows([self._found(number)])
        return row

    def list_rounds(self, limit: Limit = 50, before: Number | None = None) -> RoundPage:
        """List rounds, the newest first."""
        found = self.store.rounds.listed(self.task, limit=limit + 1, before=before)
        shown = self._rows(found[:limit])
        return RoundPage(rounds=shown, next=shown[-1].round if len(found) > limit else None)

    def show_round(
        self, number: Number, limit: Limit = 1000, after: DeviceId | None = None, outcome: OutcomeFilter | None = None
    ) -> RoundDetail:
        """Show a round with its cohort, by device: all of it, or those who had this outcome."""
        found = self._found(number)
        if outcome is None:
            members = self._list.cohort(self.task, number, limit=limit + 1, after=after)
        else:
            cohort = self._list.cohort(self.task, number)
            wanted = set(filter_by_outcome(report_with_cohort(found, cohort), [row.device for row in cohort], outcome))
            members = [row for row in cohort if row.device in wanted and (after is None or row.device > after)]
        shown = [as_answer(Member, row, state=outcome_state(row)) for row in members[:limit]]
        made = self.store.models.of_round(self.task, number)
        kept = found.report or {}
        told = read_report({part: kept.get(part) for part in ("privacy", "secure_sum", "groups")})
        return RoundDetail(
            row=self._rows([found])[0],
            cohort=shown,
            next=shown[-1].device if len(members) > limit else None,
            model=None if made is None else made.version,
            detection=found.detection,
            privacy=privacy_of(told),
            secure_sum=secure_sum_of(told.secure_sum),
            groups=about_groups(told.groups),
            waiting=self._waiting(found),
        )

    def why_round(
        self,
        number: Number,
        device: DeviceId | None = None,
        limit: Limit = 1000,
        after: DeviceId | None = None,
        outcome: OutcomeFilter | None = None,
    ) -> RoundWhy:
        """Explain a round: why it has not begun or waits; who counted, with what weight, who was pruned, and why."""
        found = self._found(number)
        now: dict[str, str] = {}
        if not is_whole(found.report):
            return self._why_unfinished(found, device, limit, after, outcome)
        report = report_with_cohort(found, self._list.cohort(self.task, number))
        if device is not None:
            names, known = [device], self._list.known([device])
            now = {name: unfit(row, self._pack()) or "" for name, row in known.items()}
            if not known and device not in involved(report):
                raise NotFoundError(f'There is no device "{device}", and round {number} knew of none.')
        else:
            names = involved(report, passed_over=outcome == "not_invited")
        more = []
        if outcome is not None:
            names = filter_by_outcome(report, names, outcome)
            more = [f"{outcome.replace('_', ' ').capitalize()}: {how_many(len(names), 'device')}."]
        left = [name for name in names if after is None or name > after]
        said = explain(report, task=self.task, number=number, state=found.state, only=left[:limit], now=now)
        after = left[limit - 1] if len(left) > limit else None
        return replace(said, sentences=[*said.sentences, *more], next=after)

    def _waiting(self, found: rows.RoundRow) -> Waiting | None:
        """Why a round does not begin, or does not go on; None of a finished one."""
        if found.state in FINISHED:
            return None
        pulse = self.store.database.pulse()
        trouble = self._trouble(pulse)
        if found.state != "planned":
            cohort = self._list.cohort(self.task, found.round)
            known = self._list.known(row.device for row in cohort)
            return begun_waits(found.round, found.state, cohort, known, trouble)
        _, busy, _ = self._list.due(self.task)
        devices = self.store.devices.all()
        first = self._list.first_planned(self.task) or found.round
        return planned_waits(found.round, busy, first, devices, self._wanted(pulse), trouble)

    def _wanted(self, pulse: Pulse | None) -> Wanted:
        """What the coordinator's rounds ask of devices."""
        return Wanted(
            pack=self._pack(),
            needs=() if pulse is None else pulse.needs,
            fewest=1 if pulse is None else pulse.fewest,
            resting=self.store.rounds.resting(self.task),
            by_claim=self.store.claims.is_used(),
            tokens=len(self.store.claims.pending()),
        )

    def _why_none(self) -> list[str]:
        """Why no round has been planned or begun, in sentences."""
        pulse = self.store.database.pulse()
        trouble = self._trouble(pulse)
        scheduled = any(row.task == self.task for row in self.store.schedules.all())
        return none_planned(self.store.devices.all(), self._wanted(pulse), scheduled, trouble)

    def _waiting_of_fleet(self, busy: int | None) -> Waiting | None:
        """Why the round under way, or else the first that is planned, does not go on; its first few devices."""
        number = self._list.first_planned(self.task) if busy is None else busy
        waiting = None if number is None else self._waiting(self._found(number))
        return None if waiting is None else replace(waiting, devices=waiting.devices[:AT_A_GLANCE])

    def _why_unfinished(
        self, found: rows.RoundRow, device: str | None, limit: int, after: str | None, outcome: OutcomeFilter | None
    ) -> RoundWhy:
        waiting = self._waiting(found)
        if waiting is None:
            raise ConflictError(f"Round {found.round} of {self.task} is {found.state}: it has no report yet.")
        told = report_with_cohort(found, self._list.cohort(self.task, found.round))
        reasons = {one.device: one.reason for one in waiting.devices}
        names = sorted({*involved(told), *reasons})
        if device is not None and device not in names + list(reasons) and not self._list.known([device]):
            raise NotFoundError(f'There is no device "{device}", and round {found.round} knew of none.')
        names = names if device is None else [device]
        if outcome is not None:
            names = filter_by_outcome(told, names, outcome)
        left = [name for name in names if after is None or name > after]
        return RoundWhy(
            task=self.task,
            round=found.round,
            state=found.state,
            method=told.method,
            method_options=told.method_options,
            sentences=waiting.sentences,
            detection=None,
            privacy=privacy_of(told),
            secure_sum=secure_sum_of(told.secure_sum),
            devices=[unfinished(told, name, reasons.get(name)) for name in left[:limit]],
            next=left[limit - 1] if len(left) > limit else None,
        )

    def start_rounds(self, count: Rounds = 1, mode: Mode = "sync") -> Started:
        """Plan so many more rounds: the coordinator runs them one after the other."""
        with self._changing():
            planned = self.store.rounds.plan(self.task, count, mode=mode, who=self.who)
        return Started(trouble=self._trouble(), rounds=planned)

    def abort_round(self, number: Number, reason: Reason = "") -> RoundRow:
        """Ask the coordinator to abort a round that is not finished."""
        return self._request(number, "abort", reason)

    def resume_round(self, number: Number, reason: Reason = "") -> RoundRow:
        """Withdraw what was asked of a round, as long as the coordinator has not acted on it."""
        if self._found(number).request is None:
            raise ConflictError(f"Nothing was asked of round {number}: there is nothing to withdraw.")
        return self._request(number, None, reason)

    def _request(self, number: int, request: str | None, reason: str) -> RoundRow:
        self._found(number)
        with self._changing():
            self.store.rounds.request(self.task, number, request, who=self.who, reason=reason)
        return self._round(number)

    # -- schedules

    def list_schedules(self) -> ScheduleList:
        """List when rounds start automatically."""
        by, zone = self.store.rounds.planned_by(self.task), time_zone()
        return ScheduleList(
            schedules=[
                as_answer(ScheduleRow, row, last=by.get(f"schedule {row.name}"), zone=zone)
                for row in self.store.schedules.all()
            ]
        )

    def set_schedule(self, name: Name, at: At, idle: Idle = 1, rounds: Rounds = 1) -> ScheduleRow:
        """Start rounds by themselves, at `HH:MM` every day or `always`, when so many devices are idle."""
        with self._changing():
            self.store.schedules.set(name, task=self.task, at=at, idle=idle, rounds=rounds, who=self.who)
        return next(row for row in self.list_schedules().schedules if row.name == name)

    def remove_schedule(self, name: Name) -> Done:
        """Forget a schedule."""
        known = [row.name for row in self.list_schedules().schedules]
        if name not in known:
            raise unknown("schedule", name, known)
        with self._changing():
            self.store.schedules.remove(name, who=self.who)
        return Done(done=f"The schedule {name} is removed.")
