"""Settings of the outputs: the table `[events]`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Topic = Annotated[str, Meta(pattern=r"^[^\x00#+]{1,200}\Z")]


class EventSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who is told of what was heard. Nothing here goes over the fleet's link."""

    stdout: bool = True
    """A JSON object a line on standard output."""
    hook: Annotated[tuple[Annotated[str, Meta(pattern=r"^[^\x00]+\Z")], ...], Meta(max_length=64)] = ()
    """Command and arguments, run without a shell for each event; the event is its standard input."""
    hook_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """A hook that runs longer is ended."""
    mqtt: str | None = None
    """URL of the home's broker, `mqtts://user:password@host:port`; `mqtt://` on this machine."""
    mqtt_ca: str | None = None
    """PEM file with the authority of the home's broker; without, the system's authorities are trusted."""
    mqtt_plain: bool = False
    """Also take `mqtt://` to another machine: everybody between reads the password and what was heard."""
    mqtt_feedback: bool = False
    """Take answers from the home's broker that carry the token in the state folder's `feedback.token`."""
    mqtt_topic: Topic = "auricle-events/{device}"
    """Events are published here; `{device}` is the device's name. Answers, with `mqtt_feedback`, under `/feedback`."""
    wyoming: str | None = None
    """`tcp://127.0.0.1:10400`: be a Wyoming wake-word service, for Home Assistant."""
    wyoming_network: bool = False
    """Also listen on an address that other machines reach: the protocol knows neither passwords nor TLS."""
    waiting: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Events that may wait for an output; beyond, the oldest is dropped and counted."""
