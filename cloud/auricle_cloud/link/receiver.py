"""What passes the inbox, and who acts on it."""

from __future__ import annotations

from typing import Protocol

from auricle.wire.messages import DeviceState, Get, HearingReport, Loss, Register, Release, Status, Update
from auricle.wire.tensors import Flat
from auricle_cloud.states.verdict import Verdict


class Receiver(Protocol):
    """Who acts on messages that passed."""

    async def on_register(self, message: Register) -> None:
        """A device is known now."""

    async def on_presence(self, message: DeviceState) -> None:
        """A device came or went."""

    async def on_get(self, message: Get) -> None:
        """A device asks what is next."""

    async def on_status(self, message: Status) -> None:
        """A device says how it fares."""

    async def on_loss(self, message: Loss) -> None:
        """A device's inference loss."""

    async def on_update(self, update: Update, verdict: Verdict) -> None:
        """An update was counted or refused."""

    async def on_release(self, message: Release, changed: list[tuple[str, str]]) -> None:
        """A device says what it runs; its rollouts whose state for it changed, with that state."""

    async def on_hearing(self, message: HearingReport) -> None:
        """A device says how well it hears."""

    async def on_kept(self, device: str) -> None:
        """The broker had kept that a device is here, and nothing was heard of it yet."""

    async def on_taken(self, message: Register, reason: str) -> None:
        """Another board asks for the name of a registered one."""

    async def on_unregistered(self, device: str) -> None:
        """Somebody speaks who is not registered."""

    def base(self, sha256: str) -> Flat | None:
        """The model (P,) of this hash, if it is at hand."""

    def refused(self, device: str, code: str, detail: str) -> None:
        """A frame was refused; `code` is a word, `detail` the sentence."""
