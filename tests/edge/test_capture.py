"""Capture from recordings and FIFOs: the same child, heartbeat and restarts as a microphone's."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.edge.capture_listener import Listener

from auricle.errors import AuricleError, DataError, SettingsError, WireError
from auricle_edge.listening.capture import child_parts
from auricle_edge.listening.capture.alsa import cards, find_card
from auricle_edge.listening.capture.blocks import Heartbeat, Timeline
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.child import options_of
from auricle_edge.listening.capture.child_parts import counts, missing, rates
from auricle_edge.listening.capture.child_process import arguments_of
from auricle_edge.listening.capture.conversion import Conversion, Meter
from auricle_edge.listening.capture.frames import Failed, FrameReader, Opened, Sound
from auricle_edge.listening.capture.microphone import by_name, describe_device, of_portaudio
from auricle_edge.listening.capture.mute_switch import FileSwitch, mute_switch
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source
from auricle_edge.listening.sound import RATE
from auricle_edge.service.process import say_findings

RNG = np.random.default_rng(5)
NOISE = RNG.integers(-3000, 3000, 4 * RATE).astype(np.int16)


def test_a_folder_is_heard_sample_for_sample_and_ends(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", NOISE[:20_001], RATE)
    soundfile.write(tmp_path / "b.flac", NOISE[20_001:], RATE)
    with Listener(f"folder:{tmp_path}?pace=fast", open_within=60.0, stall_after=60.0) as listener:
        listener.end()
    assert np.array_equal(listener.sound, NOISE)
    assert listener.blocks[0].start == 0
    assert not any(listener.gaps)
    assert max(len(block.samples) for block in listener.blocks) <= 1600
    state = listener.capture.state
    assert (state.running, state.frames, dict(state.restarts)) == (False, len(NOISE), {})


def test_a_file_whose_name_is_no_text_is_a_finding_and_the_others_are_heard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One child, one finding with a question mark for the byte, and a last line of JSON that can be printed."""
    soundfile.write(tmp_path / "a.wav", NOISE, RATE)
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.wav")).write_text("this is a text")
    except OSError:
        pytest.skip("this file system takes names that are text only")
    with Listener(f"folder:{tmp_path}?pace=fast", open_within=60.0, stall_after=60.0) as listener:
        listener.end()
    assert np.array_equal(listener.sound, NOISE)
    assert dict(listener.capture.state.restarts) == {}
    (finding,) = listener.capture.findings.values()
    assert "caf?.wav" in finding.sentence
    say_findings("kitchen-1", [finding], as_json=True)
    assert json.loads(capsys.readouterr().out)["skipped_files"] == 1


def test_a_recording_whose_child_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", NOISE, RATE)
    killed: list[int] = []

    def work(block: object) -> None:
        child = listener.capture._child
        if len(listener.blocks) == 20 and child is not None:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)

    with Listener(f"file:{tmp_path}/a.flac?pace=fast&loop=1", work) as listener:
        listener.until(lambda: sum(len(block.samples) for block in listener.blocks) >= len(NOISE) + 16_000)
    assert killed
    assert np.array_equal(listener.sound[: len(NOISE) + 16_000], np.concatenate((NOISE, NOISE[:16_000])))


def test_muted_from_the_start_it_starts_no_child(tmp_path: Path) -> None:
    switch = tmp_path / "mute"
    switch.touch()
    soundfile.write(tmp_path / "a.wav", NOISE, RATE)
    with Listener(f"file:{tmp_path}/a.wav?pace=fast", mute_switch=str(switch)) as listener:
        listener.until(lambda: listener.capture.state.muted)
        assert listener.capture._child is None
        switch.unlink()
        listener.end()
    assert np.array_equal(listener.sound, NOISE)


def test_a_switch_says_what_the_file_says(tmp_path: Path) -> None:
    switch = FileSwitch(tmp_path / "value")
    assert not switch.on()
    for text, on in (("1\n", True), ("0\n", False), ("", True)):
        (tmp_path / "value").write_text(text)
        assert switch.on() is on
    assert mute_switch("") is None
    for setting in ("gpio:gpiochip0", "gpio:gpiochip0:x", "gpio:none:1", "gpio:gpiochip0:1:high"):
        with pytest.raises(SettingsError):
            mute_switch(setting)


@pytest.mark.slow
def test_a_writer_that_dies_and_one_that_comes_later_are_both_heard(tmp_path: Path) -> None:
    path = tmp_path / "sound"
    with Listener(f"fifo:{path}", open_within=60.0) as listener:
        with path.open("wb", buffering=0) as writer:
            writer.write(NOISE[:16_000].tobytes() + b"\x01")  # it dies in the middle of a sample
            listener.until(lambda: sum(len(block.samples) for block in listener.blocks) >= 16_000)
        listener.until(lambda: "no-frames" in listener.capture.state.restarts)
        with path.open("wb", buffering=0) as writer:
            for at in range(16_000, 48_000, 1600):
                writer.write(NOISE[at : at + 1600].tobytes())
            listener.until(lambda: sum(len(block.samples) for block in listener.blocks) >= 48_000)
    assert np.array_equal(listener.sound, NOISE[:48_000])
    assert sum(listener.gaps) > RATE
    assert listener.capture.state.dropped == 0


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["zeros", "frozen"])
def test_zeros_and_a_block_that_repeats_are_counted_and_the_writer_lives(tmp_path: Path, reason: str) -> None:
    path = tmp_path / "sound"
    dead = (np.zeros(800, np.int16) if reason == "zeros" else NOISE[:800]).tobytes()
    with (
        Listener(f"fifo:{path}", open_within=60.0, stall_after=60.0) as listener,
        path.open("wb", buffering=0) as writer,
    ):
        for _ in range(80):  # at the pace of a microphone: what comes at once is no three seconds
            writer.write(dead)
            time.sleep(0.05)
        listener.until(lambda: reason in listener.capture.state.restarts)
        for at in range(0, 32_000, 1600):
            writer.write(NOISE[at : at + 1600].tobytes())
        listener.until(lambda: np.array_equal(listener.sound[-1600:], NOISE[30_400:32_000]))
    assert dict(listener.capture.state.restarts) == {reason: 1}


def test_stop_before_and_after_leaves_nothing(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", NOISE, RATE)
    capture = Capture(CaptureSettings(source=f"file:{tmp_path}/a.wav?pace=fast"))
    assert list(capture.blocks()) == []
    capture.start()
    first = next(blocks := capture.blocks())
    capture.stop()
    assert list(blocks) == []
    assert capture._child is None
    assert first.start == 0


# -- what may be written as a source, and the sound cards it can mean


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mic", ("mic", "", False, False)),
        ("mic:USB PnP*", ("mic", "USB PnP*", False, False)),
        ("alsa:usb=0d8c:0014,DEV=0", ("alsa", "usb=0d8c:0014,DEV=0", False, False)),
        ("arecord:hw:CARD=Device,DEV=0", ("arecord", "hw:CARD=Device,DEV=0", False, False)),
        ("fifo:/run/sound", ("fifo", "/run/sound", False, False)),
        ("file:a.flac", ("file", "a.flac", False, False)),
        ("folder:clips?pace=fast&loop=1", ("folder", "clips", True, True)),
    ],
)
def test_a_source_is_its_kind_and_what_it_names(text: str, expected: tuple[str, str, bool, bool]) -> None:
    source = parse_source(CaptureSettings(source=text))
    assert (source.kind, source.target, source.fast, source.loop) == expected
    assert source.recorded == (source.kind in ("file", "folder"))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("mike", "mic"),
        ("mic:1", "index"),
        ("arecord:hw:1,0", "index"),
        ("arecord:plughw:0", "index"),
        ("arecord:hw:CARD=1", "index"),
        ("alsa:Device", "alsa:CARD=ID"),
        ("file:", "path"),
        ("file:a.wav?speed=fast", "speed"),
        ("file:a.wav?pace=quick", "pace"),
    ],
)
def test_what_is_no_source_is_refused(text: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        parse_source(CaptureSettings(source=text))


def test_what_no_restart_mends_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for source in (f"file:{tmp_path}/none.wav", f"folder:{tmp_path}/none", f"fifo:{tmp_path}/file"):
        with pytest.raises(AuricleError):
            Capture(CaptureSettings(source=source)).start()


def test_a_recording_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"RIFFnonsense")
    capture = Capture(CaptureSettings(source=f"folder:{tmp_path}"))
    capture.start()
    with pytest.raises(DataError, match=r"bad\.wav"):
        list(capture.blocks())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`/proc/asound` of a Raspberry Pi with a USB microphone, as the kernel writes it."""
    place = tmp_path / "proc/asound"
    (place / "card1").mkdir(parents=True)
    (place / "cards").write_text(
        " 0 [vc4hdmi        ]: vc4-hdmi - vc4-hdmi\n                      vc4-hdmi\n"
        " 1 [Device         ]: USB-Audio - USB PnP Sound Device\n"
        "                      C-Media Electronics Inc. USB PnP Sound Device at usb-3f980000.usb-1.3, full speed\n"
    )
    (place / "card1/usbid").write_text("0d8c:0014\n")
    (place / "pcm").write_text(
        "00-00: MAI PCM i2s-hifi-0 : MAI PCM i2s-hifi-0 : playback 1\n"
        "01-00: USB Audio : USB Audio : playback 1 : capture 1\n"
    )
    return tmp_path


def test_cards_are_found_by_id_and_by_usb_number(root: Path) -> None:
    found = cards(str(root))
    assert [(card.index, card.id, card.name, card.usb, card.inputs) for card in found] == [
        (0, "vc4hdmi", "vc4-hdmi", None, []),
        (1, "Device", "USB PnP Sound Device", "0d8c:0014", [0]),
    ]
    for target in ("CARD=Device", "hw:CARD=Device,DEV=0", "plughw:CARD=Device", "usb=0D8C:0014"):
        assert find_card(target, found) == (found[1], 0)
    assert find_card("CARD=Devic", found) is None
    assert cards(str(root / "nothing")) == []


def test_a_microphone_is_chosen_by_its_name_or_the_first_in_order_that_has_the_text_in_it() -> None:
    there = [{"name": name} for name in ("Webcam: USB (hw:2,0)", "USB PnP: Audio (hw:1,0)", "usb", "default")]
    assert by_name("USB", there) == {"name": "usb"}
    assert by_name("pnp", there) == {"name": "USB PnP: Audio (hw:1,0)"}
    assert by_name("*usb*(hw:*", there) == {"name": "USB PnP: Audio (hw:1,0)"}
    assert by_name("web?am*", there) == {"name": "Webcam: USB (hw:2,0)"}
    assert by_name("ReSpeaker", there) is None


def test_a_device_is_tried_at_the_wanted_then_its_own_then_every_usual_rate() -> None:
    assert rates(16_000, 44_100) == [16_000, 44_100, 48_000, 32_000, 96_000, 22_050, 8_000]
    assert rates(None, 48_000)[:2] == [48_000, 44_100]
    most = ((None, 1), (None, 6), (6, 6), (None, None))
    assert [counts(*each) for each in most] == [[1, 2], [2, 1, 6], [6, 2, 1], [2, 1]]
    assert "USB" in str(missing("microphone", ["USB"])) and "plug" in str(missing("sound card", []))


def test_nothing_in_the_room_looks_at_the_wall_clock() -> None:
    files = list(Path(child_parts.__file__).parent.glob("*.py"))
    assert len(files) > 10
    assert not [file.name for file in files if "time.time" in file.read_text() or "datetime" in file.read_text()]


def test_a_card_is_listed_with_what_to_write_into_the_settings(root: Path) -> None:
    plugged, name = cards(str(root)), "USB PnP Sound Device: Audio (hw:1,0)"
    portaudio = {"index": 7, "name": name, "max_input_channels": 1, "default_samplerate": 44100.0}
    found = of_portaudio(portaudio, True, plugged)
    alsa = {"source": "alsa:CARD=Device,DEV=0", "alsa": "hw:CARD=Device,DEV=0", "usb": "0d8c:0014"}
    assert found == {"name": name, **alsa, "channels": 1, "rate": 44100, "default": True}
    assert describe_device(plugged[1], 0)["source"] == "arecord:hw:CARD=Device,DEV=0"
    for each in (found, describe_device(plugged[1], 0)):
        parse_source(CaptureSettings(source=each["source"]))


# -- frames of the child, their places, their conversion, and whether they are sound


RANDOM = np.random.default_rng(3)


def frame(samples: NDArray[np.int16], first: int = 0, lost: bool = False, at: float = 1.0, rate: int = 16_000) -> Sound:
    return Sound(samples.tobytes(), rate, 1, first, lost, at)


def noise(size: int = 800) -> NDArray[np.int16]:
    return RANDOM.integers(-3000, 3000, size).astype(np.int16)


@given(st.lists(st.integers(1, 5000), max_size=10))
def test_frames_come_out_as_they_went_in_however_the_pipe_cuts_them(cuts: list[int]) -> None:
    sounds = [noise(size) for size in (1, 800, 4000)]
    stream = child_parts.text(child_parts.OPENED, b'{"device":"d","rate":16000,"channels":1}', 1.0)
    stream += b"".join(child_parts.sound(s.tobytes(), 1, 16_000, 7, True, 2.5) for s in sounds)
    stream += child_parts.text(child_parts.FAILED, b'{"reason":"r","sentence":"s"}', 3.0)
    reader, frames, at = FrameReader(), [], 0
    for cut in [*cuts, len(stream)]:
        frames += reader.feed(stream[at : at + cut])
        at += cut
    assert frames[0] == Opened("d", 16_000, 1)
    assert frames[1:-1] == [Sound(s.tobytes(), 16_000, 1, 7, True, 2.5) for s in sounds]
    assert frames[-1] == Failed("r", "s")


@given(st.text(st.characters()), st.integers())
@example("caf\udce9.wav \U0001f3a4", 1)
def test_the_child_writes_json_without_the_library_for_it(text: str, number: int) -> None:
    """Half a pair of UTF-16, which is no text, is a question mark."""
    meant = text.encode("utf-8", "replace").decode()
    assert json.loads(child_parts.object_text({"device": text, "rate": number})) == {"device": meant, "rate": number}


def test_a_child_is_told_what_the_listener_means() -> None:
    source = {
        "kind": "fifo",
        "target": "/run/a=b c",
        "fast": True,
        "loop": False,
        "rate": None,
        "channels": 2,
        "least": 2,
    }
    read = options_of(arguments_of({**source, "block": 0.1, "first": 7}))
    assert read == {**source, "block": 0.1, "first": 7, "parent": os.getpid()}


@given(st.binary(min_size=child_parts.HEADER.size, max_size=200))
def test_bytes_that_are_no_frame_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        FrameReader().feed(data if data[:4] != child_parts.MAGIC else b"x" + data)


HEADERS = {
    "no channel": {"channels": 0},
    "channels": {"channels": 99},
    "over a second": {"count": 16_001},
    "empty": {"count": 0},
    "rate": {"rate": 400_000},
    "no time": {"at": float("nan")},
    "future": {"at": 1e12},
    "kind": {"kind": 9},
    "long text": {"kind": 2, "channels": 0, "rate": 0, "count": 1 << 17},
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_out_of_bounds_is_refused_before_its_bytes_are_kept(name: str) -> None:
    sound = {"kind": 1, "lost": 0, "channels": 1, "rate": 16_000, "count": 10, "first": 0, "at": 1.0}
    with pytest.raises(WireError):
        FrameReader().feed(child_parts.HEADER.pack(b"AUC1", *{**sound, **HEADERS[name]}.values()))


def test_a_message_that_is_not_what_its_kind_says_is_refused() -> None:
    with pytest.raises(WireError):
        FrameReader().feed(child_parts.text(child_parts.OPENED, b'{"device":1}', time.monotonic()))


def test_sound_that_was_lost_moves_the_places_on_by_its_time() -> None:
    timeline = Timeline()
    first = frame(noise(1600), 0, at=10.1)
    assert timeline.gap(first) == 0
    timeline.heard(first)
    assert timeline.gap(frame(noise(1600), 1600, at=10.3)) == 0  # late, but nothing is missing
    assert timeline.gap(frame(noise(1600), 3200, at=10.3)) == pytest.approx(0.1)  # one dropped
    assert timeline.gap(frame(noise(1600), 1600, True, at=10.7)) == pytest.approx(0.5)  # overrun: by the clock
    timeline.renew()
    assert timeline.gap(frame(noise(1600), 0, at=13.2)) == pytest.approx(3.0)  # a new child
    timeline.skip(3.0)
    assert timeline.next == 48_000


@pytest.mark.parametrize("period", [1, 37, 480, 800, 1000, 12_000])
def test_sound_that_repeats_with_any_period_up_to_a_second_is_frozen(period: int) -> None:
    heartbeat = Heartbeat(3.0)
    ring = np.resize(noise(period), 16_000 * 8)
    found = [heartbeat.fault(frame(ring[at : at + 800])) for at in range(0, len(ring), 800)]
    assert found.index("frozen") * 0.05 == pytest.approx(2.95 + period / 16_000, abs=0.1)


def test_zeros_for_three_seconds_are_a_fault_and_a_restart_that_does_not_help_makes_patient() -> None:
    heartbeat, zeros = Heartbeat(3.0), frame(np.zeros(1600, np.int16))

    def patience() -> int:
        heartbeat.renew()
        return next(i for i in range(1, 2000) if heartbeat.fault(zeros) == "zeros")

    assert [patience() for _ in range(6)] == [30, 60, 120, 240, 480, 600]
    assert heartbeat.fault(frame(noise())) is None
    heartbeat.renew()
    for _ in range(3):
        heartbeat.fault(frame(noise()))
    assert patience() == 30


def test_an_overrun_now_and_then_does_not_hide_a_frozen_device() -> None:
    heartbeat, ring = Heartbeat(3.0), noise(800)
    found = [heartbeat.fault(frame(np.roll(ring, i // 30 * 11), lost=i % 30 == 0)) for i in range(150)]
    assert "frozen" in found


def test_noise_and_short_silence_are_no_fault() -> None:
    heartbeat = Heartbeat(3.0)
    for _ in range(5):
        assert not any(heartbeat.fault(frame(np.zeros(800, np.int16))) for _ in range(40))
        assert not any(heartbeat.fault(frame(noise())) for _ in range(20))
    assert all(Heartbeat(0).fault(frame(np.zeros(800, np.int16))) is None for _ in range(200))


def test_the_mean_of_the_channels_or_one_of_them_is_heard() -> None:
    stereo = np.array([[100, 300], [-5, -6], [32767, 32767]], "<i2")
    assert Conversion(16_000, 2, None).take(stereo.tobytes()).tolist() == [200, -6, 32767]
    assert Conversion(16_000, 2, 1).take(stereo.tobytes()).tolist() == [300, -6, 32767]
    assert Conversion(16_000, 2, 9).take(stereo.tobytes()).tolist() == [300, -6, 32767]


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000, 96_000])
def test_a_tone_keeps_its_pitch_length_and_place_at_every_rate(rate: int) -> None:
    pytest.importorskip("soxr")
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype("<i2")
    conversion = Conversion(rate, 1, None)
    parts = [conversion.take(part.tobytes()) for part in np.array_split(tone, 20)]
    heard = np.concatenate([*parts, conversion.rest()])
    expected = 8000 * np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    assert abs(len(heard) - 16_000) <= 1
    assert np.abs(heard[800:15_000] - expected[800:15_000]).max() < 40


def test_level_and_clipping_are_those_of_a_full_scale_square_wave() -> None:
    meter = Meter()
    for _ in range(1000):
        meter.take(frame(np.tile(np.array([32767, -32768], np.int16), 400)))
    assert meter.level_dbfs == pytest.approx(0.0, abs=0.1)
    assert meter.clipping == pytest.approx(1.0, abs=0.01)
    quiet = Meter()
    quiet.take(frame(np.zeros(800, np.int16)))
    assert (quiet.level_dbfs, quiet.clipping) == (-120.0, 0.0)
