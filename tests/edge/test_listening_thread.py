"""The listening thread on a recording: what it hands on, and what it closes when the sound is over."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import soundfile
from tests.edge.test_detect_states import STEPS, Script
from tests.edge.test_detector import FRONTEND

from auricle.errors import AuricleError
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.settings import CaptureSettings
from auricle_edge.listening.detect import Detector
from auricle_edge.listening.listening_thread import AudioBroadcast, ListeningThread
from auricle_edge.listening.sound import RATE, Detection, Event, Timeout


def test_a_window_that_is_open_when_the_recording_ends_is_closed_before_the_end_is_told(tmp_path: Path) -> None:
    """A second and 0.2 s of sound: the wake word in the first whole window, and the end before its 0.5 s are over."""
    soundfile.write(tmp_path / "a.wav", np.zeros(RATE + 3200, np.int16), RATE)
    capture = Capture(CaptureSettings(source=f"file:{tmp_path}/a.wav?pace=fast&loop=0", open_within=60.0))
    detector = Detector(FRONTEND, ("low", "high", "_silence_"), Script([(0.6, 0.0)]), STEPS)
    told: list[Event | AuricleError | None] = []
    over = threading.Event()

    def ended(error: AuricleError | None) -> None:
        told.append(error)
        over.set()

    listener = ListeningThread(capture, detector, told.append, AudioBroadcast(), ended)
    capture.start()
    listener.start()
    assert over.wait(60)
    listener.join()
    capture.stop()
    wake, closed, end = told
    assert isinstance(wake, Detection) and wake.kind == "wake"
    assert isinstance(closed, Timeout) and closed.wake == wake.id
    assert end is None


def test_a_thread_that_never_began_is_over(tmp_path: Path) -> None:
    """A service whose outputs cannot be opened ends before it listens, and says which one it was."""
    capture = Capture(CaptureSettings(source=f"file:{tmp_path}/a.wav", open_within=60.0))
    detector = Detector(FRONTEND, ("low", "high", "_silence_"), Script([]), STEPS)
    ListeningThread(capture, detector, lambda _: None, AudioBroadcast(), lambda _: None).join()
