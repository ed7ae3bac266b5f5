"""Sources that are told a wrong rate, cards with many channels or opposite ones, and cards that somebody else holds."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.edge.capture_listener import Listener

from auricle.errors import SettingsError
from auricle_edge.commands.examination import _record_sound
from auricle_edge.listening.capture.alsa import numbers
from auricle_edge.listening.capture.blocks import Heartbeat
from auricle_edge.listening.capture.card_holder import busy, holder
from auricle_edge.listening.capture.channels import Downmix
from auricle_edge.listening.capture.child_parts import counts
from auricle_edge.listening.capture.frames import Sound
from auricle_edge.listening.capture.levels import LevelMeter
from auricle_edge.listening.capture.pace import Pace, likely, sentence
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.sound import RATE
from auricle_edge.service.checkup import examine_microphone, verdict_of
from auricle_edge.service.microphone_check import examine_state

RNG = np.random.default_rng(11)
NOISE = RNG.integers(-3000, 3000, 2 * RATE).astype(np.int16)


def sound(samples: NDArray[np.int16], at: float, rate: int = RATE, lost: bool = False) -> Sound:
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return Sound(samples.astype("<i2").tobytes(), rate, channels, 0, lost, at)


# -- pace


def paced(times: float, seconds: float = 5.0, pieces: int = 1) -> Pace:
    """What is known after so many seconds of a source that is written in chunks of 50 ms, read in pieces."""
    pace, chunk = Pace(), round(0.05 * RATE * times / pieces)
    for number in range(round(seconds / 0.05)):
        for _ in range(pieces):
            pace.take(sound(np.zeros(chunk, np.int16), 1 + 0.05 * number))
    return pace


@pytest.mark.parametrize(
    ("rate", "channels", "said"),
    [
        (48_000, 2, "six times as much sound comes as 16,000 Hz mono has: set rate and channels"),
        (48_000, 1, "three times as much sound comes as 16,000 Hz mono has: set rate and channels"),
        (44_100, 1, "2.8 times as much sound comes as 16,000 Hz mono has: set rate and channels"),
        (8_000, 1, "0.50 times as much sound comes as 16,000 Hz mono has: set rate and channels"),
    ],
)
def test_a_source_with_another_rate_is_known_by_its_pace(rate: int, channels: int, said: str) -> None:
    times = paced(rate * channels / RATE, pieces=4).times
    assert times is not None and times == pytest.approx(rate * channels / RATE, rel=0.02)
    told = sentence(times, "room.fifo", RATE, 1)
    assert said in told
    assert f"rate = {rate}, channels = {channels}" in told


@given(st.floats(0.8, 1.25))
def test_a_clock_that_is_a_little_off_is_no_other_rate(times: float) -> None:
    assert paced(times).times is None


def test_a_pause_and_a_burst_say_nothing() -> None:
    pace = paced(6.0)
    assert pace.times is not None
    pace.take(sound(NOISE[:800], 9.0, lost=True))
    assert pace.times is None
    pace = Pace()
    for at, size in ((1.0, 800), (2.0, 9_000), (3.1, 20_000), (4.2, 100_000), (5.3, 18_000)):
        pace.take(sound(np.zeros(size, np.int16), at))
    assert pace.times is None


def test_the_rate_that_is_meant_is_a_usual_one() -> None:
    assert likely(96_000) == (48_000, 2)
    assert likely(44_100) == (44_100, 1)
    assert likely(70_000) is None


def test_zeros_that_come_six_times_as_fast_are_not_three_seconds_of_them() -> None:
    heart = Heartbeat(3.0, live=True)
    zeros = np.zeros(4_800, np.int16)
    told = [heart.fault(sound(zeros, 1 + 0.05 * number)) for number in range(61)]
    assert told.index("zeros") == 54, "2.7 s, and the 0.3 s of the first, instead of a tenth of that"


def write_paced(path: Path, samples: NDArray[np.int16], times: int, stop: threading.Event) -> None:
    """Pour mono samples into a FIFO in chunks of 50 ms, each sample `times` times."""
    with path.open("wb", buffering=0) as fifo:
        due = time.monotonic()
        while not stop.is_set():
            for start in range(0, len(samples) - 800, 800):
                fifo.write(np.repeat(samples[start : start + 800], times).tobytes())
                due += 0.05
                if stop.wait(max(0.0, due - time.monotonic())):
                    return


@pytest.mark.slow
def test_stereo_of_48_khz_in_a_fifo_gets_a_sentence_and_no_restart(tmp_path: Path) -> None:
    path, stop = tmp_path / "room.fifo", threading.Event()
    sparse = np.concatenate((NOISE, np.zeros(2 * RATE, np.int16)))  # a gate between words
    with Listener(f"fifo:{path}", open_within=60.0) as listener:
        writer = threading.Thread(target=write_paced, args=(path, sparse, 6, stop))
        writer.start()
        listener.until(lambda: listener.capture.state.pace is not None)
        listener.until(lambda: sum(len(block.samples) for block in listener.blocks) > 36 * RATE)
        state = listener.capture.state
        stop.set()
        writer.join()
    assert state.problem is not None
    assert "six times as much sound comes as 16,000 Hz mono has: set rate and channels" in state.problem
    assert "rate = 48000, channels = 2" in state.problem
    assert not state.restarts


@pytest.mark.slow
def test_the_doctor_listens_until_it_knows_the_pace(tmp_path: Path) -> None:
    path, stop = tmp_path / "room.fifo", threading.Event()
    os.mkfifo(path)
    writer = threading.Thread(target=write_paced, args=(path, NOISE, 6, stop))
    writer.start()
    found = examine_microphone(lambda: _record_sound(CaptureSettings(source=f"fifo:{path}"), 3.0), lambda _: False)
    stop.set()
    writer.join()
    pace = next(each for each in found if each.check == "pace")
    assert pace.verdict == "bad" and "six times as much sound comes" in pace.sentence
    assert verdict_of(found) == 1


def test_status_and_doctor_say_what_is_wrong_with_sound_that_comes() -> None:
    state = CaptureState(running=True, problem="Six times.", note="Six channels.", level_dbfs=-30.0)
    assert [(f.check, f.verdict, f.sentence) for f in examine_state(state)[2:]] == [
        ("pace", "bad", "Six times."),
        ("channels", "doubtful", "Six channels."),
    ]


# -- channels


def test_more_than_two_channels_are_never_averaged_and_the_sentence_asks_for_one(tmp_path: Path) -> None:
    processed, playback = NOISE, RNG.integers(-9000, 9000, len(NOISE)).astype(np.int16)
    soundfile.write(tmp_path / "array.wav", np.stack([processed, NOISE // 2, NOISE // 3, playback], axis=1), RATE)
    for channel, expected in ((None, processed), (1, NOISE // 2), (3, playback)):
        with Listener(f"file:{tmp_path}/array.wav?pace=fast", channel=channel) as listener:
            listener.end()
        assert np.array_equal(listener.sound, expected)
        note = listener.capture.state.note
        assert (note is None) == (channel is not None)
        if note is not None:
            assert "has 4 channels, 0 to 3: channel 0 is listened to. Write channel = 0 to 3" in note


def test_a_channel_that_is_not_there_is_said() -> None:
    down = Downmix(RATE, 2, 5)
    stereo = np.stack([NOISE, -NOISE // 2], axis=1)
    assert np.array_equal(down.take(stereo), -NOISE // 2)
    assert down.note("ReSpeaker") == "ReSpeaker has no channel 5, but 0 to 1: channel 1 is listened to."
    for settings, words in (
        ({"source": "fifo:x", "channel": 1}, "channels = 1 has channel 0 alone"),
        ({"source": "mic", "channels": 4, "channel": 4}, "channels = 4 has channels 0 to 3"),
    ):
        with pytest.raises(SettingsError, match=words):
            parse_source(CaptureSettings(**settings))  # type: ignore[arg-type]


def test_a_card_is_opened_with_enough_channels_for_the_chosen_one() -> None:
    assert numbers(None, 1)[:4] == [2, 1, 4, 6], "arecord: an array refuses two and one"
    assert counts(None, 6, 6) == [6, 2, 1]
    assert numbers(None, 5)[:3] == [6, 8, 5] and numbers(None, 5)[-4:] == [2, 1, 4, 3]
    assert parse_source(CaptureSettings(source="mic", channel=5)).least == 6


@pytest.mark.parametrize("louder", [0, 1])
def test_of_opposite_channels_the_louder_is_taken_and_it_is_said_once(louder: int) -> None:
    quiet = -(NOISE // 2)
    stereo = np.stack([NOISE, quiet] if louder == 0 else [quiet, NOISE], axis=1)
    down, notes = Downmix(RATE, 2, None), []
    for start in range(0, len(stereo), 800):
        assert np.array_equal(down.take(stereo[start : start + 800]), NOISE[start : start + 800])
        notes.append(down.note("Card"))
    assert notes[0] is None, "one block is no evidence that a person is told of"
    assert f"opposite to each other, and their mean is next to silence: channel {louder}" in (notes[-1] or "")
    assert len(set(notes)) == 2


def test_of_opposite_channels_that_are_as_loud_one_is_kept() -> None:
    noise = np.random.default_rng(3).normal(0, 40, (2, len(NOISE)))
    stereo = np.stack([NOISE, -NOISE], axis=1) + np.rint(noise.T).astype(np.int16)
    down = Downmix(RATE, 2, None)
    taken = []
    for start in range(0, len(stereo), 800):
        block = down.take(stereo[start : start + 800])
        taken.append([np.array_equal(block, stereo[start : start + 800, each]) for each in range(2)].index(True))
    assert len(set(taken)) == 1


@pytest.mark.parametrize("of", ["same", "apart", "silent"])
def test_of_two_channels_that_are_not_opposite_the_mean_is_taken(of: str) -> None:
    other = {"same": NOISE, "apart": RNG.permutation(NOISE), "silent": NOISE * 0}[of]
    stereo = np.stack([NOISE, other], axis=1)
    down = Downmix(RATE, 2, None)
    assert np.array_equal(down.take(stereo), stereo.mean(axis=1, dtype=np.float32))
    assert down.note("Card") is None


def test_the_level_of_opposite_channels_is_that_of_the_louder() -> None:
    meter, alone = LevelMeter(None), LevelMeter(0)
    for frame in np.split(np.stack([NOISE, -NOISE], axis=1), 40):
        meter.take(sound(frame, 1.0))
        alone.take(sound(frame, 1.0))
    assert meter.levels == alone.levels and (meter.levels.noise_floor_dbfs or -120) > -30


# -- a busy card


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sub = tmp_path / "proc/asound/card1/pcm0c/sub0"
    sub.mkdir(parents=True)
    (sub / "status").write_text("state: RUNNING\nowner_pid   : 4242\ntrigger_time: 1.0\n")
    (tmp_path / "proc/4242").mkdir()
    (tmp_path / "proc/4242/comm").write_text("voice-assistant\n")
    return tmp_path


def test_who_holds_a_card_is_named(root: Path) -> None:
    assert holder(1, 0, str(root)) == (4242, "voice-assistant")
    assert holder(1, 1, str(root)) is None
    (root / "proc/asound/card1/pcm0c/sub0/status").write_text("closed\n")
    assert holder(1, 0, str(root)) is None


def test_a_busy_card_gets_one_sentence(root: Path) -> None:
    refusal = busy("The sound card plughw:CARD=Device,DEV=0", (1, 0), str(root))
    assert refusal.reason == "busy"
    assert str(refusal) == (
        "The sound card plughw:CARD=Device,DEV=0 is busy: voice-assistant (process 4242) records from it. End that "
        "program; until then it is tried again."
    )
    assert "another program records from it" in str(busy("USB", None))


RECORDER = """#!/usr/bin/env python3
import pathlib, sys, time
tries = pathlib.Path(sys.argv[0]).with_name("tries")
channels = int(sys.argv[sys.argv.index("-c") + 1])
tries.write_text(tries.read_text() + f"{channels} " if tries.exists() else f"{channels} ")
if "BUSY" in sys.argv[2] and len(tries.read_text().split()) < 3:
    sys.exit("arecord: main:831: audio open error: Device or resource busy")
if "ARRAY" in sys.argv[2] and channels != 6:
    sys.exit("arecord: set_params:1358: Channels count non available")
samples = b"".join(bytes([number + 1, number + 1]) for number in range(channels))
while True:
    sys.stdout.buffer.write(samples * 800)
    sys.stdout.buffer.flush()
    time.sleep(0.05)
"""


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorder that speaks as alsa-utils' own does of a card that is busy twice, or has six channels."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "arecord").write_text(RECORDER)
    (folder / "arecord").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_arecord_opens_an_array_with_its_own_channels_and_takes_the_chosen_one(recorder: Path) -> None:
    with Listener("arecord:ARRAY", rate=16_000, channel=4, open_within=60.0, silence_after=0.0) as listener:
        listener.until(lambda: listener.blocks)
        state = listener.capture.state
    assert state.channels == 6 and state.note is None
    assert set(listener.sound.tolist()) == {0x0505}
    assert (recorder / "tries").read_text().split()[0] == "6", "no fewer than the chosen one needs"


def test_a_card_that_is_busy_is_said_and_tried_again(recorder: Path) -> None:
    with Listener("arecord:BUSY", rate=16_000, channels=1, open_within=60.0, silence_after=0.0) as listener:
        listener.until(lambda: listener.blocks)
        state = listener.capture.state
    assert state.restarts == {"busy": 2}
    said = {told.problem for told in listener.states if told.problem is not None}
    assert said == {
        "The sound card BUSY is busy: another program records from it. End that program; until then it is tried again."
    }
