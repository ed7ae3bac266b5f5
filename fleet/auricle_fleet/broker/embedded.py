"""The amqtt broker itself: `python -m auricle_fleet.broker.embedded config.json`, started by `broker.amqtt`.

It mends what amqtt 0.12.1 leaves open: a client with a wrong password takes over the session it names before it is
refused; one that comes back is sent the retained messages of everyone's subscriptions; a subscription made while a
message is handed out loses that message.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import amqtt.broker
from amqtt.adapters import ReaderAdapter, WriterAdapter
from amqtt.contexts import Action, BaseContext
from amqtt.errors import MQTTError
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.plugins.manager import PluginManager
from amqtt.session import Session

from auricle.files import read_kept
from auricle.mqtt_link.broker_rights import Roles, covers
from auricle.wire.broker_passwords import verify_password
from auricle_fleet.broker.broker import SIGN
from auricle_fleet.broker.mosquitto import read_passwords


class FleetRights(BaseAuthPlugin, BaseTopicPlugin):  # type: ignore[misc]
    """amqtt plug-in: the passwords and rights that mosquitto is given as files."""

    @dataclass
    class Config:
        """Settings of the plug-in."""

        password_file: str = ""
        roles: dict[str, str] = field(default_factory=dict)

    def __init__(self, context: BaseContext) -> None:
        super().__init__(context)
        self._hashes = read_passwords(Path(context.config.password_file))
        self._roles = Roles(**context.config.roles)

    async def authenticate(self, *, session: Session) -> bool:
        """Whether user, password, client id and will belong together."""
        known = self._hashes.get(session.username or "")
        if known is None or session.client_id != session.username or not verify_password(session.password or "", known):
            return False
        return not session.will_flag or self._may(session.username, Action.PUBLISH, session.will_topic)

    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        """Whether a client may do this with a topic or filter."""
        return session is not None and topic is not None and self._may(session.username, action, topic)

    def _may(self, user: str, action: Action | None, topic: str) -> bool:
        rights = self._roles.of(user)
        return any(covers(allowed, topic) for allowed in (rights.write if action == Action.PUBLISH else rights.read))


class _CheckedHandler(BrokerProtocolHandler):  # type: ignore[misc]
    """Refuses a client before its session is touched; amqtt checks the password only after the take-over."""

    @classmethod
    async def init_from_connect(
        cls,
        reader: ReaderAdapter,
        writer: WriterAdapter,
        plugins_manager: PluginManager,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> tuple[BrokerProtocolHandler, Session]:
        handler, session = await super().init_from_connect(reader, writer, plugins_manager, loop)
        answers = await plugins_manager.map_plugin_auth(session=session)
        if not answers or not all(answers.values()):
            handler.attach(session, reader, writer)
            await handler.mqtt_connack_authorize(False)
            with contextlib.suppress(OSError):  # it has hung up already
                await writer.close()
            raise MQTTError(f"{session.username} refused as {session.client_id}")
        return handler, session


class _Snapshots(dict[str, Any]):
    """A dict that may change while someone awaits between two of its items."""

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().keys()))

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        return list(super().items())


class _MendedBroker(amqtt.broker.Broker):  # type: ignore[misc]
    """amqtt's broker without the three faults."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._subscriptions = _Snapshots()

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        subscribers = self._subscriptions.get(subscription[0], ())
        if any(subscriber.client_id == session.client_id for subscriber, _ in subscribers):
            await super()._publish_retained_messages_for_subscription(subscription, session)


async def serve(port: int, password_file: str, roles: dict[str, str]) -> None:
    """Run the broker on a loopback port until SIGTERM."""
    amqtt.broker.BrokerProtocolHandler = _CheckedHandler
    rights = {"password_file": password_file, "roles": roles}
    broker = _MendedBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"auricle_fleet.broker.embedded.FleetRights": rights},
        }
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await broker.start()
    sys.stdout.write(SIGN)
    sys.stdout.flush()
    await ended.wait()
    await broker.shutdown()


def main(config: Path) -> None:
    """Run the broker that a configuration file describes."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve(**json.loads(read_kept(config).decode())))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
