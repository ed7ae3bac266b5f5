"""What a card is made of: a Debian arm64 with cloud-init and NetworkManager, and a kernel that runs in `-M virt`.

It stands in for Raspberry Pi OS 13: the same Debian release, cloud-init reading the boot partition, NetworkManager
behind netplan. Its kernel, though, is Debian's, and no firmware starts it.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from tests.arm64.board import cache_folder
from tests.arm64.debian import INSIDE, DebianRoot, alone
from tests.arm64.emulation import RootError, Say, UnavailableError, run
from tests.firstboot.initramfs import File, archive

SYSTEM = ("ca-certificates", "systemd", "systemd-sysv", "dbus", "udev", "kmod", "python3", "python3-venv", "iproute2")
PACKAGES = (
    *("cloud-init", "netplan.io", "network-manager", "wpasupplicant", "hostapd", "iw", "wireless-regdb"),
    *("openssh-server", "sudo", "libportaudio2", "e2fsprogs", "dosfstools", "rfkill"),
)
"""What Raspberry Pi OS has and an installation relies on; hostapd is the house's access point."""
KERNEL, SHELL = "linux-image-arm64", "busybox-static"
EARLY = ("crc32c_generic", "virtio_pci", "virtio_mmio", "virtio_blk", "virtio_console", "virtio_rng", "ext4")
LATER = (
    *("virtio_net", "vfat", "nls_ascii", "nls_cp437", "nls_utf8", "bridge", "veth", "mac80211_hwsim", "ccm", "cmac"),
    *("ctr", "gcm", "autofs4", "configfs", "fuse", "af_packet", "rfkill"),
)
"""Modules; those that are built in, or that this kernel has not got, are left out."""
CLOUD_INIT = """\
# As on Raspberry Pi OS: the boot partition is where cloud-init looks, and nowhere else.
datasource_list: [ NoCloud, None ]
datasource:
  NoCloud:
    seedfrom: file:///boot/firmware
ssh_genkeytypes: [ ed25519 ]
"""
FSTAB = """\
/dev/vda1  /boot/firmware  vfat  defaults          0  2
/dev/vda2  /               ext4  defaults,noatime  0  1
"""
MASKED = (
    *("hostapd.service", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("man-db.timer", "dpkg-db-backup.timer", "ldconfig.service"),
    "systemd-journal-catalog-update.service",
    "systemd-hwdb-update.service",
)
"""What a test has no use for and takes an emulated processor minutes."""
ROOM = "usr/local/share/room"
"""Folder with a recording that the device takes for its microphone."""
WIFI, PASSPHRASE = "home", "correct horse"
ROUTER = """\
#!/bin/sh
# The house's router, inside the machine: the cable leads to it and not to the device, which has a radio only.
set -eu
modprobe virtio_net
modprobe mac80211_hwsim radios=2
until ip link show eth0 && ip link show wlan1; do sleep 0.2; done >/dev/null 2>&1
ip netns add router
ip link set eth0 netns router
iw phy phy1 set netns name router
ip -n router link add bridge type bridge
ip -n router link set bridge up
ip -n router link set eth0 master bridge
ip -n router link set eth0 up
"""
ACCESS_POINT = f"""\
interface=wlan1
bridge=bridge
driver=nl80211
ssid={WIFI}
hw_mode=g
channel=6
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase={PASSPHRASE}
"""
ROUTER_UNIT = """\
[Unit]
Description=The house's router
ConditionKernelCommandLine=house=wireless
DefaultDependencies=no
After=systemd-udevd.service local-fs.target
Before=network-pre.target NetworkManager.service cloud-init-local.service
Wants=network-pre.target

[Service]
ExecStartPre=/bin/sh /usr/local/lib/house-router
ExecStart=ip netns exec router hostapd /usr/local/lib/house-router.conf

[Install]
WantedBy=sysinit.target
"""
INIT = """\
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
for module in $(/bin/busybox cat /order); do /bin/busybox insmod "/modules/$module"; done
until [ -b /dev/vda2 ]; do /bin/busybox usleep 20000; done
case " $(/bin/busybox cat /proc/cmdline) " in *" boot=read-only "*) /bin/busybox blockdev --setro /dev/vda1;; esac
/bin/busybox mount -t ext4 -o ro /dev/vda2 /root
/bin/busybox umount /proc
/bin/busybox umount /sys
exec /bin/busybox switch_root /root /sbin/init
"""


@dataclass(frozen=True)
class GuestSystem:
    """The system, kept in the cache: `root/`, and in `boot/` the kernel and its first file system."""

    debian: DebianRoot = field(
        default_factory=lambda: DebianRoot(cache_folder("firstboot-trixie"), suite="trixie", packages=SYSTEM)
    )

    @property
    def kernel(self) -> Path:
        """For qemu."""
        return self.debian.folder / "boot/vmlinuz"

    @property
    def initramfs(self) -> Path:
        """For qemu: loads the disk's modules and mounts the root, in the fraction of a second."""
        return self.debian.folder / "boot/initramfs"

    @property
    def identity(self) -> str:
        """What it is made by: another one is made again."""
        return _digest(
            SYSTEM, PACKAGES, KERNEL, EARLY, LATER, INIT, CLOUD_INIT, FSTAB, MASKED, ROUTER, ACCESS_POINT, ROUTER_UNIT
        )

    def make(self, say: Say) -> None:
        """Make it, unless it is there."""
        with alone(self.debian.folder, say):
            self.debian.make(say)
            with self._step("packages", SYSTEM, PACKAGES) as wanted:
                if wanted:
                    say("installing cloud-init, NetworkManager and what belongs to them (some minutes)")
                    self._apt("update", "-qq")
                    self._apt("install", "-y", "-qq", "--no-install-recommends", *PACKAGES)
                    self._apt("clean")
            with self._step("kernel", KERNEL, SHELL, EARLY, LATER, INIT) as wanted:
                if wanted:
                    say("fetching a kernel")
                    self._fetch_kernel()
            self._settle()

    @contextmanager
    def _step(self, name: str, *recipe: object) -> Iterator[bool]:
        """Whether a step has to be done; it is noted as done at the end."""
        stamp, digest = self.debian.folder / f"{name}.done", _digest(*recipe)
        wanted = not stamp.exists() or stamp.read_text() != digest
        yield wanted
        stamp.write_text(digest)

    def _apt(self, *arguments: str, folder: str = "/") -> str:
        """apt-get in the root, with /proc and without starting anything."""
        policy = self.debian.path / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        try:
            return run(
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                f"--mount-proc={self.debian.path}/proc",
                "chroot",
                self.debian.path,
                "/usr/bin/env",
                f"--chdir={folder}",
                "apt-get",
                *arguments,
                env={**INSIDE, "DEBIAN_FRONTEND": "noninteractive"},
            )
        except RootError as error:
            raise UnavailableError(f"The packages of the emulated system cannot be had: {error}") from error
        finally:
            policy.unlink()

    def _settle(self) -> None:
        """What is the same on every card; nothing that makes one system differ from another is left in it."""
        root = self.debian.path
        (root / "etc/cloud/cloud.cfg.d/99_boot_partition.cfg").write_text(CLOUD_INIT)
        netplan = root / "usr/lib/netplan/00-network-manager-all.yaml"
        netplan.parent.mkdir(parents=True, exist_ok=True)
        netplan.write_text("network:\n  version: 2\n  renderer: NetworkManager\n")
        netplan.chmod(0o600)
        (root / "etc/fstab").write_text(FSTAB)
        (root / "boot/firmware").mkdir(parents=True, exist_ok=True)
        (root / "etc/machine-id").write_text("uninitialized\n")
        (root / "var/lib/dbus/machine-id").unlink(missing_ok=True)
        (root / "etc/hostname").write_text("raspberrypi\n")
        for key in (root / "etc/ssh").glob("ssh_host_*"):
            key.unlink()
        for unit in MASKED:
            place = root / "etc/systemd/system" / unit
            place.unlink(missing_ok=True)
            place.symlink_to("/dev/null")

        for name, text in (("house-router", ROUTER), ("house-router.conf", ACCESS_POINT)):
            (root / "usr/local/lib" / name).write_text(text)
        (root / "etc/systemd/system/house-router.service").write_text(ROUTER_UNIT)
        wanted = root / "etc/systemd/system/sysinit.target.wants/house-router.service"
        wanted.unlink(missing_ok=True)
        wanted.symlink_to("../house-router.service")
        write_room(root / ROOM)

    def _fetch_kernel(self) -> None:
        """The kernel that the metapackage names, its modules, and a first file system, without dpkg's own."""
        boot = self.debian.folder / "boot"
        shutil.rmtree(boot, ignore_errors=True)
        boot.mkdir()
        plan = self._apt("install", "-s", "--no-install-recommends", KERNEL).splitlines()
        name = next(line.split()[1] for line in plan if line.startswith("Inst linux-image-6"))
        with tempfile.TemporaryDirectory(dir=self.debian.path / "tmp") as text:
            folder = Path(text)
            self._apt("download", "-qq", "-o", "APT::Sandbox::User=root", name, SHELL, folder=f"/tmp/{folder.name}")
            for package in folder.glob("*.deb"):
                run("dpkg-deb", "-x", package, folder)
            image = next((folder / "boot").glob("vmlinuz-*"))
            version = image.name.removeprefix("vmlinuz-")
            # an arm64 kernel's file is compressed or not; qemu takes it as it is
            shutil.copy(image, self.kernel)
            modules = folder / "usr/lib/modules" / version
            run("depmod", "-b", folder / "usr", version)
            early = _with_needs(modules, EARLY)
            _copy_modules(
                modules, self.debian.path / "usr/lib/modules" / version, [*early, *_with_needs(modules, LATER)]
            )
            run("depmod", "-b", self.debian.path / "usr", version)
            busybox = next(path for path in folder.rglob("busybox") if path.is_file() and path.parent.name == "bin")
            files = [
                File("bin/busybox", busybox.read_bytes(), 0o755),
                File("init", INIT.encode(), 0o755),
                File("order", "\n".join(Path(m).name.removesuffix(".xz") for m in early).encode()),
                *(File(f"modules/{Path(m).name.removesuffix('.xz')}", _module(modules / m)) for m in early),
            ]
            self.initramfs.write_bytes(gzip.compress(archive(files, folders=("dev", "proc", "sys", "root")), 1))


def _digest(*recipe: object) -> str:
    return hashlib.sha256(repr(recipe).encode()).hexdigest()


def _module(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _with_needs(modules: Path, names: tuple[str, ...]) -> list[str]:
    """Paths of modules and of what they need, each after what it needs."""
    needs = dict(line.split(":", 1) for line in (modules / "modules.dep").read_text().splitlines())
    paths = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    found: list[str] = []
    for name in names:
        if name in paths:
            found += [each for each in (*reversed(needs[paths[name]].split()), paths[name]) if each not in found]
    return found


def write_room(folder: Path) -> None:
    """Half a minute of a quiet room."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).normal(0, 60, 16_000 * 30)
    soundfile.write(folder / "quiet.wav", noise.astype(np.int16), 16_000)


def _copy_modules(source: Path, target: Path, paths: list[str]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for path in paths:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, target / path)
    for index in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(source / index, target / index)
