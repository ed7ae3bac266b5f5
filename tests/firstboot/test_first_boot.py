"""The first boot of a card in an emulated machine: what `auricle flash image` wrote becomes a device of the fleet."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.firstboot.card import Card
from tests.firstboot.conftest import Workshop
from tests.firstboot.machine import Machine
from tests.firstboot.system import PASSPHRASE

pytestmark = [pytest.mark.firstboot, pytest.mark.timeout(5400)]

ONLINE = 1500.0
"""Seconds from the switch to the fleet, at most; on two idle cores it takes a few minutes."""
SETTLED = "systemctl list-jobs | grep -q 'No jobs'"
CLIPS = """
import numpy as np
from pathlib import Path
from auricle.packs.pack import load_pack
from auricle.speech.features import LogMel
from auricle_edge.clips import ClipSettings, ClipStore, NewClip
store = ClipStore(Path("/var/lib/auricle/clips"), ClipSettings(), LogMel(load_pack("home").manifest.task))
rng, moments = np.random.default_rng(0), np.arange(16000) / 16000
for take in range(16):
    for pitch, word in ((300, "yes"), (700, "no")):
        tone = 6000 * np.sin(2 * np.pi * pitch * rng.uniform(0.95, 1.05) * moments) * (moments > 0.2)
        store.add(NewClip((tone + rng.normal(0, 300, 16000)).astype(np.int16), word, "enrolled", 1.0))
store.close()
"""


def claims(machine: Machine) -> str:
    """What systemd says of the claim."""
    return machine.run("systemctl show auricle-claim -p Result,ExecMainStatus,NRestarts,ActiveState").text


def versions(machine: Machine) -> dict[str, Any]:
    """What is installed."""
    told = machine.run("python3 -I /opt/auricle/slots.py status --json").text
    return dict(json.loads(told))


def enrolled(workshop: Workshop, machine: Machine, device: str) -> dict[str, Any]:
    """The device as the fleet sees it, once it is online."""
    try:
        shown = workshop.home.wait_device(device, ONLINE)
    except AssertionError:
        print(machine.console[-6000:], machine.run("journalctl -u 'auricle-*' --no-pager | tail -60").text)
        raise
    status = versions(machine)
    assert status["installed"]
    assert status["slots"]["a"]["board"] == "pi5"
    return shown


def no_token(card: Card) -> bool:
    """Whether the token is gone from the card."""
    return card.read("auricle.token") is None and not card.root_file("/etc/auricle/claim.token")


def test_a_card_becomes_a_device_that_takes_part_in_a_round(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    card = workshop.card("happy-1")
    began = time.monotonic()
    with workshop.boot(card, "happy") as machine:
        machine.run("true")
        shell = time.monotonic() - began
        machine.wait("auricle: installs it")
        begun = time.monotonic() - began
        machine.wait("auricle: installed")
        installed = time.monotonic() - began
        shown = enrolled(workshop, machine, "happy-1")
        online = time.monotonic() - began
        assert machine.run("hostname").text == "happy-1"
        machine.run("systemctl stop auricle-edge")
        told = machine.run(
            f"cat >/run/clips.py <<'END'\n{CLIPS}\nEND\n"
            "systemd-run --wait --pipe --quiet -p DynamicUser=yes -p User=auricle -p StateDirectory=auricle "
            "/opt/auricle/current/bin/python3 /run/clips.py"
        )
        assert told.code == 0, told.text
        machine.run("systemctl start --no-block auricle-edge")
        machine.wait_true("systemctl is-active -q auricle-edge")
        workshop.home.wait_device("happy-1", ONLINE)
        done = workshop.home.round(ONLINE)
        machine.off()

    assert shown["standing"] == "approved"
    assert (done["state"], done["counted"]) == ("published", 1)
    assert no_token(card)
    assert b"installed" in (card.read("auricle/first-boot.log") or b"")
    with capsys.disabled():
        print(
            f"\nfirst boot: shell {shell:.0f} s, installation {begun:.0f} to {installed:.0f} s, online {online:.0f} s; "
            f"round: {json.dumps(done)}"
        )


def test_with_a_wrong_passphrase_nothing_enrols_until_the_right_file_is_on_the_card(workshop: Workshop) -> None:
    card = workshop.card("radio-1", passphrase="not this one")
    with workshop.boot(card, "radio-wrong", options="house=wireless") as machine:
        machine.wait("auricle: installed")
        machine.wait_true("journalctl -b -u wpa_supplicant -u NetworkManager | grep -Eq 'WRONG_KEY|4-Way Handshake'")
        assert "radio-1" not in workshop.home.devices()
        assert "activating" in claims(machine) or "Result=exit-code" in claims(machine)
        machine.off()
    right = workshop.card("radio-1", passphrase=PASSPHRASE)
    for name in ("user-data", "meta-data", "network-config", "cmdline.txt"):
        card.write(name, right.read(name) or b"")

    with workshop.boot(card, "radio-right", options="house=wireless") as machine:
        enrolled(workshop, machine, "radio-1")
        assert "wlan0" in machine.run("ip -4 -br address show up scope global").text
        machine.off()
    assert no_token(card)


def test_an_expired_token_is_said_and_not_tried_for_ever(workshop: Workshop) -> None:
    card = workshop.card("late-1", ttl="1m")
    with workshop.boot(card, "late") as machine:
        machine.wait("auricle: installed")
        machine.wait_true("systemctl is-failed -q auricle-claim", ONLINE)
        told, said = claims(machine), machine.run("journalctl -b -u auricle-claim --no-pager").text
        machine.off()

    assert "ExecMainStatus=2" in told
    assert "expired" in said
    assert "late-1" not in workshop.home.devices()


def test_power_cuts_during_the_first_boot_only_delay_it(workshop: Workshop) -> None:
    card = workshop.card("cuts-1")
    early = ("Mounted .*boot-firmware|Mounting .*boot-firmware", "Cloud-init v.* running 'init'")
    for number, sign in enumerate((*early, "auricle: checks", "auricle: installs it")):
        with workshop.boot(card, f"cuts-{number}") as machine:
            machine.wait(sign)
            if number == 3:
                machine.wait_true("ls /opt/auricle/a/lib/python3*/site-packages/numpy")
            machine.cut()

    with workshop.boot(card, "cuts-last") as machine:
        enrolled(workshop, machine, "cuts-1")
        machine.off()
    assert no_token(card)


def test_a_read_only_boot_partition_keeps_nothing_from_working(workshop: Workshop) -> None:
    card = workshop.card("locked-1")
    with workshop.boot(card, "locked", options="boot=read-only") as machine:
        enrolled(workshop, machine, "locked-1")
        assert machine.run("touch /boot/firmware/x").code != 0
        machine.off()
    assert card.read("auricle.token") is not None
    assert card.read("auricle/first-boot.log") is None
    with workshop.boot(card, "locked-again", options="boot=read-only") as machine:
        machine.wait_true("systemctl is-active -q auricle-edge")
        assert "auricle: installs it" not in machine.console
