"""Capture from recordings and FIFOs: the same child, heartbeat and restarts as a microphone's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import soundfile
from tests.edge.capture_listener import Listener

from auricle.errors import SettingsError
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.mute_switch import FileSwitch, mute_switch
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.sound import RATE

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


def test_a_recording_whose_child_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", NOISE, RATE)
    killed: list[int] = []

    def work(block: object) -> None:
        child = listener.capture._child
        if len(listener.blocks) == 20 and child is not None:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)

    with Listener(f"file:{tmp_path}/a.flac?pace=fast&loop=0", work) as listener:
        listener.end()
    assert killed
    assert np.array_equal(listener.sound, NOISE)


def test_a_loop_begins_again(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", NOISE[:8000], RATE)
    with Listener(f"file:{tmp_path}/a.wav?pace=fast&loop=1") as listener:
        listener.until(lambda: sum(len(block.samples) for block in listener.blocks) >= 24_000)
    assert np.array_equal(listener.sound[:24_000], np.tile(NOISE[:8000], 3))


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
        for _ in range(80):
            writer.write(dead)
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
