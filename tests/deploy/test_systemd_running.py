"""The systemd units, installed as docs/deploy.md says, on a running systemd: ready, closed in, told of revocations."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.arm64.board import cache_folder
from tests.arm64.debian import INSIDE, DebianRoot, alone
from tests.arm64.emulation import UnavailableError, run
from tests.arm64.wheels import CHECKOUT
from tests.deploy.composition import DEPLOY
from tests.deploy.lock import TARGETS, lock_of
from tests.edge.slots_machine import PACKAGES, Machine

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1500)]

STATE = "/var/lib/auricle-cloud"
READY = f"""
import ssl, urllib.request
trust = ssl.create_default_context(cafile="{STATE}/authority/root.pem")
print(urllib.request.urlopen("https://localhost:8443/readyz", context=trust, timeout=4).read().decode())
"""
PASSPHRASE = "/etc/auricle/authority-passphrase"
OPERATOR = (
    *("runuser", "-u", "auricle-cloud", "--", "env", f"AURICLE_STATE={STATE}"),
    f"AURICLE_AUTHORITY_PASSPHRASE_FILE={PASSPHRASE}",
    "/opt/auricle-cloud/bin/auricle",
    "cloud",
)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A Debian with mosquitto, the coordinator installed from the locked wheels and this checkout, and its units."""
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("only root on x86_64 can start this container")
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    base = DebianRoot(cache_folder("systemd-amd64-trixie"), "amd64", "trixie", (*PACKAGES, "python3-venv", "mosquitto"))
    folder = base.folder / "try-deploy"
    try:
        with alone(base.folder, print):
            base.make(print)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            run("cp", "-a", "--reflink=auto", base.path, folder)
        install(folder / "root")
    except UnavailableError as error:
        pytest.skip(str(error))
    yield folder / "root"
    shutil.rmtree(folder)


def install(root: Path) -> None:
    """The steps of docs/deploy.md."""
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")  # a proxy may stand before the package index
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    shutil.copy(certificates, root / "etc/ssl/certs")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    checkout = root / "opt/checkout"
    private = shutil.ignore_patterns("__pycache__", "secrets", ".env")
    for part in ("core", "learning", "edge", "cloud", "export", "fleet", "firmware-configs", "deploy"):
        shutil.copytree(CHECKOUT / part, checkout / part, ignore=private)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, checkout)

    def inside(*command: str) -> None:
        pip = {"PIP_CERT": str(certificates), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        run("chroot", root, *command, env={**INSIDE, **pip})

    pip = ("/opt/auricle-cloud/bin/pip", "install", "-q", "--no-cache-dir")
    inside("python3", "-m", "venv", "/opt/auricle-cloud")
    for lock in (lock_of(TARGETS[0]), DEPLOY / "requirements" / "build.txt"):
        inside(*pip, "--require-hashes", "--only-binary=:all:", "-r", f"/opt/checkout/{lock.relative_to(CHECKOUT)}")
    inside(*pip, "--no-deps", "--no-index", "--no-build-isolation", "/opt/checkout")
    inside("install", "-m", "755", "/opt/checkout/deploy/first-start", "/opt/auricle-cloud/bin/auricle-first-start")
    units = "/opt/checkout/deploy/systemd"
    inside("install", "-m", "644", f"{units}/sysusers.conf", "/usr/lib/sysusers.d/auricle-cloud.conf")
    inside("systemd-sysusers")
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        inside("install", "-m", "644", f"/opt/checkout/deploy/systemd/{unit.name}", "/etc/systemd/system/")
    inside("install", "-m", "644", "-D", "/opt/checkout/deploy/systemd/auricle-cloud.env", "/etc/auricle/cloud.env")
    (root / "root/passphrase").write_text("correct horse")
    inside("install", "-o", "auricle-cloud", "-m", "400", "/root/passphrase", PASSPHRASE)
    inside("systemctl", "disable", "mosquitto")
    inside("systemctl", "enable", "auricle-broker", "auricle-cloud")


def main_pid(machine: Machine, unit: str) -> str:
    """The process id of a unit in the container."""
    return machine.run("systemctl", "show", "--property=MainPID", "--value", f"{unit}.service").stdout.strip()


def test_the_units_start_a_broker_and_a_coordinator_that_is_ready(root: Path) -> None:
    machine = Machine(root)
    try:
        machine.wait("systemctl is-active --quiet auricle-broker.service")
        machine.wait("systemctl is-active --quiet auricle-cloud.service")
        (root / "opt/ready.py").write_text(READY)
        machine.wait("/opt/auricle-cloud/bin/python3 /opt/ready.py")
        assert machine.run("systemctl", "--failed", "--plain", "--no-legend", "auricle-*").stdout == ""
        pids = [main_pid(machine, unit) for unit in ("auricle-broker", "auricle-cloud")]
        for pid in pids:
            status = machine.run("cat", f"/proc/{pid}/status").stdout
            assert "CapEff:\t0000000000000000" in status and "Uid:\t0\t" not in status
        # Of the state the broker sees its own folder only.
        assert machine.run("nsenter", "-t", pids[0], "-m", "ls", STATE).stdout.split() == ["broker"]

        # Revoking reaches the broker, which is another unit of the same user.
        for command in (
            ("enrol", "token", "--device", "kitchen-1"),
            ("enrol", "revoke", "kitchen-1", "--yes", "--broker", f"{STATE}/broker"),
        ):
            done = machine.run(*OPERATOR, *command)
            assert done.returncode == 0, done.stdout + done.stderr
        assert "1 broker notified" in done.stdout
        machine.wait("journalctl -u auricle-broker | grep -q 'Reloading config'")

        assert machine.run("systemctl", "stop", "auricle-cloud", "auricle-broker").returncode == 0
        ended = machine.run("systemctl", "show", "--property=Result", "auricle-cloud", "auricle-broker")
        assert ended.stdout.split() == ["Result=success", "Result=success"]
    finally:
        machine.cut()
