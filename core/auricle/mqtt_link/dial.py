"""How a connection is dialled, in a thread."""

from __future__ import annotations

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from auricle.errors import BrokerDistrustError, BrokerError, because
from auricle.mqtt_link.settings import BrokerAddress, LinkSettings

# Its own pool: a program that fills asyncio's with training or aggregation must not stop its links from reconnecting.
dialers = ThreadPoolExecutor(max_workers=16, thread_name_prefix="auricle-mqtt-connect")

UNKNOWN_AUTHORITY = (18, 19, 20, 21)
"""OpenSSL's X509_V_ERR codes of a certificate that no trusted authority signed."""
NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""What OpenSSL says of an answer that is not of TLS."""


def dial(settings: LinkSettings) -> Client:
    """Connect and send CONNECT; runs in a thread, on a client that has no callbacks yet.

    Raises
    ------
    BrokerError
        The broker cannot be reached; `BrokerDistrustError` where its certificate does not hold.
    """
    try:
        return _dial(settings)
    except (OSError, ValueError) as error:
        failed = _failure(settings.address, error)
    # Outside of the handler: the original traceback would keep the half-open socket until the next garbage collection.
    raise failed


def _failure(address: BrokerAddress, error: OSError | ValueError) -> BrokerError:
    """What it means that a connection could not be dialled."""
    reason = because(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _whom_to_trust(address) if error.verify_code in UNKNOWN_AUTHORITY else ""
        return BrokerDistrustError(f"the broker at {address} is not trusted: {reason}{hint}")
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return BrokerDistrustError(f"cannot reach the broker at {address}: {reason}: mqtts:// is for TLS alone")
    if address.tls and isinstance(error, ConnectionResetError):
        reason += ", as what does not speak TLS does"
    return BrokerError(f"cannot reach the broker at {address}: {reason}")


def _whom_to_trust(address: BrokerAddress) -> str:
    if address.ca is not None:
        return f": this side trusts {address.ca} alone, and auricle cloud enrol broker makes a certificate by it"
    return (
        ": this side trusts the authorities of its system alone; the fleet's comes with auricle edge claim, and on the "
        "coordinator's machine with auricle cloud enrol init"
    )


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
