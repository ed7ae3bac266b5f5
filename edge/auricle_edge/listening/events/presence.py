"""A device at the home's broker for Home Assistant: announced, available while it is connected, its state kept up."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property, partial
from typing import ParamSpec

import msgspec

from auricle.errors import AuricleError
from auricle.mqtt_link.link import Delivery, Handler, MqttLink, Will
from auricle.mqtt_link.tasks import start_task
from auricle.wire.kinds import UNDECODABLE
from auricle_edge.listening.events.home_assistant import (
    INSTALL,
    OFF,
    OFFLINE,
    ON,
    ONLINE,
    Topics,
    event_payload,
    state_payload,
    update_payload,
)
from auricle_edge.listening.events.home_device import HomeDevice, HomeState
from auricle_edge.listening.events.home_entities import discovery
from auricle_edge.listening.events.sparse_log import SparseLog
from auricle_edge.listening.own_thresholds import Threshold
from auricle_edge.listening.sound import Detection

log = logging.getLogger("auricle.events")

Given = ParamSpec("Given")

LOOK_SECONDS = 1.0
"""Seconds between two looks at the device's state; what has changed is published."""
FIGURES_EVERY = 30.0
"""Seconds between two messages of which only the level or a figure of the board is news."""


class Presence:
    """Says what discovery wants to know, again whenever the broker or Home Assistant has started.

    Parameters
    ----------
    prefix
        Home Assistant's discovery prefix.
    topics
        Where the device speaks.
    device
        Of which it is told.
    """

    def __init__(self, prefix: str, topics: Topics, device: HomeDevice) -> None:
        self._prefix, self._topics, self._device = prefix, topics, device
        self._sparse = SparseLog(log)
        self._word: str | None = None
        self._said: HomeState | None = None
        self._said_at = 0.0
        self._link: MqttLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun: set[asyncio.Task[None]] = set()

    @property
    def will(self) -> Will:
        """What the broker says when the device is gone."""
        return Will(self._topics.availability, OFFLINE)

    @property
    def topics(self) -> tuple[str, ...]:
        """Where it leaves retained messages."""
        own = self._topics
        return (*self._configs, own.availability, own.state, own.update)

    @cached_property
    def _configs(self) -> dict[str, dict[str, object]]:
        return discovery(self._prefix, self._device, self._topics, self._device.state())

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """What it subscribes to."""
        own, install = self._topics, self._device.install
        handlers = {f"{self._prefix}/status": self._born, own.mute: self._mute, own.threshold("+"): self._threshold}
        return handlers if install is None else {**handlers, own.install: partial(self._install, install)}

    def start(self, link: MqttLink) -> None:
        """Keep the state up; the link has been made with `will`, `handlers` and `announce`."""
        self._link = link
        self._task = start_task(self._watch(link), log, "Telling the home's broker how the device is")

    def stop(self) -> None:
        """End that."""
        for task in (*self._begun, *([self._task] if self._task is not None else [])):
            task.cancel()

    async def announce(self, link: MqttLink) -> None:
        """Everything that Home Assistant has to know, retained; after each connection."""
        self._said = None
        for topic, config in self._configs.items():
            await link.publish(topic, json.dumps(config).encode(), retain=True)
        await self._say(link, self._now())
        await link.publish(self._topics.availability, ONLINE, retain=True)

    async def heard(self, link: MqttLink, detection: Detection, expiry: float) -> None:
        """Tell of a word."""
        self._word = detection.word
        payload = json.dumps(event_payload(detection)).encode()
        await link.publish(self._topics.heard, payload, expiry=expiry)
        await self._say(link, self._now())

    def _now(self) -> HomeState:
        return dataclasses.replace(self._device.state(), word=self._word)

    async def _say(self, link: MqttLink, state: HomeState) -> None:
        before, self._said, self._said_at = self._said, state, time.monotonic()
        await link.publish(self._topics.state, json.dumps(state_payload(state)).encode(), retain=True)
        if before is None or update_payload(before) != update_payload(state):
            await link.publish(self._topics.update, json.dumps(update_payload(state)).encode(), retain=True)

    async def _watch(self, link: MqttLink) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            state, said = await asyncio.to_thread(self._now), self._said
            if said is None or not link.connected:
                continue
            same = dataclasses.replace(state, level=said.level, figures=said.figures) == said
            if same and (state == said or time.monotonic() - self._said_at < FIGURES_EVERY):
                continue
            try:
                await self._say(link, state)
            except AuricleError as error:
                log.warning("The home's broker was not told how the device is: %s", error)

    async def _born(self, arrived: Delivery) -> None:
        """Home Assistant has started and knows only what is retained, of a broker that may have forgotten it."""
        if arrived.payload == ONLINE and not arrived.retain and self._link is not None:
            self._begin(self.announce(self._link))

    async def _mute(self, arrived: Delivery) -> None:
        if arrived.retain or arrived.payload not in (ON, OFF):
            self._sparse.warning("A message on %s was ignored: it is retained, or neither ON nor OFF.", arrived.topic)
            return
        self._begin(self._do(self._device.mute, arrived.payload == ON))

    async def _threshold(self, arrived: Delivery) -> None:
        words = {self._topics.threshold(word): word for word in self._device.state().thresholds}
        try:
            word, threshold = words[arrived.topic], msgspec.json.decode(arrived.payload, type=Threshold)
        except (KeyError, *UNDECODABLE):
            word, threshold = "", 0.0
        if arrived.retain or not word:
            self._sparse.warning("A message on %s was ignored: it is retained, or no threshold.", arrived.topic)
            return
        self._begin(self._do(self._device.set_threshold, word, threshold))

    async def _install(self, install: Callable[[], Awaitable[None]], arrived: Delivery) -> None:
        if arrived.retain or arrived.payload != INSTALL:
            self._sparse.warning("A message on %s was ignored: it is retained, or not INSTALL.", arrived.topic)
            return
        self._begin(self._say_after(install()))

    async def _do(self, work: Callable[Given, object], *given: Given.args, **named: Given.kwargs) -> None:
        """Do something to the device in a thread of its own, and say how it is then."""
        await self._say_after(asyncio.to_thread(work, *given, **named))

    async def _say_after(self, work: Awaitable[object]) -> None:
        """Wait for work, and say how the device is then, also where it failed."""
        try:
            await work
        finally:
            if self._link is not None:
                await self._say(self._link, self._now())

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        """Do it beside the link's handlers: bids that come meanwhile have 300 ms."""

        async def attempt() -> None:
            try:
                await work
            except AuricleError as error:
                log.warning("The home has not got what it asked for: %s", error)

        task = start_task(attempt(), log, "A message to the home's broker")
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
