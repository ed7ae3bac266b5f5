"""A broker that runs keeps the authority that it was started with: it is said, with the command that helps."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.system.tls_site import NEEDS_MOSQUITTO, TlsSite, running

from auricle.errors import StorageError
from auricle.mqtt_link.link import BrokerAddress, LinkSettings, MqttLink
from auricle_cloud.commands.checkup import broker_authority
from auricle_cloud.identity.authority import Authority
from auricle_cloud.identity.broker_folder import old_authority
from auricle_cloud.identity.certificates import new_key
from auricle_cloud.identity.enrolment import Enrolment


def newcomer(site: TlsSite, authority: Authority) -> BrokerAddress:
    """Somebody with a certificate of an authority, who trusts that one."""
    key = new_key()
    chain = authority.chain(authority.certify("coordinator", key.public_key(), time.time() + 3600))
    before, site.authority = site.authority, authority
    try:
        return site.given("newcomer", key, chain)
    finally:
        site.authority = before


async def connects(address: BrokerAddress) -> None:
    async with MqttLink(LinkSettings(address, "coordinator", backoff_first=0.05, backoff_cap=0.2)) as link:
        await link.wait_connected(5.0)


@NEEDS_MOSQUITTO
def test_a_running_broker_under_a_new_authority_has_to_start_again(tmp_path: Path) -> None:
    async def case() -> None:
        async with running(tmp_path) as site:
            assert old_authority(site.place) is None
            await site.reload()
            assert old_authority(site.place) is None  # the same authority, written again
            os.utime(site.place / "authority.pem", (time.time() + 3600,) * 2)
            assert old_authority(site.place) is None  # a copy of the folder has other times

            changed = Authority.create(tmp_path / "changed" / "authority", "Changed")
            assert site.broker_folder.write(site.place, Enrolment(changed, site.store.database), who="test")
            told = old_authority(site.place) or ""
            assert "systemctl restart mosquitto" in told and str(site.place / "mosquitto.conf") in told
            assert broker_authority(site.place, tmp_path / "changed") == ("bad", told)
            await site.reload()
            assert old_authority(site.place) is None  # it is the one it was started with again
            site.broker_folder.write(site.place, Enrolment(changed, site.store.database), who="test")
            assert old_authority(site.place) == told

            await site.process.stop()
            await site.process.start()
            assert old_authority(site.place) is None
            await connects(newcomer(site, changed))
            assert broker_authority(site.place, tmp_path / "changed")[0] == "good"
            verdict, sentence = broker_authority(site.place, tmp_path)
            assert verdict == "bad" and "enrol broker" in sentence

    asyncio.run(case())


def test_what_is_not_the_folder_of_a_broker_has_no_authority_that_is_good(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is not a folder of auricle cloud enrol broker: no such file or directory"):
        broker_authority(tmp_path, None)


def test_without_a_process_there_is_nothing_to_start_again(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_text("x")
    assert old_authority(tmp_path) is None
    (tmp_path / "mosquitto.pid").write_text(str(os.getpid()))
    os.utime(tmp_path / "mosquitto.pid", (1.0, 1.0))
    assert old_authority(tmp_path) is None  # it is no mosquitto
