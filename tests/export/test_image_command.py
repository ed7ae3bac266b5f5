"""`auricle flash image`: what it makes, and what it says when it cannot."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from tests.export.image_base import START, base_image

from auricle.errors import StorageError
from auricle.process.cli import main
from auricle.wire.bundle import Entry, Manifest, encode
from auricle_export.flash.image import base, cards
from auricle_export.flash.image.fat import Fat
from auricle_export.flash.image.partitions import boot_partition

Printed = pytest.CaptureFixture[str]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS me@here"
FLEET = f"""\
name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443/"
ca_pin = "{"ab" * 32}"
coordinator = "{"0f" * 32}"
[device]
microphone = "voice-hat"
[user]
name = "pi"
ssh_keys = ["{KEY}"]
[wifi]
ssid = "home"
psk = "correct horse"
country = "DE"
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a system's image, a fleet, a bundle and tokens for fifty devices, which is the current one."""
    base_image(tmp_path / "base.img")
    (tmp_path / "base.img.xz").write_bytes(lzma.compress((tmp_path / "base.img").read_bytes(), preset=0))
    (tmp_path / "fleet.toml").write_text(FLEET)
    bundle(tmp_path / "b.tar")
    (tmp_path / "tokens").mkdir()
    for number in range(1, 51):
        (tmp_path / f"tokens/pi-{number:03}.token").write_text(f"{'token' * 6}_{number:03}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bundle(path: Path, size: int = 1000, **changes: str) -> None:
    texts = {"install": b"#!/bin/sh\n", "wheel": bytes(size)}
    facts = {"version": "0.6.0", "board": "pi5", "os": "raspios-13", "base": "trixie", "python": "3.13"}
    facts |= {"architecture": "aarch64", "fleet": "home", "pack": "0" * 64} | changes
    entries = (Entry(name, len(text), hashlib.sha256(text).hexdigest(), 0o644) for name, text in texts.items())
    with tarfile.open(path, "w") as archive:
        for name, text in {"bundle.json": encode(Manifest(**facts, files=tuple(entries))), **texts}.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o644
            archive.addfile(member, io.BytesIO(text))


def words(*more: str, **changes: str) -> list[str]:
    options = {"image": "base.img.xz", "board": "pi5", "os": "raspios-13", "fleet": "fleet.toml", "tokens": "tokens"}
    options |= {"out": "out", "bundle": "b.tar", "seed": "7", "count": "2"} | changes
    given = [part for name, value in options.items() if value for part in (f"--{name.replace('_', '-')}", value)]
    return ["flash", "image", *given, *more]


def boot(path: Path) -> Fat:
    file = io.BytesIO(path.read_bytes())
    return Fat(file, boot_partition(file, path.name), path.name)


def refused(capsys: Printed, *more: str, **changes: str) -> str:
    capsys.readouterr()
    assert main(words(*more, **changes)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not list(Path().glob("out*/.*"))
    return said


def test_fifty_images_have_fifty_names_and_tokens_and_are_else_unchanged(bench: Path, capsys: Printed) -> None:
    assert main(words("--json", count="50")) == 0
    facts = json.loads(capsys.readouterr().out)
    made = [Path(each["file"]) for each in facts["images"]]
    cards_read = {path.stem: boot(path) for path in made}
    original = (bench / "base.img").read_bytes()
    end = (bench / "base.img").stat().st_size - 64 * 512

    assert sorted(cards_read) == [f"pi-{number:03}" for number in range(1, 51)]
    assert (facts["verified"], facts["seed"], facts["first_boot"]) == (True, 7, "cloud-init")
    lines, tokens = set(), set()
    for name, fat in cards_read.items():
        fat.check()
        lines.add(str(fat.read("cmdline.txt")))
        tokens.add(str(fat.read("auricle.token")))
        assert f'"hostname": "{name}"'.encode() in (fat.read("user-data") or b"")
        assert fat.read("auricle.token") == (bench / f"tokens/{name}.token").read_bytes()
        assert fat.read("auricle/b.tar") == (bench / "b.tar").read_bytes()
    assert (len(lines), len(tokens), len({each["sha256"] for each in facts["images"]})) == (50, 50, 50)
    for path in made:
        content = path.read_bytes()
        assert (content[: START * 512], content[end:]) == (original[: START * 512], original[end:])
        assert path.stat().st_mode & 0o077 == 0
    assert [each["sha256"] for each in facts["images"][:2]] == [base.sha256(path) for path in made[:2]]
    assert not list((bench / "out").glob(".*"))


def test_a_card_carries_what_board_and_fleet_say_and_the_imagers_list_offers_no_settings(bench: Path) -> None:
    assert main(words(url="https://hub.lan/images/")) == 0
    fat = boot(bench / "out/pi-001.img")

    line, config = (fat.read("cmdline.txt") or b"").decode(), (fat.read("config.txt") or b"").decode()
    assert line.startswith("console=tty1 root=PARTUUID=9730496b-02 ")
    assert "cgroup_enable=memory cfg80211.ieee80211_regdom=DE ds=nocloud;i=auricle-pi-001-" in line
    assert line.count("\n") == 1
    assert config.endswith("[all]\ndtoverlay=googlevoicehat-soundcard\n")
    assert fat.read("auricle/packages") == b"libportaudio2\n"
    files = "cmdline.txt config.txt overlays auricle auricle.token user-data meta-data network-config"
    assert sorted(fat.names()) == sorted(files.split())

    listed = json.loads((bench / "out/os_list.rpi-imager-manifest").read_text())["os_list"]
    first, image = listed[0], bench / "out/pi-001.img"
    assert [each["name"] for each in listed] == ["pi-001", "pi-002"]
    assert first["url"] == "https://hub.lan/images/pi-001.img"
    assert (first["extract_size"], first["extract_sha256"]) == (image.stat().st_size, base.sha256(image))
    assert (first["init_format"], first["devices"]) == ("none", ["pi5-64bit"])
    assert {"description", "icon", "image_download_size", "release_date"} < set(first)


def test_the_same_seed_gives_the_same_bytes(bench: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    assert main(words("--json", seed="")) == 0
    seed = str(json.loads(capsys.readouterr().out)["seed"])
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    assert main(words(image="base.img", out="again", seed=seed)) == 0
    assert main(words(out="other", seed="8")) == 0

    first, again, other = ((bench / folder / "pi-002.img").read_bytes() for folder in ("out", "again", "other"))
    assert first == again
    assert first != other


def test_raspberry_pi_os_12_gets_a_script_rpi_preseed_its_file_and_no_bundle_no_script(bench: Path) -> None:
    bundle(bench / "twelve.tar", os="raspios-12")

    assert main(words(os="raspios-12", bundle="twelve.tar", out="twelve")) == 0
    assert main(words(first_boot="rpi-preseed", out="preseed")) == 0

    twelve, preseed = boot(bench / "twelve/pi-001.img"), boot(bench / "preseed/pi-001.img")
    run = b"systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot"
    assert run in (twelve.read("cmdline.txt") or b"")
    assert b"sh /boot/firmware/auricle/first-boot.sh arm\n" in (twelve.read("firstrun.sh") or b"")
    assert twelve.read("user-data") is None
    assert b'hostname = "pi-001"' in (preseed.read("rpi-preseed.toml") or b"")

    assert main(words(bundle="", out="bare")) == 0
    bare = boot(bench / "bare/pi-001.img")
    assert bare.find("auricle") is None
    assert b"bootcmd" not in (bare.read("user-data") or b"")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"count": "51"}, "51 are needed"),
        ({"tokens": "none"}, "0 tokens"),
        ({"tokens": "fleet.toml"}, "folder"),
        ({"board": "jetson-nano", "os": "", "bundle": ""}, "boot partition"),
        ({"board": "pi4"}, '"pi4"'),
        ({"os": "raspios-12"}, '"raspios-13"'),
        ({"bundle": "fleet.toml"}, "fleet.toml"),
        ({"bundle": "big.tar"}, "3 MiB, and the boot partition of base.img.xz 2 MiB free of 2 MiB"),
        ({"image": "fleet.toml"}, "fleet.toml"),
        ({"image": "none.img"}, "none.img"),
        ({"image": "half.img.xz"}, "fetch it again"),
        ({"image": "rootless.img.xz"}, "cmdline.txt"),
        ({"first_boot": "magic"}, '"magic"'),
        ({"count": "50", "bundle": ""}, "20 MiB free"),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(sorted(value.items())),
)
def test_what_cannot_be_is_one_sentence(
    changes: dict[str, str], told: str, bench: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle(bench / "big.tar", size=3 << 20)
    packed = (bench / "base.img.xz").read_bytes()
    (bench / "half.img.xz").write_bytes(packed[: len(packed) // 2])
    base_image(bench / "rootless.img.xz", cmdline="")
    if told == "20 MiB free":
        usage = type(shutil.disk_usage(bench))(100 << 20, 80 << 20, 20 << 20)
        monkeypatch.setattr(base.shutil, "disk_usage", lambda path: usage)

    assert told in refused(capsys, **changes)


def test_tokens_are_checked(bench: Path, capsys: Printed) -> None:
    token = bench / "tokens/pi-001.token"
    token.write_text("short")
    assert "pi-001.token" in refused(capsys)
    token.write_text((bench / "tokens/pi-002.token").read_text())
    assert "same token" in refused(capsys)
    token.rename(bench / "tokens/-pi-0.token")
    assert "-pi-0" in refused(capsys)


def test_an_image_is_named_when_it_was_read_back(bench: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards.FatWriter, "_put", lambda self, at, content: None)
    assert "was not read back" in refused(capsys, bundle="")
    assert not list((bench / "out").glob("*.img"))


def test_two_at_once_are_refused_and_what_is_there_is_replaced_only_when_asked(bench: Path, capsys: Printed) -> None:
    (bench / "out").mkdir()
    left = bench / "out/.pi-050.img.tmp"
    handle = os.open(bench / "out", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "already" in refused(capsys)
        left.write_text("a token")
    finally:
        os.close(handle)

    assert main(words()) == 0
    assert not left.exists()
    (bench / "out/pi-002.img").write_text("mine")
    assert "--replace" in refused(capsys)
    assert (bench / "out/pi-002.img").read_text() == "mine"
    assert main(words("--replace")) == 0
    assert (bench / "out/pi-002.img").stat().st_size > 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("mode", [0o555, 0o333], ids=["not to be written", "not to be read"])
def test_a_folder_that_is_not_ones_own_is_said(mode: int, bench: Path) -> None:
    out = Path("out")
    out.mkdir()
    (out / ".pi-050.img.tmp").touch()
    out.chmod(mode)
    bench.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match="Permission"), cards._alone(out):
            pass
    finally:
        os.seteuid(0)
    assert (out / ".pi-050.img.tmp").exists()


def test_whoever_is_interrupted_finds_whole_images_only(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []

    def copy(source: Path, target: Path) -> None:
        copies.append(target)
        target.write_bytes(b"half")
        if len(copies) == 2:
            raise KeyboardInterrupt
        kept(source, target)

    kept = base.copy
    monkeypatch.setattr(base, "copy", copy)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        raise SystemExit(main(words()))

    assert [path.name for path in (bench / "out").iterdir()] == ["pi-001.img"]
    boot(bench / "out/pi-001.img").check()


@pytest.mark.skipif(shutil.which("mtype") is None, reason="mtools are not installed")
def test_mtools_read_the_same_card(bench: Path) -> None:
    assert main(words(count="1")) == 0
    where = f"{bench}/out/pi-001.img@@{START * 512}"
    for name, file in (("auricle.token", "tokens/pi-001.token"), ("auricle/b.tar", "b.tar")):
        read = subprocess.run(["mtype", "-i", where, f"::{name}"], capture_output=True, check=True).stdout
        assert read == (bench / file).read_bytes()


@pytest.mark.skipif(
    not all(shutil.which(tool, path="/usr/sbin:/sbin") for tool in ("debugfs", "mke2fs", "e2fsck")),
    reason="e2fsprogs are not installed",
)
def test_a_bundle_goes_onto_the_root_partition_without_root_and_reproducibly(bench: Path, capsys: Printed) -> None:
    assert "does not go onto the root partition" in refused(capsys, where="root")
    image = bench / "base.img"
    after = image.stat().st_size - 64 * 512
    with image.open("r+b") as file:
        file.truncate(after + (8 << 20))
        file.seek(446 + 16 + 12)
        file.write((8 << 11).to_bytes(4, "little"))
    path = {"PATH": "/usr/sbin:/sbin"}
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-E", f"offset={after}", "base.img", "8M"]
    subprocess.run(make, check=True, env=path, cwd=bench, stdin=subprocess.DEVNULL)

    assert main(words(image="base.img", where="root", out="one")) == 0
    assert main(words(image="base.img", where="root", out="two")) == 0

    one = bench / "one/pi-001.img"
    fat = boot(one)
    assert one.read_bytes() == (bench / "two/pi-001.img").read_bytes()
    assert fat.find("auricle/b.tar") is None
    assert b"  /var/lib/auricle-firstboot/b.tar\n" in (fat.read("auricle/bundle.sha256") or b"")
    checked = subprocess.run(["e2fsck", "-fn", f"{one}?offset={after}"], env=path, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_of_several_bundles_the_newest_for_the_board_lies_on_the_cards(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle(bench / "newer.tar", version="0.10.0")
    bundle(bench / "other.tar", version="0.11.0", board="pi4")

    assert main([*words("--json"), "newer.tar", "other.tar"]) == 0
    several = json.loads(capsys.readouterr().out)["bundle"]
    assert main(words("--json", "--replace", bundle="newer.tar")) == 0
    assert json.loads(capsys.readouterr().out)["bundle"] == several

    assert main([*words("--replace", bundle="other.tar"), "other.tar"]) == 2
    assert "pi5" in capsys.readouterr().err
