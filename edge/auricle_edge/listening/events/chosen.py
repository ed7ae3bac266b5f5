"""The outputs that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from auricle.mqtt_link.link import BrokerAddress
from auricle_edge.listening.events.home_mqtt import HomeMqtt
from auricle_edge.listening.events.hook import Hook
from auricle_edge.listening.events.outputs import Output
from auricle_edge.listening.events.settings import EventSettings
from auricle_edge.listening.events.stdout import Stdout
from auricle_edge.listening.events.wyoming import Spotter, WyomingService
from auricle_edge.listening.feedback import Feedback


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
    answer: Callable[[Feedback], Future[Mapping[str, Any]]]
    """Takes confirm, deny and missed from a person."""


def chosen_outputs(events: EventSettings, device: Device) -> list[Output]:
    """Make them; SettingsError where a setting cannot work."""
    outputs: list[Output] = []
    if events.stdout:
        outputs.append(Stdout(device.name))
    if events.hook:
        outputs.append(Hook(events.hook, events.hook_seconds, device.name))
    if events.mqtt is not None:
        outputs.append(HomeMqtt(BrokerAddress.parse(events.mqtt), events.mqtt_topic, device.name, device.answer))
    if events.wyoming is not None:
        outputs.append(WyomingService(events.wyoming, device.words, device.model, device.spotter))
    return outputs
