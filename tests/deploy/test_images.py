"""The Dockerfiles, executed step by step by buildah on Debian roots that stand in for the Python images they name."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arm64.board import cache_folder
from tests.arm64.debian import DebianRoot, alone
from tests.arm64.emulation import UnavailableError, tried
from tests.deploy.composition import DEPLOY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        "AURICLE_BUILD_IMAGES" not in os.environ, reason="takes a quarter of an hour: set AURICLE_BUILD_IMAGES=1"
    ),
]

BASE = re.compile(r"^FROM (python:[^\s@]+-(\w+))$", re.MULTILINE)
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")
"""What stands in for a base has another."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""What this machine believes, for pip in the build: a proxy may stand before the package index."""


class Buildah:
    """buildah without an engine: chroot for isolation, images in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._common = ["buildah", "--root", folder / "images", "--runroot", folder / "run", "--storage-driver", "vfs"]

    def run(self, *arguments: str | Path) -> str:
        """Run buildah; what it printed."""
        done = tried([*self._common, *arguments], env={**os.environ, "BUILDAH_ISOLATION": "chroot"})
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def stand_in(self, name: str, suite: str) -> None:
        """Make an image of this name from Debian's own Python of the same release."""
        packages = ("python3", "python3-venv", "libportaudio2")
        root = DebianRoot(cache_folder(f"boards-amd64-{suite}"), "amd64", suite, packages)
        with alone(root.folder, print):
            try:
                root.make(print)
            except UnavailableError as error:
                pytest.skip(str(error))
            container = self.run("from", "scratch")
            self.run("add", "-q", container, root.path, "/")
        self.run("run", container, "--", "ln", "-s", "/usr/bin/python3", "/usr/local/bin/python")
        self.run("copy", "-q", container, CERTIFICATES, CERTIFICATES)
        self.run("config", "--env", f"PIP_CERT={CERTIFICATES}", container)
        self.run("commit", "-q", container, f"docker.io/library/{name}")
        self.run("rm", container)


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Storage for images, gone at the end."""
    if shutil.which("buildah") is None or os.geteuid() != 0:
        pytest.skip("buildah is not installed, or this is not root")
    folder = tmp_path_factory.mktemp("buildah")
    yield Buildah(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("name", "module"),
    [("coordinator", "auricle_cloud.service"), ("agent", "auricle_edge.service.listening_device")],
    ids=["coordinator", "agent"],
)
def test_the_dockerfile_makes_an_image_that_runs_as_its_user(
    buildah: Buildah, name: str, module: str, tmp_path: Path
) -> None:
    dockerfile = tmp_path / f"{name}.Dockerfile"
    dockerfile.write_text(DIGEST.sub("", (DEPLOY / dockerfile.name).read_text()))
    for image, suite in dict.fromkeys(BASE.findall(re.sub(r" AS \w+", "", dockerfile.read_text()))):
        buildah.stand_in(image, suite)

    ignored = DEPLOY / f"{name}.Dockerfile.dockerignore"
    buildah.run("bud", "--pull-never", "--ignorefile", ignored, "--file", dockerfile, "--tag", name, DEPLOY.parent)

    config = json.loads(buildah.run("inspect", "--type", "image", name))["OCIv1"]["config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["auricle"]
    container = buildah.run("from", "--pull-never", name)
    said = buildah.run("run", container, "--", "python3", "-c", f"import {module}, os; print(os.getuid(), os.getgid())")
    assert said == "10001 10001"
    assert "auricle" in buildah.run("run", container, "--", "auricle", "--version")
    assert buildah.run("run", container, "--", "sh", "-c", "ls /opt/auricle/bin | grep -c '^pip' || true") == "0"
    own = buildah.run("run", container, "--", "stat", "--format=%U %a", "/var/lib/auricle")
    assert own == "auricle 700"
    if name == "coordinator":
        prepare = (
            "AURICLE_FLEET=home AURICLE_HOSTS=hub.lan AURICLE_BROKER_FOLDER=/etc/auricle/broker auricle-first-start"
        )
        buildah.run("run", container, "--", "sh", "-c", prepare)
        assert "mosquitto.conf" in buildah.run("run", container, "--", "ls", "/etc/auricle/broker")
