"""The outputs that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import msgspec

from auricle.errors import SettingsError
from auricle.files import read_text
from auricle.mqtt_link.private_link import is_loopback
from auricle.mqtt_link.settings import BrokerAddress
from auricle_edge.listening.events.announced import Announced
from auricle_edge.listening.events.home_device import HomeDevice
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.hook import Hook
from auricle_edge.listening.events.one_answer import OneAnswer
from auricle_edge.listening.events.outputs import EventSettings, Output
from auricle_edge.listening.events.stdout import Stdout
from auricle_edge.listening.events.wyoming import WyomingService, wyoming_place
from auricle_edge.listening.events.wyoming_client import Spotter
from auricle_edge.listening.sound import Feedback


@dataclass(frozen=True)
class Device:
    """What outputs may know of the device that they speak for."""

    name: str
    words: Sequence[str]
    """What a person can say to it: the wake words, or every keyword where there are none."""
    model: str
    """Name of its pack."""
    spotter: Callable[[], Spotter]
    """Makes a detector for sound of somebody else."""
    answer: Callable[[Feedback], Future[msgspec.Struct]]
    """Takes confirm, deny and missed from a person."""
    token: Callable[[], str]
    """What answers over the home's broker have to carry."""
    readable: bool = False
    """Whether standard output is read by a person."""
    home: HomeDevice | None = None
    """What the home's broker is told of it, where the settings want that."""
    folder: Path | None = None
    """Where is kept what the home's broker was told; None: nowhere."""


def choose_outputs(events: EventSettings, device: Device) -> list[Output]:
    """Make them; SettingsError where a setting cannot work."""
    require_asked(events)
    outputs: list[Output] = []
    if events.stdout:
        outputs.append(Stdout(device.name, readable=device.readable))
    if events.hook:
        outputs.append(Hook(events.hook, events.hook_seconds, device.name))
    if events.mqtt is not None:
        token = device.token() if events.mqtt_feedback else None
        home = (device.home, events.mqtt_discovery_prefix) if device.home and events.mqtt_discovery else None
        bids = events.mqtt_one_answer_topic if events.mqtt_one_answer else None
        broker, key = home_broker(events), None if bids is None else bids_key(events)
        announced = None if device.folder is None else Announced(device.folder, f"{broker.host}:{broker.port}")
        outputs.append(
            HomeMqtt(
                broker,
                events.mqtt_topic,
                device.name,
                device.answer,
                token,
                home=home,
                bids=bids,
                bids_key=key,
                announced=announced,
            )
        )
    if events.wyoming is not None:
        outputs.append(WyomingService(events.wyoming, device.words, device.model, device.spotter))
    return outputs


SHORTEST_KEY = 16
"""Characters."""


def bids_key(events: EventSettings) -> bytes | None:
    """The secret with which devices of the home sign their bids; SettingsError where its file holds none."""
    if events.mqtt_one_answer_key_file is None:
        return None
    path = Path(events.mqtt_one_answer_key_file)
    key = read_text(path, "events.mqtt_one_answer_key_file", most=4096).strip()
    if len(key) < SHORTEST_KEY:
        raise SettingsError(
            f"events.mqtt_one_answer_key_file {path} holds fewer than {SHORTEST_KEY} characters: make one with "
            "openssl rand -hex 32, and copy it to each device of the home."
        )
    return key.encode()


def choose_answers(outputs: Sequence[Output]) -> OneAnswer | None:
    """Who settles which events this device answers; None: it answers all."""
    return next((each.one_answer for each in outputs if isinstance(each, HomeMqtt)), None)


def require_asked(events: EventSettings) -> None:
    """Refuse outputs that tell what was heard to more than this machine where nobody asked for it.

    Raises
    ------
    SettingsError
        The home's broker is on another machine and without TLS, or not named where it is needed, or Wyoming is open to
        other machines.
    """
    if events.mqtt is not None:
        home_broker(events)
    for name in ("mqtt_discovery", "mqtt_one_answer"):
        if getattr(events, name) and events.mqtt is None:
            raise SettingsError(f"events.{name} needs the home's broker: say mqtt, its URL, in [events], too.")
    if events.mqtt_install and not events.mqtt_discovery:
        raise SettingsError("events.mqtt_install needs mqtt_discovery = true, too.")
    if events.mqtt_buttons and not (events.mqtt_discovery and events.mqtt_feedback):
        raise SettingsError("events.mqtt_buttons needs mqtt_discovery = true and mqtt_feedback = true, too.")
    if events.wyoming is not None and not events.wyoming_network:
        host, _ = wyoming_place(events.wyoming)
        if not is_loopback(host):
            raise SettingsError(
                f"events.wyoming on {host} is open to every machine that reaches it: listen on 127.0.0.1, or write "
                "wyoming_network = true."
            )


def home_broker(events: EventSettings) -> BrokerAddress:
    """Where the home's broker is; SettingsError where its password would travel in the clear, and nobody asked."""
    assert events.mqtt is not None
    address = BrokerAddress.parse(events.mqtt, ca=None if events.mqtt_ca is None else Path(events.mqtt_ca))
    if not (address.tls or events.mqtt_plain or is_loopback(address.host)):
        raise SettingsError(
            f"events.mqtt at {address} is not on this machine and without TLS: write mqtts://, or mqtt_plain = true "
            "where everybody on the way may read it."
        )
    return address
