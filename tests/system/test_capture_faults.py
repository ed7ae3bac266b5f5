"""A microphone that fails in each way a microphone can: sound is back within five seconds, and the fault is counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from auricle_edge.listening.capture.child_process import devices
from auricle_edge.listening.sound import RATE, Block
from tests.edge.capture_listener import Listener, likeness
from tests.nightly import nightly_but
from tests.system.capture_rooms import Room, missing, speech

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=f"needs a sound system: {missing()}")]
WITHIN = 5.0  # seconds from the end of a fault, or from a fault that a restart mends, to sound
SPEECH = speech(4.0)
BOTH = pytest.mark.parametrize("program", ["mic", "arecord"])


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    room = Room(tmp_path, monkeypatch)
    room.build_card()
    room.plug(usbmic=room.card(SPEECH, 44_100, 2))
    yield room


def child_of(listener: Listener) -> int:
    child = listener.capture._child
    assert child is not None
    return child.pid


def running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second: it went between opening and reading
        return False


def family(pid: int) -> list[int]:
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@BOTH
@pytest.mark.parametrize(("rate", "channels"), [(44_100, 2), (48_000, 1)])
@pytest.mark.nightly
def test_a_card_is_opened_at_its_own_rate_and_heard_intact(room: Room, program: str, rate: int, channels: int) -> None:
    room.plug(other=room.card(speech(1.0, seed=1), 44_100, 2), usbmic=room.card(SPEECH, rate, channels))
    with Listener(f"{program}:usbmic", rate=16_000) as listener:
        listener.hears(3.0)
        state = listener.capture.state
    assert (state.native_rate, state.channels, dict(state.restarts)) == (rate, channels, {})
    assert likeness(listener.sound, SPEECH[8000:16_000]) > 0.99
    assert not any(listener.gaps)


@BOTH
@pytest.mark.parametrize(
    ("fault", "reasons"),
    [("stall", {"no-frames"}), ("zeros", {"zeros"}), ("frozen", {"frozen"}), ("gone", {"device-lost", "no-frames"})],
    ids=["stall", "zeros", "frozen", "gone"],
)
def test_a_card_that_fails_is_restarted_and_heard_again(
    room: Room, program: str, fault: str, reasons: set[str]
) -> None:
    with Listener(f"{program}:usbmic") as listener:
        listener.hears()
        room.fault(fault)
        noticed = listener.until(lambda: reasons & listener.capture.state.restarts.keys())
        room.fault("")
        back = listener.hears()
    print(f"{program} {fault}: noticed after {noticed:.2f} s, sound {back:.2f} s after it was mended")
    assert noticed < 2 * WITHIN  # three seconds and a half where the machine is idle
    assert back < WITHIN
    assert listener.capture.state.problem is None
    assert sum(listener.gaps) > 0.1 * RATE
    assert all(gap >= 0 for gap in listener.gaps)


@BOTH
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV], ids=["kill", "stop", "crash"])
def test_a_child_that_is_killed_or_stopped_is_replaced(room: Room, program: str, number: int) -> None:
    with Listener(f"{program}:usbmic") as listener:
        listener.hears()
        before = family(child_of(listener))
        for pid in before:
            os.kill(pid, number)
        begun = time.monotonic()
        listener.until(lambda: sum(listener.capture.state.restarts.values()))
        listener.hears()
        took = listener.blocks[-1].arrived - begun
        assert not any(map(running, before))
    print(f"{program} {signal.Signals(number).name}: sound again after {took:.2f} s")
    assert took < WITHIN
    assert listener.capture.state.lost_seconds > 0
    lost = round(listener.capture.state.lost_seconds * RATE)
    assert abs(sum(listener.gaps) - lost) <= 2


@BOTH
@pytest.mark.nightly
def test_a_card_pulled_out_and_plugged_in_under_another_index_is_found(room: Room, program: str) -> None:
    card, other = room.card(SPEECH, 44_100, 2), room.card(speech(4.0, seed=1), 48_000, 1)
    with Listener(f"{program}:usbmic") as listener:
        listener.hears()
        room.plug()
        room.fault("gone")
        listener.until(lambda: len(listener.capture.state.restarts) > 1)
        room.fault("")
        room.plug(other=other, another=other, usbmic=card)
        mended = time.monotonic()
        known = len(listener.blocks)
        listener.hears(2.0)
        back = listener.blocks[known].arrived - mended
    print(f"{program}: sound {back:.2f} s after it was plugged in again; {dict(listener.capture.state.restarts)}")
    assert back < WITHIN
    assert listener.capture.state.native_rate == 44_100
    assert likeness(np.concatenate([block.samples for block in listener.blocks[known:]]), SPEECH[8000:16_000]) > 0.99


def test_the_list_of_devices_is_never_stale(room: Room) -> None:
    assert "usbmic" in {device.name for device in devices()}
    room.plug(kitchen=room.card(SPEECH, 48_000, 1))
    listed = {device.name: device for device in devices()}
    assert "usbmic" not in listed
    assert (listed["kitchen"].rate, listed["kitchen"].channels, listed["kitchen"].source) == (48_000, 1, "mic:kitchen")
    assert listed["default"].default


@BOTH
def test_no_child_outlives_a_listener_that_is_killed(room: Room, program: str) -> None:
    code = (
        "import sys\n"
        "from auricle_edge.listening.capture.capture import Capture\n"
        "from auricle_edge.listening.capture.settings import CaptureSettings\n"
        "capture = Capture(CaptureSettings(source=sys.argv[1]))\n"
        "capture.start()\n"
        "for block in capture.blocks():\n"
        "    print(capture._child.pid, flush=True)\n"
    )
    command = [sys.executable, "-c", code, f"{program}:usbmic"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as listener:
        assert listener.stdout is not None
        pids = family(int(listener.stdout.readline()))
        assert len(pids) == (2 if program == "arecord" else 1)
        os.kill(pids[0], signal.SIGSTOP)
        listener.kill()
    until = time.monotonic() + WITHIN
    while any(map(running, pids)):
        assert time.monotonic() < until, "a capture child is left over"
        time.sleep(0.01)


@BOTH
@pytest.mark.nightly
def test_a_slow_listener_loses_sound_that_is_counted_and_its_places_stay_true(room: Room, program: str) -> None:
    held: list[float] = []

    def work(block: Block) -> None:
        if block.start > RATE and not held:
            held.append(time.monotonic())
            time.sleep(9.0)  # longer than the pipe's five seconds

    with Listener(f"{program}:usbmic", work) as listener:
        listener.until(lambda: listener.blocks and listener.blocks[-1].start > 14 * RATE, 90)
        state = listener.capture.state
    assert state.dropped > 44_100
    assert dict(state.restarts) == {}
    first, last = listener.blocks[0], listener.blocks[-1]
    assert last.start - first.start == pytest.approx((last.arrived - first.arrived) * RATE, abs=RATE / 2)


@BOTH
@pytest.mark.nightly
def test_the_child_is_small(room: Room, program: str) -> None:
    with Listener(f"{program}:usbmic") as listener:
        listener.hears()
        pids, begun = family(child_of(listener)), time.monotonic()
        used = sum(map(processor_seconds, pids))
        listener.hears(5.0)
        share = (sum(map(processor_seconds, pids)) - used) / (time.monotonic() - begun)
        sizes = [pss(pid) for pid in pids]
    print(f"{program}: PSS {' + '.join(f'{size:.1f}' for size in sizes)} MB, {share:.1%} of a core")
    assert sum(sizes) < (15 if program == "arecord" else 25)


@BOTH
@pytest.mark.parametrize("rate", nightly_but([44_100, 48_000], [44_100]))
def test_speech_through_pulseaudio_arrives_intact(room: Room, program: str, rate: int) -> None:
    with room.pulse(), room.kitchen(SPEECH, rate), Listener(f"{program}:mic", rate=rate) as listener:
        listener.hears(4.0)
    assert (listener.capture.state.native_rate, listener.capture.state.channels) == (rate, 2)
    assert np.median([likeness(listener.sound, SPEECH[at : at + 4000]) for at in range(8000, 40_000, 4000)]) > 0.98
    assert dict(listener.capture.state.restarts) == {}


@BOTH
@pytest.mark.nightly
def test_a_microphone_of_pulseaudio_comes_back_under_another_index(room: Room, program: str) -> None:
    with room.pulse() as pulse, room.kitchen(SPEECH) as module:
        number = pulse.source_number("kitchen")
        with Listener(f"{program}:mic") as listener:
            listener.hears()
            pulse.unplug(module)
            listener.until(lambda: sum(listener.capture.state.restarts.values()))
            pulse.plug("hall")
            with room.kitchen(SPEECH):
                assert pulse.source_number("kitchen") > number + 1
                back = listener.hears()
    print(f"{program}: {dict(listener.capture.state.restarts)}, sound after {back:.2f} s")
    assert back < WITHIN


@BOTH
def test_the_sound_server_dies_and_is_started_again(room: Room, program: str) -> None:
    with room.pulse() as pulse, room.kitchen(SPEECH), Listener(f"{program}:mic") as listener:
        listener.hears()
        pulse.kill()
        listener.until(lambda: sum(listener.capture.state.restarts.values()))
        with room.pulse(), room.kitchen(SPEECH):
            back = listener.hears()
    print(f"{program}: {dict(listener.capture.state.restarts)}, sound after {back:.2f} s")
    assert back < WITHIN


@BOTH
def test_mute_closes_the_device_and_nothing_reads_it(room: Room, program: str) -> None:
    with room.pulse() as pulse, room.kitchen(SPEECH), Listener(f"{program}:mic") as listener:
        listener.hears()
        assert pulse.readers() == 1
        pids = family(child_of(listener))
        listener.capture.mute(True, "test")
        assert not any(map(running, pids))
        muted, heard = time.monotonic(), len(listener.blocks)
        while pulse.readers():
            assert time.monotonic() < muted + 1
        assert (listener.capture.state.muted, listener.capture.state.mute_reason) == (True, "test")
        assert all(block.arrived < muted for block in listener.blocks[heard:])
        listener.capture.mute(False, "test")
        back = listener.hears()
        assert pulse.readers() == 1
    print(f"{program}: sound {back:.2f} s after mute was lifted")
    assert back < WITHIN
    assert dict(listener.capture.state.restarts) == {}
    assert listener.capture.state.lost_seconds == 0
    assert sum(listener.gaps) > 0


def test_a_switch_that_is_a_file_mutes(room: Room, tmp_path: Path) -> None:
    switch = tmp_path / "mute"
    with Listener("arecord:usbmic", mute_switch=str(switch)) as listener:
        listener.hears()
        pids = family(child_of(listener))
        switch.write_text("1\n")
        listener.until(lambda: listener.capture.state.muted)
        assert not any(map(running, pids))
        assert listener.capture.state.mute_reason == "switch"
        listener.capture.mute(False, "control")
        listener.until(lambda: listener.states[-1].muted)
        switch.write_text("0\n")
        listener.hears()
    assert dict(listener.capture.state.restarts) == {}
