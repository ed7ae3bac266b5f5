"""What a laptop needs runs without what Linux alone has; a Mac itself was never seen (docs/fleet.md says so).

Each command is started with `on_macos/sitecustomize.py`, which hides from it, and from the children that it starts,
epoll, prlimit, memfd and their like, /proc and /sys, and says that this is macOS.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.system.conftest import Command

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HIDDEN = Path(__file__).parent / "on_macos"
TINY = ["--devices", "2", "--unseen", "1", "--rounds", "1", "--takes", "3", "--min-clips", "4", "--words", "yes,no"]
LIMITS = """
import resource, sys
from auricle.process.open_files import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(sys.platform, raise_open_files(), raise_open_files(1), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
CLIP = """
import numpy as np
from auricle_edge.clips.coding import AUDIO, decode, encode_audio
from auricle_edge.clips.record import Record
said = np.arange(16000, dtype=np.int16)
told = Record(id="0123456789ab", word="yes", source="confirmed", weight=1.0, created=1.8e9, held_out=False)
again = decode(encode_audio(said, told), AUDIO)
assert (again.samples == said).all() and again.record == told
"""
WATCHED = """
import os, sys, time
from auricle_edge.listening.capture.child_parts import die_with
die_with(int(sys.argv[1]))
print("watches", flush=True)
time.sleep(600)
"""
PARENT = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
time.sleep(600)
"""


def environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(HIDDEN), os.environ.get("PYTHONPATH", "")]), "COLUMNS": "200"}


def hidden(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    told = {"capture_output": True, "text": True, "timeout": 500, "check": False}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env={**os.environ, **environment()}, **told)


def auricle(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = hidden("-m", "auricle", *arguments, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_it_is_hidden(tmp_path: Path) -> None:
    program = (
        "import os, resource, select, socket, sys; from pathlib import Path; "
        "print(sys.platform, [hasattr(*each) for each in ((os, 'memfd_create'), (os, 'pipe2'), (select, 'epoll'), "
        "(resource, 'prlimit'), (socket, 'SOCK_CLOEXEC'))], Path('/proc/self').exists(), os.path.exists('/sys'))"
    )
    done = hidden("-c", program, cwd=tmp_path)
    assert done.stdout.split("\n")[0] == "darwin [False, False, False, False, False] False False", done.stderr


@pytest.mark.nightly
def test_no_name_is_used_that_macos_has_not(tmp_path: Path) -> None:
    """Outside of what asks for Linux first: typeshed knows which names of the standard library are whose."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--platform", "darwin", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
def test_a_fleet_is_emulated(tmp_path: Path) -> None:
    pytest.importorskip("amqtt")
    done = auricle("fleet", "run", *TINY, "--local", "crnn-lite", "--broker", "amqtt", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert row["counted"] == 2
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_microphones_child_reads_a_recording_and_its_words_are_heard(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    from auricle.speech.synthesis import SynthesisSettings, synthesise

    speech = synthesise(SynthesisSettings(words="yes,stop,no", speakers=3, takes=2))
    quiet = np.zeros(16000, np.int16)
    said = [part for audio in speech.audio for part in (audio, quiet)]
    soundfile.write(tmp_path / "said.wav", np.concatenate([quiet, quiet, *said]), 16000)
    run = ["edge", "run", "--source", "file:said.wav?pace=fast", "--pack", "gsc12-res"]
    done = auricle(*run, "--device", "laptop-1", "--state", "state", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["word"] for line in told if line.get("type") == "detection"} & {"yes", "no", "stop"}


def test_clips_are_coded_in_memory(tmp_path: Path) -> None:
    done = hidden("-c", CLIP, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_a_capture_child_ends_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WATCHED], env={**os.environ, **environment()}, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout as said:
        assert said.readline() == "watches\n"
        parent.send_signal(signal.SIGKILL)
        parent.wait(30)
        assert said.read() == ""  # its end comes when the child has closed it too


def test_the_limit_of_open_files_is_lifted_and_of_others_left(tmp_path: Path) -> None:
    done = hidden("-c", LIMITS, cwd=tmp_path)
    platform, *limits = done.stdout.split()
    assert platform == "darwin", done.stderr
    assert len(set(limits)) == 1
    assert int(limits[0]) > 256


def test_doctors_say_what_they_know(tmp_path: Path) -> None:
    edge = auricle("edge", "doctor", "--simulate", "--state", "state", "--json", cwd=tmp_path)
    cloud = auricle("cloud", "--state", "state", "doctor", "--json", cwd=tmp_path)
    found: Mapping[str, Mapping[str, str]] = {each["check"]: each for each in json.loads(edge.stdout)["findings"]}
    assert {found[name]["verdict"] for name in ("processor", "memory", "pack", "disk")} == {"good"}
    assert "how much is free" in found["memory"]["sentence"]
    assert "0 MiB" not in cloud.stdout


@pytest.mark.parametrize("source", ["", "alsa:CARD=x", "arecord"])
def test_what_only_linux_has_is_refused_in_a_sentence(source: str, tmp_path: Path) -> None:
    pytest.importorskip("sounddevice" if source else "onnx", exc_type=OSError)
    heard = ["edge", "run", "--device", "laptop-1", "--state", "s", "--source", source]
    done = auricle(*(heard if source else ["flash", "disks"]), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Linux" in done.stderr and source.partition(":")[0] in done.stderr


def test_a_coordinator_serves_its_page(tmp_path: Path, start: Callable[..., Command]) -> None:
    pytest.importorskip("amqtt")
    serve = ["cloud", "serve", "--broker", "embedded", "--embedded-port", "0", "--listen", "127.0.0.1:0", "--json"]
    state = str(tmp_path / "state")
    command = start(*serve, "--fleet", "home", "--pack", "digits", "--state", state, env=environment())
    line = command.wait_line(lambda line: "coordinator" in line)
    url = next(value for value in line.values() if str(value).startswith("http://"))
    with urllib.request.urlopen(f"{url}/healthz", timeout=60) as answer:
        assert answer.status == 200
    command.signal(signal.SIGTERM)
    assert command.end() == 0, command.errors
