"""Sound systems of a test's own: ALSA's configuration, a card of `capture_card.c`, a PulseAudio server."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

PROGRAMS = {"pulseaudio": "pulseaudio", "pactl": "pulseaudio-utils", "arecord": "alsa-utils", "gcc": "gcc"}
SERVER = "pulseaudio --daemonize=no --exit-idle-time=-1 --disable-shm=yes --use-pid-file=no -n -L"
PLAYER = "pacat --playback --channels=2 --format=s16le --latency-msec=1000 --raw"
SOURCE = Path(__file__).with_name("capture_card.c")


def missing() -> str | None:
    """What has to be installed for these tests; None when all is there."""
    packages = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if not Path("/usr/include/alsa/pcm_external.h").exists():
        packages.append("libasound2-dev")
    if not list(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so")):
        packages.append("libasound2-plugins")
    if not list(Path("/usr/lib").glob("*/libportaudio.so.2")):
        packages.append("libportaudio2")
    python = [name for name in ("sounddevice", "soxr") if find_spec(name) is None]
    wanted = [f"apt install {' '.join(packages)}"] * bool(packages) + [f"pip install {' '.join(python)}"] * bool(python)
    return ", ".join(wanted) or None


def speech(seconds: float, seed: int = 0) -> NDArray[np.int16]:
    """Something like speech, 16 kHz: noise in bursts, of a spectrum that a microphone could give."""
    rng = np.random.default_rng(seed)
    noise = np.convolve(rng.normal(size=int(seconds * 16_000)), np.ones(8) / 8, "same")
    time_axis = np.arange(len(noise)) / 16_000
    loud = 0.2 + np.sin(2 * np.pi * 1.7 * time_axis) ** 2
    return (noise * loud * 6000).astype(np.int16)


def native(sound: NDArray[np.int16], rate: int) -> NDArray[np.int16]:
    import soxr

    return np.rint(soxr.resample(sound.astype(np.float32), 16_000, rate)).astype("<i2")


class Room:
    """ALSA as this test's processes see it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.fault_file = folder / "fault"
        self._config = folder / "asound.conf"
        monkeypatch.setenv("ALSA_CONFIG_PATH", str(self._config))
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
        self.fault("")

    def fault(self, name: str) -> None:
        """Give the card a fault; "" mends it."""
        fresh = self.fault_file.with_suffix(".new")
        fresh.write_text(name)
        fresh.rename(self.fault_file)

    def plug(self, **pcms: str) -> None:
        """Have these devices, in this order, and the last one as default; all others are gone."""
        text = 'pcm_type.pulse { lib "libasound_module_pcm_pulse.so" }\n'
        text += f'pcm_type.card {{ lib "{self.folder}/card.so" }}\n'
        default = list(pcms.values())[-1] if pcms else "type null"
        for name, body in {**pcms, "!default": default}.items():
            text += f"pcm.{name} {{ {body} hint.show on }}\n"
        fresh = self._config.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self._config)

    def build_card(self) -> None:
        command = ["gcc", "-shared", "-fPIC", "-DPIC", "-o", str(self.folder / "card.so"), str(SOURCE), "-lasound"]
        subprocess.run(command, check=True)

    def card(self, sound: NDArray[np.int16], rate: int, channels: int) -> str:
        """A card that gives this sound (16 kHz, mono) at its own rate, the same on all channels."""
        path = self.folder / f"sound{rate}x{channels}.raw"
        np.repeat(native(sound, rate)[:, None], channels, axis=1).tofile(path)
        return f'type card sound "{path}" fault "{self.fault_file}" rate {rate} channels {channels}'

    def monitor(self, sink: str) -> str:
        """A microphone in front of a loudspeaker of PulseAudio."""
        return f'type pulse server "unix:{self.folder}/native" device "{sink}.monitor"'

    @contextmanager
    def pulse(self) -> Iterator[Pulse]:
        self._server = Pulse(self.folder)
        try:
            yield self._server
        finally:
            self._server.kill()

    @contextmanager
    def kitchen(self, sound: NDArray[np.int16], rate: int = 44_100) -> Iterator[str]:
        """A loudspeaker that plays this over and over, with a microphone before it; the number of its module."""
        module = self._server.plug("kitchen", rate)
        self.plug(mic=self.monitor("kitchen"))
        player = self._server.play("kitchen", sound, rate)
        try:
            yield module
        finally:
            player.kill()
            player.wait()


class Pulse:
    def __init__(self, folder: Path) -> None:
        self._socket = folder / "native"
        self._socket.unlink(missing_ok=True)
        self._pactl = ["pactl", "--server", f"unix:{self._socket}"]
        module = f"module-native-protocol-unix socket={self._socket} auth-anonymous=1"
        self._process = subprocess.Popen(
            [*SERVER.split(), module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 20
        while subprocess.run([*self._pactl, "info"], capture_output=True).returncode:
            assert self._process.poll() is None and time.monotonic() < until, "pulseaudio did not start"
            time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, *words: str) -> str:
        return subprocess.run([*self._pactl, *words], check=True, capture_output=True, text=True).stdout.strip()

    def plug(self, sink: str, rate: int = 44_100) -> str:
        """Add a loudspeaker; the number of its module."""
        return self.ask("load-module", "module-null-sink", f"sink_name={sink}", f"rate={rate}", "channels=2")

    def unplug(self, module: str) -> None:
        self.ask("unload-module", module)

    def source_number(self, sink: str) -> int:
        """Index of the microphone in front of a loudspeaker."""
        lines = [line.split("\t") for line in self.ask("list", "short", "sources").splitlines()]
        return next(int(line[0]) for line in lines if line[1] == f"{sink}.monitor")

    def readers(self) -> int:
        return len(self.ask("list", "short", "source-outputs").splitlines())

    def play(self, sink: str, sound: NDArray[np.int16], rate: int = 44_100) -> subprocess.Popen[bytes]:
        """Play 16 kHz mono over and over, until the process is killed, resampled here as well as can be."""
        path = self._socket.with_name("played.raw")
        np.repeat(np.tile(native(sound, rate), 20)[:, None], 2, axis=1).tofile(path)
        where = ["--server", f"unix:{self._socket}", "--device", sink, f"--rate={rate}", str(path)]
        return subprocess.Popen([*PLAYER.split(), *where])
