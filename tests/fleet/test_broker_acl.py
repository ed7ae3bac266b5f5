"""Nobody reads or writes outside its rights, on either broker: what is delivered counts, not what is granted."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.recorder import Record
from tests.system.tls_site import connected, hear, noting, until

from auricle.errors import BrokerError, SettingsError
from auricle.mqtt_link.broker_rights import Roles, acl_file, covers
from auricle.mqtt_link.link import LinkSettings, MqttLink, Will
from auricle.wire.broker_passwords import verify_password
from auricle_fleet.broker.broker import Broker, Kind, start_broker
from auricle_fleet.broker.mosquitto import read_passwords, write_passwords

T = "auricle/1/f"
FORBIDDEN = (
    f"# +/# $SYS/# $share/g/# $share/g/{T}/d/+/up/# {T}/# {T}/d/+/dn/# {T}/d/dev-b/# {T}/d/dev-b/dn/cmd {T}/d/+/state "
    f"{T}/d/+/up/+ auricle/1/g/c/#"
)
OTHERS = (
    "d/dev-b/up/upd d/dev-b/state d/dev-b/dn/cmd d/dev-a/dn/cmd c/model c/state b/x/0 d/observer/up/upd "
    "d/observer/state d/coordinator/up/upd"
)
USERS = {"coordinator": "c-secret", "observer": "o-secret", "dev-a": "a-secret", "dev-b": "b-secret"}


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
async def test_everyone_gets_what_is_his(tmp_path: Path, kind: Kind, record_property: Record) -> None:
    async with fleet(tmp_path, kind) as (_, links):
        got = [
            await hear(links["coordinator"], "d/+/up/#", "d/+/state"),
            await hear(links["dev-a"], "d/dev-a/dn/#", "c/#", "b/#"),
            await hear(links["observer"], "c/#", "b/#"),
        ]
        for kind_of in ("reg", "get", "loss", "upd", "st"):
            await links["dev-a"].publish(f"{T}/d/dev-a/up/{kind_of}", b"1")
        await links["dev-b"].publish(f"{T}/d/dev-b/state", b"1", retain=True)
        for topic in ("c/state", "c/model", "b/abc/0", "d/dev-a/dn/inv", "d/dev-a/dn/ack"):
            await links["coordinator"].publish(f"{T}/{topic}", b"1")
        await until(lambda: list(map(len, got)) == [6, 5, 3], 60)
    record_property("delivered", sum(map(len, got)))


@pytest.mark.reliability("S2", load="the same with passwords, mosquitto and amqtt")
async def test_nothing_is_delivered_outside_the_rights(tmp_path: Path, kind: Kind, record_property: Record) -> None:
    """Canaries from and to where they must not go, then one allowed message each: by then all had time to come."""
    async with fleet(tmp_path, kind) as (_, links):
        await links["coordinator"].publish(f"{T}/d/dev-b/dn/cmd", b"canary", retain=True)
        await links["dev-b"].publish(f"{T}/d/dev-b/state", b"canary", retain=True)
        await links["coordinator"].publish(f"{T}/c/model", b"model", retain=True)
        got = {user: await hear(links[user], *FORBIDDEN.split(), "c/#") for user in ("dev-a", "observer")}
        got["dev-b"] = await hear(links["dev-b"], "d/dev-b/dn/#", "c/#")
        head = await hear(links["coordinator"], "d/+/up/#", "d/+/state")
        for topic in OTHERS.split():
            for user in ("dev-a", "observer"):
                for payload in (b"forged", b""):  # an empty retained message deletes one
                    await try_to(links[user].publish(f"{T}/{topic}", payload, retain=True))
        await try_to(links["coordinator"].publish(f"{T}/d/coordinator/state", b"forged"))
        await links["dev-b"].publish(f"{T}/d/dev-b/up/upd", b"honest")
        await links["dev-a"].publish(f"{T}/d/dev-a/up/upd", b"honest")
        await links["coordinator"].publish(f"{T}/d/dev-b/dn/ack", b"honest")
        await links["coordinator"].publish(f"{T}/c/state", b"end", retain=True)
        await until(lambda: all(f"{T}/c/state end" in each for each in got.values()) and len(head) >= 3, 60)
    # mosquitto delivers once for each matching filter, hence the sets.
    public = {f"{T}/c/model model", f"{T}/c/state end"}
    own = {*public, f"{T}/d/dev-b/dn/cmd canary", f"{T}/d/dev-b/dn/ack honest"}
    up = [f"{T}/d/{said}" for said in ("dev-a/up/upd honest", "dev-b/state canary", "dev-b/up/upd honest")]
    allowed = {"dev-a": public, "observer": public, "dev-b": own, "coordinator": set(up)}
    heard = {**got, "coordinator": head}
    record_property("delivered outside", sum(len(set(heard[user]) - allowed[user]) for user in allowed))
    assert set(got["dev-a"]) == set(got["observer"]) == public
    assert set(got["dev-b"]) == own
    assert sorted(head) == up


async def test_retained_messages_of_others_do_not_come_with_a_reconnect(tmp_path: Path, kind: Kind) -> None:
    """amqtt 0.12.1 sends a returning client what everyone's filters match."""
    async with fleet(tmp_path, kind) as (_, links):
        head = await hear(links["coordinator"], "d/+/state")
        await links["dev-b"].publish(f"{T}/d/dev-b/state", b"private", retain=True)
        await links["dev-a"].stop()
        again = MqttLink(links["dev-a"].settings, handlers={"#": noting([])} if kind == "mosquitto" else None)
        async with connected(again):
            await again.publish(f"{T}/d/dev-a/state", b"back")
            await until(lambda: len(head) == 2, 60)
            assert again.counters.messages_received == 0


@pytest.mark.reliability("S3", load="the same with passwords")
@pytest.mark.parametrize("password", ["a-secret", "wrong"])
async def test_naming_anothers_client_id_does_not_touch_its_session(
    tmp_path: Path, kind: Kind, password: str, record_property: Record
) -> None:
    stolen: list[str] = []
    async with fleet(tmp_path, kind) as (broker, links):
        victim = links["dev-b"]
        got = await hear(victim, "d/dev-b/dn/#")
        await links["dev-a"].stop()
        thief = MqttLink(
            LinkSettings(broker.address("dev-a").as_user("dev-a", password), "dev-b", backoff_first=0.02),
            handlers={f"{T}/d/dev-b/dn/#": noting(stolen)} if kind == "mosquitto" else None,
        )
        async with thief:
            await until(lambda: thief.connected or thief.last_error is not None, 60)
            await links["coordinator"].publish(f"{T}/d/dev-b/dn/ack", b"mine")
            await until(lambda: got == [f"{T}/d/dev-b/dn/ack mine"], 60)
            assert thief.connected == (kind == "mosquitto" and password == "a-secret")
        record_property("connections of the victim", victim.counters.connections)
        record_property("stolen messages", len(stolen))
        assert victim.counters.connections == 1
        assert stolen == []


async def test_a_will_obeys_the_rights(tmp_path: Path, kind: Kind) -> None:
    async with fleet(tmp_path, kind) as (broker, links):
        got = await hear(links["dev-b"], "c/#")
        await links["dev-a"].stop()
        poison = MqttLink(LinkSettings(broker.address("dev-a"), "dev-a", will=Will(f"{T}/c/model", b"forged")))
        await poison.start()
        await until(lambda: poison.connected or poison.last_error is not None, 60)
        if poison._connection is not None:
            poison._connection.drop("the test pulls the plug")
        await poison.stop(publish_will=False)
        await links["coordinator"].publish(f"{T}/c/model", b"honest", retain=True)
        await until(lambda: f"{T}/c/model honest" in got, 60)
        assert got == [f"{T}/c/model honest"]


COVERED = "a/b a/b, a/+/c a/x/c, a/+/c a/+/c, a/# a/b/+/#, a/# a"
NOT_COVERED = "a/b a/b/c, a/b/c a/b, a/+/c a/#, a/b/c a/+/c, a/b/# a/#, a/b/# #, a/# $share/co/a/b"


def test_covers() -> None:
    for pairs, answer in ((COVERED, True), (NOT_COVERED, False)):
        for allowed, wanted in map(str.split, pairs.split(", ")):
            assert covers(allowed, wanted) is answer, (allowed, wanted)


def test_acl_of_a_fleet() -> None:
    lines = acl_file(Roles("home")).splitlines()
    said = [line for line in lines if line.startswith("pattern write")]
    topics = ("up/reg", "up/get", "up/loss", "up/upd", "up/st", "up/rel", "up/hear", "up/sum", "state")
    assert said == [f"pattern write auricle/1/home/d/%u/{topic}" for topic in topics]
    assert "pattern read auricle/1/home/d/%u/dn/#" in lines
    assert not any(line.startswith("pattern write") and "/d/%u/" not in line for line in lines)
    observer = lines[lines.index("user observer") :]
    assert observer[1:4] == [
        "topic read auricle/1/home/c/#",
        "topic read auricle/1/home/b/#",
        "topic deny auricle/1/home/d/observer/#",
    ]


@pytest.mark.parametrize("name", ["#", "a/b", "+", "", "Ünit", "a b", "%u"])
def test_names_that_change_a_topic_are_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        Roles(name)


def test_hash_of_a_known_password() -> None:
    known = (
        "$7$101$sDPdyDT8us0HBOCd$"
        "hiy3R4P6Z7RCCtvyX/gN41on4KG/DQawHbeyquI0ZNhNq0ktpAlXPudGNzCXWnqeR7C1bjaIjK7qg+/PwsC56g=="
    )
    assert verify_password("secret", known)
    assert not verify_password("Secret", known)


def test_password_file_is_private_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    path.write_text("old")
    path.chmod(0o644)
    write_passwords(path, {"dev-1": "one", "dev-2": "two"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    hashes = read_passwords(path)
    assert hashes.keys() == {"dev-1", "dev-2"}
    assert verify_password("one", hashes["dev-1"])
    assert not verify_password("one", hashes["dev-2"])
