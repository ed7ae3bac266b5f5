"""Whether a broker takes a message of some size: a small one and a large one are sent, on a connection of their own.

A broker may announce its limit, refuse what is above it, end the connection, or drop the message without a word; the
last is only seen by who subscribes to the topic, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import MQTTErrorCode

from auricle.errors import BrokerError
from auricle.mqtt_link.dial import close, dial
from auricle.mqtt_link.settings import LinkSettings
from auricle.process.checkup import Verdict

TOO_LARGE = "raise message_size_limit and max_packet_size (mosquitto) or mqtt.max_packet_size (EMQX) in its settings"
SMALL_BYTES = 16
"""Bytes."""


def broker_takes(
    settings: LinkSettings, topic: str, size: int, *, comes_back: bool, seconds: float = 10.0
) -> tuple[Verdict, str]:
    """Whether the broker takes a message of `size` bytes, as the user of `settings`; it ends another such connection.

    Parameters
    ----------
    settings
        The broker, and who connects.
    topic
        Where nobody listens. One that the user may not write to serves as well: brokers look at the size first.
    size
        Bytes of the payload.
    comes_back
        Whether the user may read the topic as well: it is subscribed to, so that a message that is dropped is missed.
    seconds
        For each answer of the broker.

    Raises
    ------
    BrokerError
        The broker cannot be reached, or does not let this user in.
    """
    trial = _Trial(settings, topic, comes_back, seconds)
    try:
        return trial.run(size)
    finally:
        trial.close()


@dataclass
class _Trial:
    settings: LinkSettings
    topic: str
    comes_back: bool
    seconds: float
    admitted: str | None = None
    announced: int | None = None
    granted: bool = False
    answers: dict[int, str] = field(default_factory=dict)
    """What the broker said of each message, by packet id."""
    lengths: list[int] = field(default_factory=list)
    """Of the messages that came back."""
    ended: bool = False
    client: Client | None = None

    def run(self, size: int) -> tuple[Verdict, str]:
        """Connect and try; as of `broker_takes`."""
        address = self.settings.address
        self.client = client = dial(self.settings)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._came
        self._turn(lambda: self.admitted is not None)
        if self.admitted is None:
            raise BrokerError(f"The broker at {address} did not answer {self.settings.client_id}: look at its log.")
        if self.admitted != "Success":
            raise BrokerError(f"The broker at {address} does not let {self.settings.client_id} in: {self.admitted}.")
        if self.announced is not None and self.announced < size + len(self.topic) + 16:
            told = f"takes at most {self.announced} bytes, and the pack needs {size}"
            return "bad", f"The broker at {address} {told}: {TOO_LARGE}."
        if self.comes_back:
            client.subscribe(self.topic, 0)  # nothing is acknowledged here: one message would hold up the next
            self._turn(lambda: self.granted)
        small = self._publish(SMALL_BYTES)
        if small != "taken":
            return (
                "doubtful",
                f"The broker at {address} takes no message of {SMALL_BYTES} bytes: none of {size} was tried.",
            )
        large = self._publish(size)
        if large == "taken":
            sentence = f"The broker at {address} takes a message of {size} bytes."
            if self.comes_back or address.protocol == "5":
                return "good", sentence
            return "doubtful", f"{sentence} By MQTT 3.1.1 it might still drop it: auricle cloud preflight would see it."
        how = "drops, without a word," if large == "dropped" else "does not take"
        return "bad", f"The broker at {address} {how} a message of {size} bytes, which the pack needs: {TOO_LARGE}."

    def close(self) -> None:
        """End the connection, unless the broker did."""
        if self.client is not None and not self.ended:
            self.client.disconnect()
        close(self.client)

    def _publish(self, size: int) -> str:
        """`taken`, also by a broker that denies the topic; else what it did."""
        assert self.client is not None
        mid = self.client.publish(self.topic, bytes(size), qos=1).mid
        self._turn(lambda: mid in self.answers or self.ended)
        if self.ended:
            return "ended"
        answer = self.answers.get(mid, "silent")
        if answer == "taken" and self.comes_back:
            self._turn(lambda: size in self.lengths)
            return "taken" if size in self.lengths else "dropped"
        return answer

    def _turn(self, is_over: Callable[[], bool]) -> None:
        """Let the connection work until something holds, it is over, or took too long."""
        assert self.client is not None
        until = time.monotonic() + self.seconds
        while not (is_over() or self.ended) and time.monotonic() < until:
            # It also ends at mosquitto's "packet too large", which the library does not know of an acknowledgement.
            self.ended = self.client.loop(0.1) != MQTTErrorCode.MQTT_ERR_SUCCESS

    def _on_connect(self, _client: Client, _data: object, _flags: object, code: object, properties: object) -> None:
        self.admitted = str(code)
        self.announced = getattr(properties, "MaximumPacketSize", None)

    def _on_subscribe(self, *_: object) -> None:
        self.granted = True

    def _on_publish(self, _client: Client, _data: object, mid: int, code: object, *_: object) -> None:
        self.answers[mid] = "refused" if str(code) in ("Packet too large", "Quota exceeded") else "taken"

    def _came(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        self.lengths.append(len(message.payload))
