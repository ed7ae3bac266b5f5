"""Which part may import what, and that each installs and imports by itself."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
import venv
from importlib import import_module
from pathlib import Path

import pytest

from tests.nightly import nightly_but

ROOT = Path(__file__).parents[1]
SOURCES = ("core", "learning", "edge", "cloud", "export", "fleet")

IMPORT_ALL = """
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"{{name}} must not be imported", name=name)
sys.meta_path.insert(0, Absent())
for name in {names!r}:
    importlib.import_module(name)
assert not {absent!r} & {{name.split(".")[0] for name in sys.modules}}
"""


def modules(package: str) -> list[str]:
    found = import_module(package)
    names = [name for _, name, _ in pkgutil.walk_packages(found.__path__, f"{package}.")]
    if sys.version_info < (3, 11):  # there is no aioesphomeapi for it
        names = [name for name in names if not name.startswith("auricle_edge.listening.assist.")]
    # alembic runs the migrations' environment itself, in a context of its own.
    return [package, *(name for name in names if not name.endswith(("__main__", "migrations.env")))]


@pytest.mark.parametrize("part", ["auricle", "auricle_learning", "auricle_edge", "auricle_cloud", "auricle_fleet"])
@pytest.mark.slow
def test_no_module_of_a_part_imports_pytorch_or_another_parts_needs(part: str) -> None:
    absent = {"torch", "onnxscript"} | {
        "auricle": {"onnxruntime", "soundfile", "sqlalchemy", "safetensors", "amqtt", "click"},
        "auricle_learning": {
            "soundfile",
            "sqlalchemy",
            "aiohttp",
            "amqtt",
            "auricle_edge",
            "auricle_cloud",
            "auricle_fleet",
        },
        "auricle_edge": {"sqlalchemy", "aiohttp", "amqtt", "auricle_cloud", "auricle_fleet"},
        "auricle_cloud": {"onnxruntime", "soundfile", "amqtt", "auricle_edge", "auricle_fleet"},
        "auricle_fleet": {"auricle_export"},
    }[part]

    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL.format(absent=absent, names=modules(part))],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_command_loads_no_http_server_and_nothing_that_migrates() -> None:
    program = "import sys, auricle_cloud.commands; print({'aiohttp', 'alembic'} & {*sys.modules})"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)

    assert done.stdout == "set()\n"


def test_the_import_rules_hold() -> None:
    program = shutil.which("lint-imports", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("import-linter is not installed")

    done = subprocess.run(
        [program, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / source) for source in SOURCES)},
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("extra", nightly_but(["", "edge,updates,assist", "cloud", "fleet", "export"], [""]))
def test_every_extra_installs_alone_and_its_part_imports(extra: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    names = modules(f"auricle_{extra.split(',')[0]}") if extra else modules("auricle")

    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted],
        capture_output=True,
        text=True,
        env=clean,
        cwd=tmp_path,
        check=False,
    )
    imported = subprocess.run(
        [python, "-c", IMPORT_ALL.format(absent=set() if extra == "export" else {"torch"}, names=names)],
        capture_output=True,
        text=True,
        env=clean,
        cwd=tmp_path,
        check=False,
    )
    helped = subprocess.run(
        [tmp_path / "env" / "bin" / "auricle", *([extra.split(",")[0]] if extra else []), "--help"],
        capture_output=True,
        text=True,
        env=clean,
        cwd=tmp_path,
        check=False,
    )

    assert installed.returncode == 0, installed.stderr
    assert imported.returncode == 0, imported.stderr
    assert helped.returncode == 0, helped.stderr
