"""Nobody reads or writes outside its rights, on either broker: what is delivered counts, not what is granted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from auricle.errors import BrokerError
from auricle.mqtt_link.link import Delivery, Handler, LinkSettings, MqttLink, Will
from auricle_fleet.broker.broker import Broker, Kind, start_broker
from auricle_fleet.broker.mosquitto import find_mosquitto

T = "auricle/1/f"
USERS = {"coordinator": "c-secret", "observer": "o-secret", "dev-a": "a-secret", "dev-b": "b-secret"}
KINDS: list[Kind] = ["mosquitto", "amqtt"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "mosquitto" and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    if request.param == "amqtt" and find_spec("amqtt") is None:
        pytest.skip("amqtt is not installed")
    kind: Kind = request.param
    return kind


class Deliveries:
    """Everything that each user was delivered."""

    def __init__(self) -> None:
        self.topics: dict[str, list[str]] = {user: [] for user in USERS}

    def to(self, user: str) -> Handler:
        async def remember(message: Delivery) -> None:
            self.topics[user].append(f"{message.topic} {message.payload.decode()}")

        return remember


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def fleet(folder: Path, kind: Kind) -> AsyncIterator[tuple[Broker, dict[str, MqttLink]]]:
    async with await start_broker(folder, USERS, fleet="f", kind=kind) as broker:
        links = {user: MqttLink(LinkSettings(broker.address(user), user, backoff_first=0.05)) for user in USERS}
        for link in links.values():
            await link.start()
            await link.wait_connected(10)
        yield broker, links
        await asyncio.gather(*(link.stop() for link in links.values()))


async def try_to(step: object) -> None:
    """mosquitto denies with a code or grants and delivers nothing, amqtt is silent or refuses: all are right."""
    with suppress(BrokerError):
        await step  # type: ignore[misc]


@pytest.mark.reliability("L3", load="rights and deliveries on mosquitto and amqtt (3.1.1)")
def test_everyone_gets_what_is_his(tmp_path: Path, kind: Kind) -> None:
    async def case() -> None:
        got = Deliveries()
        async with fleet(tmp_path, kind) as (_, links):
            await links["coordinator"].subscribe(f"{T}/d/+/up/#", got.to("coordinator"))
            await links["coordinator"].subscribe(f"{T}/d/+/state", got.to("coordinator"))
            await links["dev-a"].subscribe(f"{T}/d/dev-a/dn/#", got.to("dev-a"))
            for user in ("dev-a", "observer"):
                await links[user].subscribe(f"{T}/c/#", got.to(user))
                await links[user].subscribe(f"{T}/b/#", got.to(user))
            for kind_of in ("reg", "get", "loss", "upd", "st"):
                await links["dev-a"].publish(f"{T}/d/dev-a/up/{kind_of}", b"1")
            await links["dev-b"].publish(f"{T}/d/dev-b/state", b"1", retain=True)
            for topic in ("c/state", "c/model", "b/abc/0", "d/dev-a/dn/inv", "d/dev-a/dn/ack"):
                await links["coordinator"].publish(f"{T}/{topic}", b"1")
            await until(lambda: [len(got.topics[user]) for user in USERS] == [6, 3, 5, 0])

    asyncio.run(asyncio.wait_for(case(), 100))


@pytest.mark.reliability("S2", load="the same with passwords, mosquitto and amqtt")
def test_nothing_is_delivered_outside_the_rights(tmp_path: Path, kind: Kind) -> None:
    """Canaries from and to where they must not go, then one allowed message each: by then all had time to come."""

    async def case() -> None:
        got = Deliveries()
        async with fleet(tmp_path, kind) as (_, links):
            await links["coordinator"].publish(f"{T}/d/dev-b/dn/cmd", b"canary", retain=True)
            await links["dev-b"].publish(f"{T}/d/dev-b/state", b"canary", retain=True)
            await links["coordinator"].publish(f"{T}/c/model", b"model", retain=True)
            for user in ("dev-a", "observer"):
                for topic_filter in (
                    "#",
                    "+/#",
                    "$SYS/#",
                    "$share/g/#",
                    f"$share/g/{T}/d/+/up/#",
                    f"{T}/#",
                    f"{T}/d/+/dn/#",
                    f"{T}/d/dev-b/#",
                    f"{T}/d/dev-b/dn/cmd",
                    f"{T}/d/+/state",
                    f"{T}/d/+/up/+",
                    "auricle/1/g/c/#",
                ):
                    await try_to(links[user].subscribe(topic_filter, got.to(user)))
                await links[user].subscribe(f"{T}/c/#", got.to(user))
            await links["dev-b"].subscribe(f"{T}/d/dev-b/dn/#", got.to("dev-b"))
            await links["dev-b"].subscribe(f"{T}/c/#", got.to("dev-b"))
            await links["coordinator"].subscribe(f"{T}/d/+/up/#", got.to("coordinator"))
            await links["coordinator"].subscribe(f"{T}/d/+/state", got.to("coordinator"))
            for topic in (
                "d/dev-b/up/upd",
                "d/dev-b/state",
                "d/dev-b/dn/cmd",
                "d/dev-a/dn/cmd",
                "c/model",
                "c/state",
                "b/x/0",
                "d/observer/up/upd",
                "d/observer/state",
                "d/coordinator/up/upd",
            ):
                for user in ("dev-a", "observer"):
                    for payload in (b"forged", b""):  # an empty retained message deletes one
                        await try_to(links[user].publish(f"{T}/{topic}", payload, retain=True))
            await try_to(links["coordinator"].publish(f"{T}/d/coordinator/state", b"forged"))
            await links["dev-b"].publish(f"{T}/d/dev-b/up/upd", b"honest")
            await links["dev-a"].publish(f"{T}/d/dev-a/up/upd", b"honest")
            await links["coordinator"].publish(f"{T}/d/dev-b/dn/ack", b"honest")
            await links["coordinator"].publish(f"{T}/c/state", b"end", retain=True)
            await until(lambda: all(f"{T}/c/state end" in got.topics[user] for user in ("dev-a", "dev-b", "observer")))
            await until(lambda: len(got.topics["coordinator"]) >= 3)

        # mosquitto delivers once for each matching filter, hence the sets.
        public = {f"{T}/c/model model", f"{T}/c/state end"}
        assert set(got.topics["dev-a"]) == set(got.topics["observer"]) == public
        assert set(got.topics["dev-b"]) == {*public, f"{T}/d/dev-b/dn/cmd canary", f"{T}/d/dev-b/dn/ack honest"}
        assert sorted(got.topics["coordinator"]) == [
            f"{T}/d/dev-a/up/upd honest",
            f"{T}/d/dev-b/state canary",
            f"{T}/d/dev-b/up/upd honest",
        ]

    asyncio.run(asyncio.wait_for(case(), 100))


def test_retained_messages_of_others_do_not_come_with_a_reconnect(tmp_path: Path, kind: Kind) -> None:
    """amqtt 0.12.1 sends a returning client what everyone's filters match."""

    async def case() -> None:
        got = Deliveries()
        async with fleet(tmp_path, kind) as (_, links):
            await links["coordinator"].subscribe(f"{T}/d/+/state", got.to("coordinator"))
            await links["dev-b"].publish(f"{T}/d/dev-b/state", b"private", retain=True)
            await links["dev-a"].stop()
            again = MqttLink(links["dev-a"].settings, handlers={"#": got.to("dev-a")} if kind == "mosquitto" else None)
            async with again:
                await again.wait_connected(10)
                await again.publish(f"{T}/d/dev-a/state", b"back")
                await until(lambda: len(got.topics["coordinator"]) == 2)
                assert again.counters.messages_received == 0

    asyncio.run(asyncio.wait_for(case(), 100))


@pytest.mark.reliability("S3", load="the same with passwords")
@pytest.mark.parametrize("password", ["a-secret", "wrong"])
def test_naming_anothers_client_id_does_not_touch_its_session(tmp_path: Path, kind: Kind, password: str) -> None:
    async def case() -> None:
        got = Deliveries()
        async with fleet(tmp_path, kind) as (broker, links):
            victim = links["dev-b"]
            await victim.subscribe(f"{T}/d/dev-b/dn/#", got.to("dev-b"))
            await links["dev-a"].stop()
            thief = MqttLink(
                LinkSettings(broker.address("dev-a").as_user("dev-a", password), "dev-b", backoff_first=0.02),
                handlers={f"{T}/d/dev-b/dn/#": got.to("dev-a")} if kind == "mosquitto" else None,
            )
            async with thief:
                await until(lambda: thief.connected or thief.last_error is not None)
                await links["coordinator"].publish(f"{T}/d/dev-b/dn/ack", b"mine")
                await until(lambda: got.topics["dev-b"] == [f"{T}/d/dev-b/dn/ack mine"])
                assert thief.connected == (kind == "mosquitto" and password == "a-secret")
            assert victim.counters.connections == 1
            assert got.topics["dev-a"] == []

    asyncio.run(asyncio.wait_for(case(), 100))


def test_a_will_obeys_the_rights(tmp_path: Path, kind: Kind) -> None:
    async def case() -> None:
        got = Deliveries()
        async with fleet(tmp_path, kind) as (broker, links):
            await links["dev-b"].subscribe(f"{T}/c/#", got.to("dev-b"))
            await links["dev-a"].stop()
            poison = MqttLink(LinkSettings(broker.address("dev-a"), "dev-a", will=Will(f"{T}/c/model", b"forged")))
            await poison.start()
            await until(lambda: poison.connected or poison.last_error is not None)
            if poison._connection is not None:
                poison._connection.drop("the test pulls the plug")
            await poison.stop(publish_will=False)
            await links["coordinator"].publish(f"{T}/c/model", b"honest", retain=True)
            await until(lambda: f"{T}/c/model honest" in got.topics["dev-b"])
            assert got.topics["dev-b"] == [f"{T}/c/model honest"]

    asyncio.run(asyncio.wait_for(case(), 100))
