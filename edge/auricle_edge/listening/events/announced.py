"""What a device has left retained at the home's broker: remembered, so that it can be taken back.

A retained message stays at a broker until an empty one replaces it. A device that was renamed, or whose discovery was
switched off, would stay in Home Assistant for ever: it knows only what it announces now. So the topics are kept in the
state folder before they are announced, by broker, and what is announced no more is emptied at the next connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from auricle.errors import AuricleError
from auricle.files import read_kept, write_durably
from auricle.mqtt_link.link import MqttLink
from auricle.wire.kinds import UNDECODABLE

log = logging.getLogger("auricle.events")

FILE = "announced.json"
MOST_BROKERS = 8
"""Whose topics are remembered: of more, those of the broker that was used longest ago are forgotten."""

_Topic = Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[^\x00#+]+\Z")]
_Kept = dict[str, Annotated[tuple[_Topic, ...], Meta(max_length=256)]]


class Announced:
    """The topics that a device has left retained at one broker.

    Parameters
    ----------
    folder
        The device's state folder.
    broker
        Host and port.
    """

    def __init__(self, folder: Path, broker: str) -> None:
        self._path, self._broker = folder / FILE, broker

    async def renew(self, link: MqttLink, topics: Collection[str]) -> None:
        """Empty what was announced at this broker and is not among `topics`, which are about to be.

        What the broker refuses to take back is tried again at the next connection.

        Raises
        ------
        StorageError
            The topics cannot be kept.
        """
        before = await asyncio.to_thread(self._read)
        old = [topic for topic in before.get(self._broker, ()) if topic not in topics]
        if old or set(topics) - set(before.get(self._broker, ())):
            await asyncio.to_thread(self._write, before, [*topics, *old])
        left = [topic for topic in old if not await _empty(link, topic)]
        if old:
            await asyncio.to_thread(self._write, before, [*topics, *left])

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(read_kept(self._path), type=_Kept)
        except FileNotFoundError:
            return {}
        except (OSError, *UNDECODABLE):
            log.warning("%s does not hold what was announced to the home: what it was is not taken back.", self._path)
            return {}

    def _write(self, before: _Kept, topics: Collection[str]) -> None:
        others = {broker: kept for broker, kept in before.items() if broker != self._broker}
        kept = {**dict(list(others.items())[-MOST_BROKERS + 1 :]), **({self._broker: tuple(topics)} if topics else {})}
        write_durably(self._path, msgspec.json.encode(kept), mode=0o600)


async def _empty(link: MqttLink, topic: str) -> bool:
    try:
        await link.publish(topic, b"", retain=True)
    except AuricleError as error:
        log.warning("%s could not be taken back from the home's broker: %s", topic, error)
        return False
    return True
