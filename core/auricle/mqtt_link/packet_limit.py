"""Which packets a broker takes: what it announces, and what it shows where it announces nothing.

MQTT 5 brokers may announce a maximum in CONNACK; others, and all of MQTT 3.1.1, end the connection when a packet is
above theirs. Sent again after every reconnect, such a packet would keep all others from going out, for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from auricle.errors import MessageTooLargeError

ENDINGS_CONNECTIONS = 2
"""Connections that a packet has to end before it is given up: one may be anybody's fault."""
SOON_SECONDS = 30.0
"""Seconds after it was sent within which a broker ends a connection for a packet: it reads the length first."""
REMEMBERED_SECONDS = 600.0
"""Seconds for which packets as large as one that was given up are not tried again: a broker's settings may change."""


class PacketLimit:
    """The largest packet that one broker takes, as far as a link knows.

    Parameters
    ----------
    largest
        Bytes that the link itself allows.
    monotonic
        Seconds of a clock that never goes back.
    """

    def __init__(self, largest: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._announced, self._monotonic = largest, monotonic
        self._taken = 0
        self._refused: tuple[int, float] | None = None
        self._suspect: tuple[int, int] | None = None

    def announce(self, largest: int) -> None:
        """The broker has accepted a connection, and takes packets of so many bytes as it says."""
        self._announced = largest

    def note_taken(self, size: int) -> None:
        """The broker has acknowledged a packet of so many bytes."""
        self._taken = max(self._taken, size)
        if self._suspect is not None and self._suspect[0] <= size:
            self._suspect = None
        if self._refused is not None and self._refused[0] <= size:
            self._refused = None

    def note_absent(self) -> None:
        """No connection could be had: what ended the last one was the broker's own end, not a packet.

        It may come back with other settings, so that what it has taken says no more what it takes.
        """
        self._suspect, self._taken = None, 0

    def suspects(self, size: int) -> bool:
        """Whether a packet of so many bytes has ended a connection, so that it has to be sent alone."""
        return self._suspect is not None and size >= self._suspect[0]

    def note_ended(self, size: int, sent: float) -> bool:
        """The broker ended a connection on which this was the largest packet on its way; True: it is given up.

        Parameters
        ----------
        size
            Bytes of the packet.
        sent
            When it was sent, by the clock of this limit.
        """
        if size <= self._taken or self._monotonic() - sent > SOON_SECONDS:
            return False
        before = self._suspect[1] if self._suspect is not None and self._suspect[0] == size else 0
        self._suspect = (size, before + 1)
        if before + 1 < ENDINGS_CONNECTIONS:
            return False
        self._suspect, self._refused = None, (size, self._monotonic())
        return True

    def require(self, topic: str, size: int) -> None:
        """Refuse what the broker does not take.

        Parameters
        ----------
        topic
            Where it would be published.
        size
            Bytes of the packet.

        Raises
        ------
        MessageTooLargeError
            It is above what the broker announces, or as large as one that was given up a short time ago.
        """
        if size > self._announced:
            raise MessageTooLargeError(
                f"{topic}: a packet of {size} bytes is above the broker's maximum of {self._announced}: raise "
                "max_packet_size (mosquitto) or mqtt.max_packet_size (EMQX) in its settings"
            )
        if self._refused is None or size < self._refused[0]:
            return
        if self._monotonic() - self._refused[1] > REMEMBERED_SECONDS:
            self._refused = None
            return
        raise self.given_up(topic, size)

    def given_up(self, topic: str, size: int) -> MessageTooLargeError:
        """What is said of a packet that ended the connection each time it was sent."""
        known = f", and has taken {self._taken}" if self._taken else ""
        return MessageTooLargeError(
            f"{topic}: the broker ends the connection whenever it is sent a packet of {size} bytes{known}: raise its "
            "limit (max_packet_size of mosquitto, mqtt.max_packet_size of EMQX) to 131072 or more"
        )


def too_large(topic: str, size: int) -> MessageTooLargeError:
    """What is said of a packet that the broker answers with MQTT 5's "packet too large"."""
    return MessageTooLargeError(
        f"{topic}: the broker takes no message of {size} bytes: raise its limit (message_size_limit of mosquitto, "
        "mqtt.max_packet_size of EMQX) to 131072 or more"
    )
