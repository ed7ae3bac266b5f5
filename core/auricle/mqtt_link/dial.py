"""How a connection is dialled, in a thread, and how long to wait before the next attempt."""

from __future__ import annotations

import asyncio
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from auricle.errors import BrokerError, because
from auricle.mqtt_link.settings import LinkSettings

# Its own pool: a program that fills asyncio's with training or aggregation must not stop its links from reconnecting.
dialers = ThreadPoolExecutor(max_workers=16, thread_name_prefix="auricle-mqtt-connect")

# A connection that did not live this long, in seconds, does not reset the waiting time: two clients with one id would
# otherwise throw each other out as fast as they can.
_STABLE = 10.0


class Backoff:
    """Full jitter: after n failures in a row a wait between 0 and `first * 2**(n-1)`, at most `cap`, seconds."""

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self.failures = 0

    def wait(self, lived: float) -> float:
        """Return the seconds to wait after a connection that lived this many (0 if it was never up)."""
        self.failures = 1 if lived > _STABLE else self.failures + 1
        return random.uniform(0.0, min(self._cap, self._first * 2 ** min(self.failures - 1, 16)))


def dial(settings: LinkSettings) -> Client:
    """Connect and send CONNECT; runs in a thread, on a client that has no callbacks yet.

    Raises
    ------
    BrokerError
        The broker cannot be reached.
    """
    try:
        return _dial(settings)
    except (OSError, ValueError) as error:
        reason = because(error)
        if settings.address.tls and isinstance(error, ConnectionResetError):
            reason += ", as what does not speak TLS does"
    # Outside of the handler: the original traceback would keep the half-open socket until the next garbage collection.
    raise BrokerError(f"cannot reach the broker at {settings.address}: {reason}")


def _dial(settings: LinkSettings) -> Client:
    address = settings.address
    client = _new_client(settings)
    context = address.tls_context()
    if context is not None:
        client.tls_set_context(context)
    username, password = address.credentials()
    if username is not None:
        client.username_pw_set(username, password)
    client.connect_timeout = settings.connect_timeout
    # paho notices a silent peer after two of its keepalives; 0.7 of ours makes that less than 1.5 of ours.
    keepalive = max(1, round(settings.keepalive * 0.7))
    if address.protocol == "5":
        properties = new_properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = settings.session_expiry
        properties.MaximumPacketSize = settings.max_packet_size
        client.connect(address.host, address.port, keepalive, clean_start=False, properties=properties)
    else:
        client.connect(address.host, address.port, keepalive)
    sock = cast("socket.socket | None", client.socket())
    if sock is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _new_client(settings: LinkSettings) -> Client:
    five = settings.address.protocol == "5"
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=settings.client_id,
        clean_session=None if five else False,
        protocol=MQTTv5 if five else MQTTv311,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    if settings.will is not None:
        will = settings.will
        properties = None
        if five:
            properties = new_properties(PacketTypes.WILLMESSAGE)
            properties.WillDelayInterval = will.delay
        client.will_set(will.topic, will.payload, will.qos, will.retain, properties)
    return client


def new_properties(kind: int) -> Properties:
    """Return an empty set of MQTT 5 properties for a packet type."""
    return Properties(kind)  # type: ignore[no-untyped-call]


def hang_up(dialled: asyncio.Future[Client]) -> None:
    """Close a connection that nobody waits for any more."""
    if not dialled.cancelled() and dialled.exception() is None:
        close(dialled.result())


def close(client: Client | None) -> None:
    """Close a client's socket without a word."""
    sock = None if client is None else client.socket()
    if sock is not None:
        sock.close()
