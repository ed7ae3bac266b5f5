"""What `auricle edge doctor` looks at: the board, its broker, and the microphone or the service that has it."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET, structs
from numpy.typing import NDArray

from auricle.errors import AuricleError, DataError
from auricle.mqtt_link.private_link import broker_of
from auricle.packs.pack import Pack
from auricle.packs.shipped import DEFAULT_PACK
from auricle.packs.signature import read_trusted_key
from auricle.process.checkup import Finding
from auricle.speech.features import LogMel
from auricle_edge.board.gate import GateSettings
from auricle_edge.board.sensors import Sensors
from auricle_edge.control.client import SOCKET, ControlClient
from auricle_edge.listening.capture.capture import Capture
from auricle_edge.listening.capture.levels import Levels
from auricle_edge.listening.capture.settings import CaptureSettings, parse_source
from auricle_edge.listening.detect import Detector, DetectTable, detect_settings
from auricle_edge.listening.events.buttons import ButtonSettings
from auricle_edge.listening.listening_status import CaptureState
from auricle_edge.listening.sound import RATE, Block
from auricle_edge.ota.pack_shelf import PackShelf
from auricle_edge.service.checkup import (
    Heard,
    examine_board,
    examine_home,
    examine_messages,
    examine_microphone,
)
from auricle_edge.service.microphone_check import examine_state
from auricle_edge.service.simulation import examine_expected
from auricle_edge.settings import EdgeSettings

_PACE_SECONDS = 5.0
"""Seconds after which the pace of sound that comes too fast is known."""
PATIENCE_SECONDS = 6.0
"""Seconds more than the wanted ones that a microphone may take."""


def examine(
    settings: EdgeSettings | None, folder: Path, source: str | None, seconds: float, *, simulate: bool
) -> list[Finding]:
    """Look at everything that the service of a device needs.

    Parameters
    ----------
    settings
        Of the device; None where it has no file of settings.
    folder
        Its state folder.
    source
        What to listen to; None: that of the settings, or the running service's word where one runs.
    seconds
        How long to listen.
    simulate
        Assume that microphone, GPIO lines and required sensors are there.
    """
    name, key = (DEFAULT_PACK, None) if settings is None else (settings.pack, settings.pack_key)
    gate = GateSettings() if settings is None else settings.gate
    told = None if settings is None or settings.broker is None else settings
    broker = None if told is None or told.broker is None else broker_of(told.broker, told.device or "", folder)
    shelf = PackShelf(folder, name, read_trusted_key(key))
    capture = CaptureSettings() if settings is None else settings.capture
    capture = capture if source is None else msgspec.structs.replace(capture, source=source)
    sensors = Sensors(Path("/"), gate)
    runtime = "auto" if settings is None else settings.runtime
    found = examine_board(Path("/"), folder, shelf.current, sensors, broker, required=gate.required, runtime=runtime)
    if told is not None and broker is not None and not (folder / SOCKET).exists() and _is_good(found, "broker"):
        found += examine_messages(broker, told.fleet or "", told.device or "", shelf.current)
    found += [] if settings is None else examine_home(settings.events, settings.assist)
    if simulate:
        buttons = ButtonSettings() if settings is None else settings.buttons
        found = [each for each in found if each.check != "sensors"]
        found += examine_expected(capture, buttons, gate, sensors())
    elif (folder / SOCKET).exists() and source is None:
        found += _service(ControlClient(folder))
    else:
        found += examine_microphone(
            lambda: _record_sound(capture, seconds), lambda sound: _opens_gate(shelf.current(), sound)
        )
    return found


def _is_good(found: list[Finding], check: str) -> bool:
    return any(each.check == check and each.verdict == "good" for each in found)


def _service(client: ControlClient) -> list[Finding]:
    """What the running service says of its microphone, which nobody else can open, and of its fleet's pack."""
    try:
        told = client.get("/v1/status")
        sound = msgspec.convert(told["capture"], CaptureState)
        other = msgspec.convert(told.get("fleet"), _Fleet | None)
    except (AuricleError, KeyError, msgspec.MsgspecError) as error:
        return [Finding(check="service", verdict="bad", sentence=str(error))]
    found = _its_microphone(sound)
    if other is not None and other.other_pack is not None:
        found.append(Finding(check="fleet", verdict="bad", sentence=other.other_pack))
    return found


class _Fleet(msgspec.Struct, frozen=True):
    other_pack: str | None = None


def _its_microphone(sound: CaptureState) -> list[Finding]:
    if sound.muted:
        return [Finding(check="microphone", verdict="good", sentence="The service runs, and the microphone is muted.")]
    if not sound.running:
        sentence = f"The service runs and hears nothing: {sound.problem or 'no sound yet.'}"
        return [Finding(check="microphone", verdict="bad", sentence=sentence)]
    sentence = f"The service listens to {sound.device} at {sound.native_rate} Hz."
    return [Finding(check="microphone", verdict="good", sentence=sentence), *examine_state(sound)]


def _record_sound(settings: CaptureSettings, seconds: float) -> Heard:
    """Listen for some seconds; DataError when no sound comes."""
    capture = Capture(settings)
    capture.start()
    patience = threading.Timer(seconds + PATIENCE_SECONDS, capture.stop)
    patience.start()
    pieces, length, begun, live = [], 0, 0.0, not parse_source(settings).recorded
    try:
        for block in capture.blocks():
            pieces.append(block.samples)
            length += len(block.samples)
            begun = begun or block.arrived
            passed = block.arrived - begun
            too_fast = live and length > (1.25 * passed + 0.5) * RATE
            if length >= seconds * RATE and not (too_fast and capture.state.pace is None and passed < _PACE_SECONDS):
                break
    finally:
        patience.cancel()
        capture.stop()
    state = capture.state
    if not pieces or state.native_rate is None or state.channels is None:
        raise DataError(state.problem or f"{settings.source} gave no sound within {seconds + PATIENCE_SECONDS:.0f} s.")
    levels = Levels(state.noise_floor_dbfs, state.dc_offset, state.hum_share, state.hum_hz)
    device = state.device or settings.source
    samples = np.concatenate(pieces)[: math.ceil(max(seconds, 1) * RATE)]
    problem = None if state.pace is None else state.problem
    return Heard(device, state.native_rate, state.channels, samples, levels, problem, state.note)


def _opens_gate(pack: Pack, samples: NDArray[np.int16]) -> bool:
    """Whether the voice gate opens at some point of the sound."""
    labels = pack.labels
    chosen = detect_settings(DetectTable(), pack)
    task = pack.manifest.task
    bare = structs.replace(task, frontend=structs.replace(task.frontend, network=UNSET))
    detector = Detector(LogMel(bare), labels, lambda x: np.zeros((len(x), len(labels)), np.float32), chosen)
    detector.feed(Block(samples, 0, 0.0))
    return detector.figures.open_share > 0
