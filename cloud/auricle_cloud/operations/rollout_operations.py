"""Releases and rollouts for operators: seen, explained, started, paused, ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from auricle.errors import StorageError, closest
from auricle.wire.kinds import DeviceId, Token
from auricle_cloud.operations.operating import ConflictError, NotFoundError, Operator, absent, as_answer
from auricle_cloud.operations.rollout_answers import (
    DeviceInRollout,
    ReleaseList,
    ReleaseRow,
    RolloutDetail,
    RolloutPage,
    RolloutRow,
)
from auricle_cloud.operations.types import HearingHours, Label, Limit, Number, Reason
from auricle_cloud.ota.explanation import about_device, about_rollout
from auricle_cloud.states.rollout import DEVICE_STATES, DeviceState, Released

if TYPE_CHECKING:
    from auricle_cloud.storage import release_records

ReleaseName = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9._/-]{3,199}\Z", description="A path, or the beginning of an identity.")
]
ReleaseNames = Annotated[list[ReleaseName], Meta(min_length=1, max_length=64)]
Percent = Annotated[float, Meta(gt=0, le=100)]
Stages = Annotated[
    list[Percent], Meta(min_length=1, max_length=20, description="Rising percentages of the devices that match.")
]
Share = Annotated[float, Meta(ge=0, le=1)]
Minimum = Annotated[int, Meta(ge=1, le=1_000_000)]
Span = Annotated[float, Meta(ge=0, le=90 * 86400, description="Seconds.")]
Deadline = Annotated[float, Meta(ge=10, le=90 * 86400, description="Seconds.")]


class RolloutOperations(Operator):
    """What operators can do with releases and rollouts."""

    def list_releases(self) -> ReleaseList:
        """List what may be installed."""
        return ReleaseList(releases=[as_answer(ReleaseRow, row) for row in self.store.releases.all()])

    def list_rollouts(self, limit: Limit = 50, before: Number | None = None) -> RolloutPage:
        """List rollouts, the newest first."""
        found = self.store.rollouts.listed(limit=limit + 1, before=before)
        shown = self._rollout_rows(found[:limit])
        return RolloutPage(rollouts=shown, next=shown[-1].number if len(found) > limit else None)

    def _rollout_rows(self, found: Sequence[release_records.RolloutRow]) -> list[RolloutRow]:
        names = [row.rollout for row in found]
        tallies, targets = self.store.rollouts.tallies(names), self.store.rollouts.targets(names)
        zero: dict[str, int] = dict.fromkeys(DEVICE_STATES, 0)
        return [
            as_answer(
                RolloutRow,
                row,
                stage=row.stage + 1,
                targets=targets[row.rollout],
                **{**zero, **tallies[row.rollout]},
            )
            for row in found
        ]

    def _rollout(self, name: str) -> RolloutRow:
        try:
            found = self.store.rollouts.get(name)
        except StorageError as error:
            raise absent(error) from error
        return self._rollout_rows([found])[0]

    def show_rollout(
        self,
        rollout: Token,
        limit: Limit = 1000,
        after: DeviceId | None = None,
        state: DeviceState | None = None,
        device: DeviceId | None = None,
    ) -> RolloutDetail:
        """Show a rollout and explain its devices: all that are in, those of a state, or one in particular."""
        row = self._rollout(rollout)
        whole, members, devices = self.store.rollouts.whole(rollout)
        known = {each.name: each for each in devices}
        names = sorted(name for name, member in members.items() if state is None or member.state == state)
        if device is not None:
            self._require_device(device)
            names = [device]
        left = [name for name in names if after is None or name > after]
        said, shown = self.store.rollouts.installed(left[:limit]), []
        for name in left[:limit]:
            member, installed = members.get(name), said.get(name)
            shown.append(
                DeviceInRollout(
                    device=name,
                    state=None if member is None else member.state,
                    stage=None if member is None else member.stage + 1,
                    path=None if member is None else member.path,
                    runs=None if installed is None else installed.bundle or installed.pack,
                    version=None if installed is None else installed.version,
                    confirmed=installed is not None and installed.confirmed,
                    decided=None if member is None else member.decided,
                    sentences=about_device(whole, name, member, known.get(name), installed),
                )
            )
        return RolloutDetail(
            row=row,
            sentences=about_rollout(whole, members, devices, time.time()),
            devices=shown,
            next=left[limit - 1] if len(left) > limit else None,
        )

    def _require_device(self, name: str) -> None:
        try:
            self.store.devices.get(name)
        except StorageError as error:
            raise absent(error) from error

    def start_rollout(
        self,
        releases: ReleaseNames,
        label: Label | None = None,
        stages: Stages | None = None,
        errors: Share = 0.1,
        minimum: Minimum = 3,
        soak: Span = 600.0,
        deadline: Deadline = 3600.0,
        replace: bool = False,
        hearing_hours: HearingHours | None = None,
    ) -> RolloutRow:
        """Install releases on devices, stage by stage: one bundle for each board and system, or one pack."""
        percents = stages or [5.0, 25.0, 100.0]
        if any(b <= a for a, b in pairwise(percents)):
            raise ConflictError("stages: each has to be larger than the one before.")
        targets = [self._release(name) for name in dict.fromkeys(releases)]
        _require_distinct(targets)
        with self._changing():
            name = self.store.rollouts.start(
                targets,
                label=label,
                stages=percents,
                errors=errors,
                minimum=minimum,
                soak=soak,
                deadline=deadline,
                replacing=replace,
                who=self.who,
                hearing_hours=hearing_hours,
            )
        return self._rollout(name)

    def _release(self, name: str) -> Released:
        known = self.store.releases.all()
        found = [row for row in known if row.path == name or row.identity.startswith(name)]
        if not found:
            raise NotFoundError(f'There is no release "{name}": {_meant(name, known)}')
        if len(found) > 1:
            raise ConflictError(f'"{name}" begins several identities: write more of it, or a path.')
        return found[0]

    def pause_rollout(self, rollout: Token, reason: Reason = "") -> RolloutRow:
        """Ask no more devices, until it is resumed."""
        self._rollout(rollout)
        with self._changing():
            self.store.rollouts.pause(rollout, who=self.who, reason=reason)
        return self._rollout(rollout)

    def resume_rollout(self, rollout: Token, retry: bool = False) -> RolloutRow:
        """Go on with a paused rollout: forgive the errors so far, or ask their devices again."""
        self._rollout(rollout)
        with self._changing():
            self.store.rollouts.resume(rollout, who=self.who, retry=retry)
        return self._rollout(rollout)

    def abort_rollout(self, rollout: Token, reason: Reason = "") -> RolloutRow:
        """End a rollout: nobody is asked any more; devices that have begun continue on their own."""
        self._rollout(rollout)
        with self._changing():
            self.store.rollouts.abort(rollout, who=self.who, reason=reason)
        return self._rollout(rollout)


def _meant(name: str, known: Sequence[Released]) -> str:
    """Which releases somebody meant who named a version or a part of a path; else where they are listed."""
    meant = [row.path for row in known if name in (row.version, row.path.rpartition("/")[2])]
    if not meant and (near := closest(name, (row.path for row in known), 0.6)):
        meant = [near]
    return f"did you mean {' or '.join(meant)}?" if meant else "auricle cloud releases list shows what there is."


def _require_distinct(targets: Sequence[Released]) -> None:
    if len(targets) > 1 and any(target.kind == "pack" for target in targets):
        raise ConflictError("A rollout is of bundles or of one pack: start another one for the other.")
    places: dict[tuple[str, str], str] = {}
    for target in targets:
        place = (target.board, target.os)
        if place in places:
            raise ConflictError(f"{places[place]} and {target.path} are for the same devices: choose one.")
        places[place] = target.path
