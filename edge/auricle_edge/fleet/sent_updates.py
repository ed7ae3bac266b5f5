"""What left the device in rounds, counted before it leaves, and what its owner insists on."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import msgspec

from auricle.errors import SettingsError
from auricle.files import read_bytes, write_whole
from auricle.wire.kinds import UNDECODABLE
from auricle.wire.messages import Asked, Invite, Measure
from auricle.wire.plan import Plan
from auricle_edge.fleet.agent_context import Declined
from auricle_edge.fleet.sent_status import SentKind, SentStatus, SentUpdates
from auricle_learning.training.gaussian_epsilon import gaussian_epsilon
from auricle_learning.training.learn_settings import LearnSettings

log = logging.getLogger("auricle.edge")

FILE = "sent.json"
LARGEST_FILE = 4096
"""Bytes."""


class SentLedger:
    """Counts, and declines what the owner does not give away.

    Parameters
    ----------
    folder
        The device's folder, where the counts are kept.
    settings
        Table `[learn]`.
    durable
        The counts survive a power cut.
    """

    def __init__(self, folder: Path, settings: LearnSettings, *, durable: bool = True) -> None:
        self._path, self._settings, self._durable = folder / FILE, settings, durable
        self._sent: SentUpdates | None = None

    @property
    def status(self) -> SentStatus:
        """The counts; SettingsError where their file is damaged."""
        sent, settings = self._read(), self._settings
        epsilon = gaussian_epsilon(sent.precision, settings.delta)
        return SentStatus(
            **{name: getattr(sent, name) for name in sent.__struct_fields__},
            epsilon=epsilon if math.isfinite(epsilon) else None,
            delta=settings.delta,
            largest_epsilon=settings.largest_epsilon,
            require=settings.require,
        )

    def require(self, asked: Asked) -> None:
        """Declined where a round would give away what the owner does not.

        A loss that is measured is a figure of the device's own clips, which neither a sum nor noise covers.
        """
        settings = self._settings
        insists = settings.require is not None or settings.largest_epsilon is not None
        if insists and isinstance(asked, Measure):
            raise Declined(
                "The round measures the loss on this device's clips, which no secure sum and no noise covers: [learn] "
                "require and largest_epsilon do not allow it."
            )
        if not isinstance(asked, Invite):
            return
        if settings.require == "secure-sum" and not asked.plan.secure_sum:
            raise Declined('The round has no secure sum: [learn] require = "secure-sum" takes part in no other.')
        if settings.largest_epsilon is not None:
            self._require_noise(asked.plan, settings.largest_epsilon)

    def _require_noise(self, plan: Plan, largest: float) -> None:
        if not plan.noise or not plan.noise.deviation:
            raise Declined(f"The round has no noise: [learn] largest_epsilon = {largest:g} takes part in no other.")
        try:
            before = self._read().precision
        except SettingsError as error:
            raise Declined(f"How much privacy is left is not known: {error}") from error
        after = gaussian_epsilon(before + precision_of(plan), self._settings.delta)
        if after > largest:
            raise Declined(
                f"With this round epsilon would be {after:.4g} towards who sees this device's updates, and [learn] "
                f"largest_epsilon is {largest:g} (delta {self._settings.delta:g})."
            )

    def note(self, plan: Plan, number: int, length: int) -> None:
        """Count an update of `length` bytes that is about to leave; StorageError: the disk cannot take it."""
        try:
            sent = self._read()
        except SettingsError as error:
            log.warning("What left the device is counted from now on: %s", error)
            sent = SentUpdates()
        kind: SentKind = "masked sum" if plan.secure_sum else "noisy update" if plan.noise else "plain update"
        name = kind.split()[0]
        changed = msgspec.structs.replace(
            sent,
            **{name: getattr(sent, name) + 1},
            bytes=sent.bytes + length,
            last_round=number,
            last_kind=kind,
            precision=sent.precision + (precision_of(plan) if plan.noise and plan.noise.deviation else 0.0),
        )
        write_whole(self._path, msgspec.json.encode(changed), durable=self._durable, mode=0o600)
        self._sent = changed

    def _read(self) -> SentUpdates:
        if self._sent is None:
            if not self._path.exists():
                self._sent = SentUpdates()
                return self._sent
            try:
                self._sent = msgspec.json.decode(read_bytes(self._path, most=LARGEST_FILE), type=SentUpdates)
            except UNDECODABLE as error:
                raise SettingsError(
                    f"{self._path} does not hold what left the device: delete it to count from now on."
                ) from error
        return self._sent


def precision_of(plan: Plan) -> float:
    """1 / z^2 of the noise that a plan has a device add: z is its standard deviation, divided by 2 C."""
    assert plan.noise
    return (2 * plan.noise.clip / plan.noise.deviation) ** 2
