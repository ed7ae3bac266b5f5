"""Devices for operators: seen, named, let in, kept out."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from auricle.errors import StorageError
from auricle.wire.kinds import DeviceId, Sensitivity
from auricle_cloud.operations.device_answers import (
    Changed,
    DeviceDetail,
    DeviceLog,
    DevicePage,
    DeviceRow,
    EventPage,
    EventRow,
    Invited,
    PersonalModel,
    Refused,
    Tuned,
)
from auricle_cloud.operations.operating import ConflictError, NotFoundError, Operator, absent, as_answer, outcome_state
from auricle_cloud.operations.types import Done, Id, Label, Limit, Names, Number, Reason, Search
from auricle_cloud.ota.explanation import what_it_runs
from auricle_cloud.states.attendance import broken_devices, not_in_quorum, rounds_back
from auricle_cloud.states.learning import FAR_ROUNDS, learnt
from auricle_cloud.states.selection import unfit
from auricle_cloud.storage import rows
from auricle_cloud.storage.rows import STANDINGS, Standing


class DeviceOperations(Operator):
    """What operators can do with devices, and what happened."""

    def list_events(
        self, limit: Limit = 100, before: Id | None = None, device: DeviceId | None = None, kind: Reason | None = None
    ) -> EventPage:
        """List what happened, the newest first."""
        found = self.store.journal.events(device=device, kind=kind, limit=limit + 1, before=before)
        shown = [as_answer(EventRow, row) for row in found[:limit]]
        return EventPage(events=shown, next=shown[-1].id if len(found) > limit else None)

    def _device(self, name: str) -> rows.DeviceRow:
        try:
            return self.store.devices.get(name)
        except StorageError as error:
            raise absent(error) from error

    def list_devices(
        self,
        limit: Limit = 100,
        after: DeviceId | None = None,
        standing: Standing | None = None,
        online: bool | None = None,
        label: Label | None = None,
        search: Search | None = None,
    ) -> DevicePage:
        """List devices by name: all, or those of a standing, presence or label, or that a search finds."""
        found = self._list.devices(
            limit=limit + 1, after=after, standing=standing, online=online, label=label, search=search
        )
        shown = self._device_rows(found[:limit])
        return DevicePage(trouble=self._trouble(), devices=shown, next=shown[-1].device if len(found) > limit else None)

    def show_device(self, device: DeviceId, limit: Limit = 50, before: Number | None = None) -> DeviceDetail:
        """Show a device with its invitations, refusals and events, the newest first."""
        row = self._device(device)
        history = self._list.history(self.task, device, limit=limit + 1, before=before)
        losses = self._list.inference_losses(self.task, [past.round for past in history[:limit]])
        shown = [
            as_answer(Invited, past, state=outcome_state(past), inference_loss=losses.get(past.round))
            for past in history[:limit]
        ]
        log = self.device_logs(device, limit=min(limit, 50))
        return DeviceDetail(
            row=self._device_rows([row])[0],
            learning=self._learnt(device),
            runs=what_it_runs(self.store.rollouts.installed([device]).get(device)),
            personal=self._personal(device),
            history=shown,
            next=shown[-1].round if len(history) > limit else None,
            refusals=log.refusals,
            events=log.events,
        )

    def _learnt(self, device: str) -> str:
        """Whether the rounds that it was in helped on its own held-out clips."""
        newest = self.store.rounds.newest(self.task)
        if newest is None:
            return ""
        first = max(1, newest.round - FAR_ROUNDS + 1)
        held = self.store.updates.held_out(self.task, first, newest.round, device)
        found = learnt([] if held is None else [held])
        return "" if found is None else found.sentence(f"rounds {first} to {newest.round}")

    def _personal(self, device: str) -> PersonalModel | None:
        """The model of a device's own that belongs to the current model."""
        current = self._list.current().get(self.task)
        own = {} if current is None else self.store.personal.of(self.task, current)
        if device not in own:
            return None
        found = own[device]
        same = sum(row.blob == found.blob for row in own.values()) - 1
        return PersonalModel(round=found.round, group=found.cluster, blob=found.blob, shared_with=same)

    def device_logs(self, device: DeviceId, limit: Limit = 100, before: Id | None = None) -> DeviceLog:
        """Show what is known of a device's doings: events, the newest first, and refused frames."""
        self._device(device)
        page = self.list_events(limit=limit, before=before, device=device)
        refused = [as_answer(Refused, row) for row in self.store.devices.refusals(device)]
        return DeviceLog(device=device, events=page.events, next=page.next, refusals=refused)

    def label_device(self, device: DeviceId, label: Label) -> DeviceRow:
        """Give a device a name for people."""
        self._device(device)
        with self._changing():
            self.store.devices.set_label(device, label, who=self.who)
        return self._device_rows([self._device(device)])[0]

    def forget_device(self, device: DeviceId, reason: Reason = "") -> Done:
        """Forget a device that has left: it is in no list any more; rounds that it was in stay as they were."""
        self._device(device)
        with self._changing():
            self.store.devices.forget(device, who=self.who, reason=reason)
        return Done(done=f"{device} is forgotten. If it comes back, it registers again and waits for approval.")

    def set_sensitivity(
        self, sensitivity: Sensitivity, devices: Names | None = None, label: Label | None = None, reason: Reason = ""
    ) -> Tuned:
        """Make devices hear more (above 0) or less: those named, or all that have a label now."""
        if (devices is None) == (label is None):
            raise ConflictError("Name devices, or a label: one of them.")
        names = sorted(set(devices)) if devices is not None else self.store.devices.of_label(label or "")
        if not names:
            raise NotFoundError(f'No device has the label "{label}".')
        known = [self._device(name) for name in names]
        with self._changing():
            self.store.devices.set_sensitivity(names, sensitivity, who=self.who, reason=reason)
        refusing = [row.device for row in known if row.sensitivity_now is None]
        return Tuned(devices=names, sensitivity=sensitivity, refusing=refusing)

    def approve_devices(self, devices: Names, reason: Reason = "") -> Changed:
        """Let devices that wait for approval take part."""
        return self._stand(devices, "approved", ("pending", "approved"), "in quarantine: release it instead", reason)

    def release_device(self, device: DeviceId, reason: Reason = "") -> Changed:
        """Let a quarantined device take part again."""
        return self.release_devices([device], reason)

    def release_devices(self, devices: Names, reason: Reason = "") -> Changed:
        """Let quarantined devices take part again, all or none of them."""
        return self._stand(devices, "approved", ("quarantined", "approved"), "not in quarantine: approve it", reason)

    def quarantine_devices(self, devices: Names, reason: Reason = "") -> Changed:
        """Keep devices out of rounds until they are released."""
        return self._stand(devices, "quarantined", STANDINGS, "", reason)

    def revoke_devices(self, devices: Names, reason: Reason = "") -> Changed:
        """Believe devices' keys never again."""
        return self._stand(devices, "revoked", STANDINGS, "", reason)

    def _stand(self, names: Names, standing: Standing, of: tuple[str, ...], else_: str, reason: str) -> Changed:
        for name in names:
            if self._device(name).standing not in (*of, "revoked"):
                raise ConflictError(f"{name} is {else_}.")
        with self._changing():
            changed = self.store.devices.set_standing(names, standing, who=self.who, reason=reason)
        return Changed(devices=changed, standing=standing)

    def _device_rows(self, found: Sequence[rows.DeviceRow]) -> list[DeviceRow]:
        pack, broken = self._pack(), self._broken([row.device for row in found if row.standing == "approved"])
        return [
            as_answer(
                DeviceRow,
                row,
                public_key=bytes(row.public_key).hex(),
                ineligible=unfit(row, pack) or "",
                not_in_quorum=not_in_quorum(broken[row.device]) if row.device in broken else "",
            )
            for row in found
        ]

    def _broken(self, names: Collection[str]) -> dict[str, int]:
        """Who of these devices would not count for the next round's quorum, and after how many rounds running."""
        newest = self.store.rounds.newest(self.task)
        if newest is None:
            return {}
        known, invited = self.store.devices.how_many(), len(self.store.rounds.invited(self.task, newest.round))
        return broken_devices(
            self.store.attendance.nothing(self.task, newest.round + 1, names, rounds_back(known, invited))
        )
