"""What the guard of the slots refuses, in one sentence and without a change of the device."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from tests.edge.slots_bundle import Device, identity, make_bundle, pack
from tests.edge.slots_guard import Say, on_trial, run
from tests.edge.slots_guard import device as device
from tests.edge.slots_guard import folder as folder
from tests.edge.slots_guard import new as new
from tests.edge.slots_guard import old as old
from tests.system.full_disk import SmallDisk
from tests.system.full_disk import small_disk as small_disk


def refused(device: Device, say: Say, word: str, command: str, *arguments: object) -> None:
    """A command is refused with one sentence, and nothing of the device changed."""
    locks = {"opt/auricle/.build.lock", "opt/auricle/.journal.lock"}
    before = device.everything() - locks
    say.readouterr()
    assert run(device, command, *arguments) == 2
    told = say.readouterr()
    assert word in told.err and told.err.count("\n") == 1 and told.out == ""
    assert device.everything() - locks == before


WRONG = {"format": 2, "base": "trixie", "python": "3.9", "architecture": "riscv64"}
WRONG |= {"version": "", "board": "../x", "files": [], "fleet": None}


@pytest.mark.parametrize("what", WRONG)
def test_a_bundle_for_something_else_is_not_installed(folder: Path, device: Device, what: str, capsys: Say) -> None:
    bundle = make_bundle(folder / "wrong", "1.0")
    said = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps(said | {what: WRONG[what]}))
    word = {"python": "Python 3.9", "base": "trixie", "architecture": "riscv64", "format": "format 2"}
    refused(device, capsys, word.get(what, "bundle.json"), "install", bundle)
    assert not (device.home / "current").exists()


@pytest.mark.parametrize("what", ["board", "os", "fleet"])
@pytest.mark.parametrize("command", ["install", "stage"])
def test_a_bundle_for_another_device_is_not_staged(
    folder: Path, device: Device, old: Path, what: str, command: str, capsys: Say
) -> None:
    run(device, "install", old)
    wrong = make_bundle(folder / "wrong", "2.0", **{what: "other"})
    refused(device, capsys, f"for the {what} other", command, wrong, "--identity", identity(wrong))
    assert device.probe() == "1.0"


def test_a_bundle_that_is_not_the_one_that_is_meant_is_not_staged(
    device: Device, old: Path, new: Path, capsys: Say
) -> None:
    run(device, "install", old)
    refused(device, capsys, "and not", "stage", new, "--identity", identity(old))
    refused(device, capsys, "runs", "stage", old, "--identity", identity(old))
    refused(device, capsys, "staged", "try")
    refused(device, capsys, "no version", "revert")


def test_nothing_is_staged_while_a_trial_runs(device: Device, old: Path, new: Path, capsys: Say) -> None:
    on_trial(device, old, new)
    refused(device, capsys, "on trial", "stage", old, "--identity", identity(old))
    refused(device, capsys, "on trial", "install", old)
    refused(device, capsys, "on trial", "try")


def test_nothing_is_staged_where_nothing_is_installed(device: Device, new: Path, capsys: Say) -> None:
    for command in (("stage", new, "--identity", identity(new)), ("try",), ("revert",), ("confirm",)):
        refused(device, capsys, "installed", *command)


@pytest.mark.parametrize("form", ["folder", pytest.param("tar", marks=pytest.mark.slow)])
def test_one_changed_byte_anywhere_is_seen_before_anything_is_used(
    folder: Path, device: Device, old: Path, new: Path, form: str, capsys: Say
) -> None:
    run(device, "install", old)
    meant = identity(new)
    for path in sorted(p for p in new.rglob("*") if p.is_file() and p.name != "bundle.sig"):
        whole = path.read_bytes()
        others = (whole + b"x", whole[:-1]) if path.name == "pack.tar.zst" else ()
        for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), None, *others):
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            source = new if form == "folder" else pack(new, folder / "new.tar")
            refused(device, capsys, "", "stage", source, "--identity", meant)
            path.write_bytes(whole)
    assert not (device.home / "b").exists()
    assert run(device, "stage", new, "--identity", meant) == 0


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "a//b", ".hidden", "bundle.json", "systemd/ssh.service", "a\nb", 7, ""]
)
def test_a_path_that_leads_elsewhere_is_refused(folder: Path, device: Device, path: object, capsys: Say) -> None:
    bundle = make_bundle(folder / "wrong", "1.0")
    text = json.loads((bundle / "bundle.json").read_text())
    text["files"].append({"path": path, "size": 0, "sha256": "0" * 64, "mode": 0o644})
    (bundle / "bundle.json").write_text(json.dumps(text))
    refused(device, capsys, "no bundle holds", "install", bundle)


def test_links_and_pipes_in_a_bundle_are_refused(folder: Path, device: Device, old: Path, capsys: Say) -> None:
    toml, elsewhere = old / "etc/edge.toml", folder / "elsewhere"
    toml.rename(elsewhere)
    for make in (lambda: toml.symlink_to(elsewhere), lambda: os.mkfifo(toml)):
        make()
        refused(device, capsys, "regular", "install", old)
        toml.unlink()
    elsewhere.rename(toml)
    (old / "etc").rename(folder / "etc")
    (old / "etc").symlink_to(folder / "etc")
    refused(device, capsys, "regular", "install", old)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE], ids=["link", "hard", "pipe"])
def test_a_tar_holds_only_what_it_lists(folder: Path, device: Device, old: Path, kind: bytes, capsys: Say) -> None:
    archive = pack(old, folder / "old.tar")
    with tarfile.open(archive, "a") as tar:
        entry = tarfile.TarInfo("etc/edge.toml")
        entry.type, entry.linkname = kind, "/etc/passwd"
        tar.addfile(entry)
    refused(device, capsys, "not a plain file", "install", archive)
    archive = pack(old, folder / "other.tar")
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo("../escaped"), io.BytesIO(b""))
    refused(device, capsys, "does not list", "install", archive)
    archive.write_bytes(archive.read_bytes()[:3000])
    refused(device, capsys, "", "install", archive)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME], ids=["x", "g", "L"])
@pytest.mark.parametrize("said", [b"0 path=x\n", b"9" * 12 + b" path=x\n", bytes(8 << 20)], ids=["0", "9", "8 MB"])
def test_a_header_that_makes_a_parser_loop_or_swell_is_not_parsed(
    folder: Path, device: Device, old: Path, kind: bytes, said: bytes, capsys: Say
) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = kind, len(said)
    archive = folder / "hostile.tar"
    archive.write_bytes(entry.tobuf(tarfile.USTAR_FORMAT) + said + bytes(-len(said) % 512))
    tracemalloc.start()
    refused(device, capsys, "'x', which is not a plain file", "install", archive)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


IN_WHEEL = dict.fromkeys((".", "../x.py", "/x.py", "a/../../x"), "outside")
IN_WHEEL |= {"a.data/nowhere/x": "no place", "a.data/scripts": "no place", "b.dist-info/entry_points.txt": "cannot be"}


@pytest.mark.parametrize("name", IN_WHEEL)
def test_a_wheel_cannot_write_outside_its_slot(folder: Path, device: Device, name: str, capsys: Say) -> None:
    bad = {name: b"[console_scripts]\n../../x = os:system\n"}
    bundle = make_bundle(folder / "wrong", "1.0", in_wheel=bad)
    refused(device, capsys, IN_WHEEL[name], "install", bundle)
    assert not (device.home / "a").exists()


@pytest.mark.parametrize("text", [b"none", b"[console_scripts]\nnone", b"\xff", None], ids=range(4))
def test_a_wheel_that_is_none_or_whose_scripts_cannot_be_read_is_refused(
    text: bytes | None, folder: Path, device: Device, capsys: Say
) -> None:
    none = {"more": {"wheels/x-1-py3-none-any.whl": b"none"}}
    wrong = none if text is None else {"in_wheel": {"b.dist-info/entry_points.txt": text}}
    refused(device, capsys, "unpacked", "install", make_bundle(folder / "wrong", "1.0", **wrong))


def test_a_wheel_does_not_write_through_the_interpreters_link(folder: Path, device: Device) -> None:
    python = Path(os.path.realpath(sys.executable)).stat().st_size
    bundle = make_bundle(folder / "x", "1.0", in_wheel={"auricle_probe-1.0.data/scripts/python3": b"#!python\n"})
    assert run(device, "install", bundle) == 0
    assert Path(os.path.realpath(sys.executable)).stat().st_size == python


@pytest.mark.parametrize("small_disk", [2], indirect=True)
def test_a_bundle_that_does_not_fit_is_refused(folder: Path, small_disk: SmallDisk, capsys: Say) -> None:
    bundle = make_bundle(folder / "huge", "1.0", in_wheel={"zeros.bin": bytes(4 << 20)})
    refused(Device(small_disk.folder), capsys, "are free", "install", bundle)
    assert not (small_disk.folder / "opt/auricle/a").exists()


@pytest.mark.parametrize("small_disk", [4], indirect=True)
def test_a_full_disk_is_a_sentence_and_what_runs_goes_on(
    small_disk: SmallDisk, old: Path, new: Path, capsys: Say
) -> None:
    device = Device(small_disk.folder)
    run(device, "install", old)
    run(device, "stage", new, "--identity", identity(new))
    small_disk.fill()
    assert run(device, "try") == 1
    assert "full" in capsys.readouterr().err
    assert run(device, "check") == 0
    assert device.probe() == "1.0"
    small_disk.free()
    assert run(device, "try") == 0
    small_disk.fill()
    assert run(device, "starting") == 1
    small_disk.free()
    device.boot("second")
    assert run(device, "check") == 0
    assert device.probe() == "1.0"
