"""A runtime's library that ends the process: packages of that name that signal themselves, in true processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.core import tiny_pack
from tests.edge.slots_bundle import Device, identity, make_bundle
from tests.edge.slots_guard import device as device
from tests.edge.slots_guard import folder as folder
from tests.edge.slots_guard import old as old
from tests.edge.slots_guard import on_trial, run

from auricle.errors import AuricleError, pip_command
from auricle_edge.ota.bundle_request import BundleRequest
from auricle_edge.ota.installation import Installation
from auricle_edge.ota.records import FAILED, FOLDER, Failed, Progress, Wanted, own_record
from auricle_edge.runtimes import choose_runtime
from auricle_learning.native import compiling, first_use, library
from auricle_learning.native.first_use import RuntimeDiesError, death_of, usable

ROOT = Path(__file__).parents[2]
PARTS = [str(ROOT / part) for part in ("core", "learning", "edge", "cloud", "export", "fleet")]
DIES = "import os, signal\nos.kill(os.getpid(), signal.{})\n"
LIVES = """\
with open({count!r}, "a") as file:
    file.write("imported\\n")


class InferenceSession:
    def __init__(self, *given, **named): ...

    def run(self, *given): ...
"""
SENTENCE = (
    'onnxruntime 9.9.1 dies of {} on this {} processor: choose --runtime native (runtime = "native"), or install '
    "another version ({})."
)


def put_package(place: Path, code: str, name: str = "onnxruntime") -> Path:
    """A package as an installer leaves it, version 9.9.1."""
    info = place / f"{name}-9.9.1.dist-info"
    for made in (place / name, info):
        made.mkdir(parents=True)
    (place / name / "__init__.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9.1\n")
    return place


@pytest.fixture(autouse=True)
def without_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing was tried, with no library of the runtime native."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    for module in (library, compiling):
        monkeypatch.setattr(module, "shipped", lambda _: tmp_path / "none.so")
    first_use._tried.cache_clear()


def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.syspath_prepend(str(put_package(tmp_path / "site", code)))


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGBUS"])
def test_what_dies_in_the_child_is_one_sentence_and_this_process_lives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, monkeypatch, DIES.format(name))
    words = (signal.strsignal(signal.Signals[name]) or "").lower()
    due = SENTENCE.format(f"{name} ({words})", os.uname().machine, pip_command("onnxruntime<9.9"))

    assert death_of("step") == due
    assert not usable()
    with pytest.raises(RuntimeDiesError) as refused:
        choose_runtime("step", tiny_pack.pack())
    assert str(refused.value) == due
    with pytest.raises(RuntimeDiesError, match="dies of"):
        choose_runtime("auto", tiny_pack.pack())


def test_what_cannot_be_imported_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "raise ImportError('GLIBC_2.38 not found')")

    said = death_of("step")

    assert said is not None and "cannot be used (ImportError: GLIBC_2.38 not found) on this" in said


def test_what_can_train_is_tried_without_the_modules_of_it_that_need_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package as onnxruntime-training is, on a device that has no PyTorch."""
    installed(tmp_path, monkeypatch, LIVES.format(count=str(tmp_path / "count")))
    place = tmp_path / "site"
    put_package(place, "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", "torch")
    training = place / "onnxruntime" / "training"
    training.mkdir()
    for name, code in {"__init__": "from . import amp, optim", "amp": "import torch", "optim": "import torch"}.items():
        (training / f"{name}.py").write_text(code)

    said = death_of("ort-training")
    assert said is not None and said.startswith("The runtime ort-training needs onnxruntime-training"), "it has no api"

    (training / "api.py").write_text("")
    first_use._tried.cache_clear()
    assert death_of("ort-training") is None


def test_what_lives_is_tried_once_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    installed(tmp_path, monkeypatch, LIVES.format(count=str(count)))
    for _ in range(2):
        first_use._tried.cache_clear()  # as in another process
        assert death_of("step") is None
    assert count.read_text() == "imported\n"

    metadata = tmp_path / "site/onnxruntime-9.9.1.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("9.9.1", "9.9.2"))
    assert death_of("step") is None
    assert count.read_text() == "imported\nimported\n"


def test_what_hangs_is_ended_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, monkeypatch, "import signal\nsignal.pause()\n")
    monkeypatch.setattr(first_use, "LONGEST_SECONDS", 0.5)

    said = death_of("step")

    assert said is not None and "had computed nothing after 0 s" in said


def test_whether_onnxruntime_can_train_is_seen_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python finds a module in a package by importing the package."""
    place = put_package(tmp_path / "site", DIES.format("SIGILL"))
    program = (
        "from tests.core import tiny_pack\nfrom auricle_edge.runtimes.choice import RUNTIMES\n"
        "print(RUNTIMES['ort-training'].missing(tiny_pack.pack(), True))\n"
    )
    path = os.pathsep.join([str(place), str(ROOT), *PARTS])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0 and "onnxruntime-training" in done.stdout, done


@pytest.mark.slow
@pytest.mark.parametrize("command", ["doctor", "run"])
def test_the_commands_of_a_device_say_it_and_exit_with_an_error(command: str, tmp_path: Path) -> None:
    place, state = put_package(tmp_path / "site", DIES.format("SIGILL")), tmp_path / "state"
    state.mkdir()
    config = tmp_path / "edge.toml"
    config.write_text(f'device = "dev-a"\npack = "digits"\nruntime = "step"\nstate = "{state}"\n')
    options = ["--simulate"] if command == "doctor" else []
    done = subprocess.run(
        [sys.executable, "-m", "auricle", "edge", command, "--config", str(config), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *PARTS]), "COLUMNS": "1000"},
    )
    assert done.returncode in (1, 2), done
    assert "onnxruntime 9.9.1 dies of SIGILL (illegal instruction) on this" in " ".join(
        (done.stdout + done.stderr).split()
    )
    assert "Traceback" not in done.stderr


AGENT = """\
import sys

from auricle.errors import AuricleError, pip_command
from auricle_edge.ota.following import note_failure
from auricle_learning.native.first_use import refuse_dead
from auricle_edge.settings import EdgeSettings


def main():
    try:
        refuse_dead("step")
    except AuricleError as error:
        note_failure(EdgeSettings(device="dev-a", state=sys.argv[1]), str(error))
        sys.exit(str(error))
"""


@pytest.mark.slow
def test_a_slot_whose_runtime_dies_is_rolled_back_and_the_version_before_tells_why(
    device: Device, folder: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent of the new slot starts three times, with its own onnxruntime, and root goes back to the old one."""
    info = "onnxruntime-9.9.1.dist-info/METADATA"
    new = make_bundle(
        folder / "new",
        "2.0",
        in_wheel={
            "auricle_probe/__init__.py": AGENT.encode(),
            "onnxruntime/__init__.py": DIES.format("SIGILL").encode(),
            info: b"Metadata-Version: 2.1\nName: onnxruntime\nVersion: 9.9.1\n",
        },
    )
    on_trial(device, old, new)
    state = folder / "state"
    (state / FOLDER).mkdir(parents=True)
    (site,) = (device.home / "b").glob("lib/python*/site-packages")
    rest = [path for path in sys.path if path and Path(path).is_dir()]
    starts = 0
    while run(device, "starting") == 0 and device.journal()["active"] == "b":
        starts += 1
        done = subprocess.run(
            [sys.executable, "-c", "from auricle_probe import main; main()", str(state)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(site), *rest]),
                "AURICLE_INSTALLATION": str(device.home),
            },
        )
        assert done.returncode == 1 and done.stderr.startswith("onnxruntime 9.9.1 dies of SIGILL"), done
    assert starts == 3
    assert device.probe() == "1.0"
    assert device.journal()["last"]["outcome"] == "reverted"

    monkeypatch.setenv("AURICLE_INSTALLATION", str(device.home))
    installation, wanted = Installation(), Wanted(rollout="r7", path="bundle/2.0.tar", identity=identity(new))
    request = BundleRequest(state / FOLDER, installation, installation.running())
    outcome = request.outcome(Progress(kind="bundle", wanted=wanted, state="trial"))
    assert outcome.state == "failed"
    assert outcome.reason.startswith("onnxruntime 9.9.1 dies of SIGILL (illegal instruction) on this")
    assert own_record(state / FOLDER / FAILED, Failed) is not None
    request.write(wanted)  # another trial of the same bundle may end in another way
    assert own_record(state / FOLDER / FAILED, Failed) is None


def test_runtimes_that_are_not_ours_are_not_tried() -> None:
    assert death_of("counting") is None
    with pytest.raises(AuricleError, match="There is no runtime"):
        choose_runtime("countin", tiny_pack.pack())
