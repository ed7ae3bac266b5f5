"""Signs of life for systemd, read from a socket as systemd has it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from auricle_edge.service.systemd import Notifier, Pulse


def test_states_arrive_at_the_socket_that_systemd_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "60000000"})
        notifier.ready("listening")
        notifier.alive()
        notifier.status("muted")
        notifier.status("muted")
        notifier.stopping()
        heard = [systemd.recv(200).decode() for _ in range(4)]
    assert heard == ["READY=1\nSTATUS=listening", "WATCHDOG=1", "STATUS=muted", "STOPPING=1"]
    assert notifier.interval == 30


def test_an_abstract_socket_works_too() -> None:
    name = f"auricle-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}")
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert systemd.recv(200) == b"WATCHDOG=1"


def test_without_systemd_nothing_is_sent_and_a_socket_that_is_gone_is_no_error(tmp_path: Path) -> None:
    Notifier({}).alive()
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).alive()


def test_a_watchdog_meant_for_another_process_is_not_ours() -> None:
    assert Notifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).interval is None


def test_the_pulse_goes_on_with_sound_with_restarts_and_while_muted() -> None:
    pulse = Pulse(silence=10)
    assert pulse.beats(None, 0, False, 100.0)
    assert pulse.beats(99.0, 0, False, 109.0)
    assert pulse.beats(99.0, 1, False, 118.0)
    assert pulse.beats(99.0, 1, True, 500.0)
    assert pulse.beats(99.0, 1, False, 509.0)


def test_the_pulse_stops_when_nothing_moves() -> None:
    pulse = Pulse(silence=10)
    assert pulse.beats(99.0, 3, False, 100.0)
    assert not pulse.beats(99.0, 3, False, 110.0)
    assert pulse.beats(111.0, 3, False, 111.0)
