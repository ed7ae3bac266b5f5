"""The script of the first boot: it installs once, whatever happens on the way."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from auricle_export.flash.image.card import SCRIPT

INSTALL = """#!/bin/sh
[ "$1" = --root ] || exit 9
[ ! -e "$2/fail" ] || exit 3
mkdir -p "$2/opt/auricle"
cp "$(dirname "$0")/content" "$2/opt/auricle/content.new"
mv "$2/opt/auricle/content.new" "$2/opt/auricle/content"
echo once >>"$2/installed"
"""
CUT = """#!/bin/sh
# Stands for {tool}: the power is cut before the Nth of them.
read -r count <"$CUTS/count"
echo $((count + 1)) >"$CUTS/count"
[ "$count" != "$CUT_AT" ] || kill -9 0
exec {real} "$@"
"""
TOOLS = ("sync", "mv", "rm", "mkdir", "tar", "sha256sum", "cat", "ln", "date", "dirname", "cmp")


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """A boot partition's folder `auricle`, with a bundle; `root` beside it is the device's root."""
    folder = tmp_path / "boot firmware" / "auricle"
    folder.mkdir(parents=True)
    (tmp_path / "root").mkdir()
    shutil.copy(SCRIPT, folder)
    (folder / "packages").write_text("libportaudio2\n")
    with tarfile.open(folder / "b.tar", "w") as archive:
        for name, text in (("install", INSTALL), ("content", "the agent")):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256((folder / "b.tar").read_bytes()).hexdigest()
    (folder / "bundle.sha256").write_text(f"{digest}  b.tar\n")
    return folder


def ran(card: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AURICLE_ROOT": str(card.parents[1] / "root"), **environment}
    how: dict[str, Any] = {"env": env, "timeout": 60, "check": False, "start_new_session": True}
    return subprocess.run(["sh", card / SCRIPT.name, *words], capture_output=True, text=True, **how)


def unit(card: Path) -> Path:
    return card.parents[1] / "root/etc/systemd/system/auricle-firstboot.service"


def installed(card: Path) -> tuple[bool, bool, list[str]]:
    """Whether it is done, whether systemd would run it again, and how often it was installed."""
    root = card.parents[1] / "root"
    count = root / "installed"
    done = (root / "var/lib/auricle-firstboot/done").exists()
    return done, unit(card).exists(), count.read_text().split() if count.exists() else []


def test_armed_it_is_run_at_every_boot_until_it_is_done(card: Path) -> None:
    assert ran(card, "arm").returncode == 0
    first = unit(card).read_text()
    assert ran(card, "arm", "now").returncode == 0

    wants = unit(card).parent / "multi-user.target.wants" / unit(card).name
    assert unit(card).read_text() == first
    assert wants.resolve() == unit(card)
    assert f'ExecStart=/bin/sh "{card}/first-boot.sh" run' in first
    assert ran(card, "run").returncode == 0
    assert not wants.is_symlink()
    assert ran(card, "arm").returncode == 0
    assert not unit(card).exists()


@pytest.mark.parametrize("where", ["card", "root", "read-only"])
def test_it_installs_once_from_either_partition_and_says_so_on_the_card(where: str, card: Path) -> None:
    place = card.parents[1] / "root/var/lib/auricle-firstboot"
    if where == "root":
        place.mkdir(parents=True)
        shutil.move(card / "b.tar", place / "b.tar")
        line = (card / "bundle.sha256").read_text().replace("b.tar", "/var/lib/auricle-firstboot/b.tar")
        (card / "bundle.sha256").write_text(line)
    elif where == "read-only":  # the log is a folder, which cannot be written
        (card / "first-boot.log").mkdir()
    else:
        ran(card, "arm")
    done, again = ran(card, "run"), ran(card, "run")

    assert (done.returncode, again.returncode, done.stderr) == (0, 0, "")
    assert installed(card) == (True, False, ["once"])
    assert not (card / "b.tar").exists()
    assert where == "read-only" or "installed" in (card / "first-boot.log").read_text()
    assert not (place / "unpacked").exists()


def test_the_log_on_the_card_does_not_grow_for_ever(card: Path) -> None:
    (card / "b.tar").write_bytes(b"damaged")
    log = card / "first-boot.log"
    for size, longer in ((65_535, True), (65_536, False)):
        log.write_bytes(bytes(size))
        ran(card, "run")
        assert (log.stat().st_size > size) is longer


def test_a_damaged_bundle_is_not_unpacked_and_an_installation_that_fails_is_tried_again(card: Path) -> None:
    ran(card, "arm")
    whole = (card / "b.tar").read_bytes()
    (card / "b.tar").write_bytes(whole[:-1] + b"x")
    damaged = ran(card, "run")
    assert (damaged.returncode, "damaged" in damaged.stdout, installed(card)) == (1, True, (False, True, []))

    (card / "b.tar").write_bytes(whole)
    (card.parents[1] / "root/fail").touch()
    failed = ran(card, "run")
    (card.parents[1] / "root/fail").unlink()
    assert (failed.returncode, "tried again" in failed.stdout, installed(card)[:2]) == (1, True, (False, True))
    assert ran(card, "run").returncode == 0
    assert installed(card) == (True, False, ["once"])


@pytest.mark.slow
def test_a_power_cut_before_any_command_leads_to_the_same_end(card: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        real = shutil.which(tool) if tool != "sync" else "true"
        (tools / tool).write_text(CUT.format(tool=tool, real=real))
        (tools / tool).chmod(0o755)
    original = tmp_path / "original"
    shutil.copytree(card.parents[1] / "boot firmware", original)
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "CUTS": str(tmp_path)}

    cuts = 0
    for at in range(1000):
        for folder in (card.parents[1] / "root", card.parent):
            shutil.rmtree(folder)
        shutil.copytree(original, card.parent)
        (card.parents[1] / "root").mkdir()
        (tmp_path / "count").write_text("0")
        codes = [ran(card, *words, CUT_AT=str(at), **environment).returncode for words in (["arm"], ["run"])]
        if codes == [0, 0]:
            break
        cuts += 1
        after = [ran(card, *words, CUT_AT="-1", **environment).returncode for words in (["arm"], ["run"])]

        assert after == [0, 0], at
        done, armed, times = installed(card)
        assert (done, armed, set(times)) == (True, False, {"once"}), at
        assert (card.parents[1] / "root/opt/auricle/content").read_text() == "the agent"
    assert cuts > 20


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say() -> None:
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
