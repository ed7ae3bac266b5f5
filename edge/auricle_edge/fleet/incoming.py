"""What a device believes of what arrives: signed by its coordinator, meant for it, and not said before."""

from __future__ import annotations

import logging
from collections import deque

from auricle.mqtt_link.link import Delivery
from auricle.wire.frames import open_frame
from auricle.wire.messages import Abort, Ack, CoordinatorState, Invite, Measure, Message, Model, Nothing, Target, Tune

log = logging.getLogger("auricle.edge")

REMEMBERED = 1024
"""Invitations of which a copy is recognised."""


class Incoming:
    """Opens messages, and remembers which epoch of the coordinator spoke and what it asked.

    Parameters
    ----------
    fleet, device
        Who is meant.
    coordinator
        Public key, 32 bytes; nobody else is obeyed.
    """

    def __init__(self, fleet: str, device: str, coordinator: bytes) -> None:
        self._fleet, self._device, self._key = fleet, device, coordinator
        self._epoch = 0
        self._boot = ""
        self._asked: deque[str] = deque(maxlen=REMEMBERED)
        """Nonces of invitations and questions: one that comes again was recorded by somebody, or is a redelivery."""

    def open(self, arrived: Delivery) -> Message:
        """The message; WireError when it is not one, or not the coordinator's."""
        message, _ = open_frame(arrived.payload, arrived.topic, lambda _: self._key)
        return message

    def heeds(self, message: Message) -> bool:
        """Whether a message to devices is to be acted on; from then on nothing of an older epoch is, nor a copy."""
        if message.device != self._device or message.fleet != self._fleet:
            return False
        if isinstance(message, Invite | Measure | Ack | Nothing | Abort | Target | Tune):
            if message.epoch < self._epoch:
                log.warning("%s: ignored a message of an older coordinator", self._device)
                return False
            self._epoch = message.epoch
        if isinstance(message, Invite | Measure | Target | Tune):
            if message.nonce in self._asked:
                log.warning("%s: ignored an invitation that came before", self._device)
                return False
            self._asked.append(message.nonce)
        return True

    def is_another_coordinator(self, message: Message) -> bool:
        """Whether the coordinator's state says that it started after the device heard of it last."""
        if not isinstance(message, CoordinatorState) or message.epoch < self._epoch:
            return False
        if not message.online or message.boot == self._boot:
            return False
        self._boot, self._epoch = message.boot, message.epoch
        return True

    def newest_model(self, message: Message) -> Model | None:
        """The fleet's model that a message names; None where it is another message, or of an older epoch."""
        return message if isinstance(message, Model) and message.epoch >= self._epoch else None
