"""What operators can do: looking, and requests that the coordinator acts on. Everything is a row in the database.

The same operations serve the HTTP API inside the coordinator's process and the command line on a state folder,
while a coordinator runs or none does. `routes.ROUTES` lists them; their signatures say what they take.
"""

from __future__ import annotations

from msgspec import field

from auricle.errors import refuse_misfits_of
from auricle.process.times import Time
from auricle_cloud.operations.device_answers import EventRow
from auricle_cloud.operations.device_operations import DeviceOperations
from auricle_cloud.operations.enrolment_operations import EnrolmentOperations
from auricle_cloud.operations.hearing_operations import HearingOperations
from auricle_cloud.operations.model_operations import ModelOperations, ModelRow
from auricle_cloud.operations.operating import as_answer, unknown
from auricle_cloud.operations.rollout_operations import RolloutOperations
from auricle_cloud.operations.round_answers import DeviceWaits, RoundRow, Waiting
from auricle_cloud.operations.round_operations import RoundOperations
from auricle_cloud.operations.types import Answer, Days, Done, Name
from auricle_cloud.states.attendance import not_in_quorum
from auricle_cloud.states.outcome import OUTCOMES
from auricle_cloud.storage.access_rows import Role
from auricle_cloud.storage.rows import STANDINGS, Standing

ALARMS = (
    *("alarm", "verdict", "repair", "loss set aside", "conflict", "quarantined", "rolled back", "rollout paused"),
    "backup failed",
    *(of.event for of in OUTCOMES.values() if of.event),
)
"""Kinds of events that an operator should not miss."""

MOST_DEVICES = 20
"""Devices that are named one by one."""

BY_ITSELF = ("", "policy", "devices", "serve")
"""Who causes an alarm: what an operator did is no news to him."""


class Overview(Answer, frozen=True, kw_only=True):
    """The fleet at a glance."""

    trouble: list[str]
    """Why nothing can happen now: no coordinator works on the state, or it is not connected to its broker."""
    task: str
    pack: str | None
    epoch: int
    """How often a coordinator has started."""
    devices: int
    online: int
    ready: int
    """Approved, online, and willing to train."""
    standings: dict[Standing, int]
    under_way: RoundRow | None
    last: RoundRow | None
    """The newest finished round."""
    planned: int
    """Rounds that wait."""
    waiting: Waiting | None
    """Why the round under way, or else the first that is planned, does not go on; its first few devices."""
    why_none: list[str] = field(default_factory=list)
    """Where no round was ever planned: that it is so, and why none starts."""
    model: ModelRow | None
    learning: str
    """Whether rounds helped, as it was said after the last ten of them; nothing where it was not."""
    not_in_quorum: list[DeviceWaits]
    """Devices of which rounds running brought nothing that counts; the first few."""
    alarms: list[EventRow]


class TokenRow(Answer, frozen=True, kw_only=True):
    """Who may use the API."""

    name: str
    role: Role
    created: Time
    expires: Time | None


class TokenList(Answer, frozen=True, kw_only=True):
    """All tokens; what they are is known to their holders only."""

    tokens: list[TokenRow]


class TokenMade(Answer, frozen=True, kw_only=True):
    """A new token: it is never shown again."""

    name: str
    role: Role
    token: str


class Me(Answer, frozen=True, kw_only=True):
    """Whose token this is."""

    name: str
    role: Role


@refuse_misfits_of
class Operations(
    RoundOperations, DeviceOperations, ModelOperations, RolloutOperations, HearingOperations, EnrolmentOperations
):
    """Everything that an operator can do; see `Operator` for what it is made of."""

    def overview(self) -> Overview:
        """Show the fleet at a glance."""
        counts, current = self._list.standings(), self._list.current().get(self.task)
        planned, busy, last = self._list.due(self.task)
        online = [row for row in counts if row.online]
        broken = self._broken(self.store.devices.approved())
        return Overview(
            trouble=self._trouble(),
            task=self.task,
            pack=self._pack() or None,
            epoch=self._list.epoch(),
            planned=planned,
            waiting=self._waiting_of_fleet(busy),
            why_none=[] if planned or last is not None or busy is not None else self._why_none(),
            devices=sum(row.devices for row in counts),
            online=sum(row.devices for row in online),
            ready=sum(r.devices for r in online if (r.standing, r.gate) == ("approved", "train")),
            standings={name: sum(r.devices for r in counts if r.standing == name) for name in STANDINGS},
            under_way=None if busy is None else self._round(busy),
            last=None if last is None else self._round(last),
            learning=next((row.detail for row in self._list.events(("learning",), 1, by=("",))), ""),
            model=None if current is None else self.show_model(current),
            not_in_quorum=[
                DeviceWaits(device=name, reason=not_in_quorum(rounds))
                for name, rounds in [*broken.items()][:MOST_DEVICES]
            ],
            alarms=[as_answer(EventRow, row) for row in self._list.events(ALARMS, 10, by=BY_ITSELF)],
        )

    def list_tokens(self) -> TokenList:
        """List who may use the API."""
        return TokenList(tokens=[as_answer(TokenRow, row) for row in self.store.tokens.all()])

    def create_token(self, name: Name, role: Role, days: Days | None = None) -> TokenMade:
        """Make a token for the API; it is shown once."""
        with self._changing():
            token = self.store.tokens.create(name, role, days=days, who=self.who)
        return TokenMade(name=name, role=role, token=token)

    def revoke_token(self, name: Name) -> Done:
        """Make a token worthless."""
        known = [row.name for row in self.list_tokens().tokens]
        if name not in known:
            raise unknown("token", name, known)
        with self._changing():
            self.store.tokens.revoke(name, who=self.who)
        return Done(done=f"The token {name} is revoked.")
