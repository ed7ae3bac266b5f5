"""A bundle: the same bytes each time, what is in it, what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import msgspec
import pytest
from backports import zstd
from tests.export.small_bundle import BOARD, SYSTEM, SmallWorld, make_world

from auricle.errors import AuricleError, SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.signature import encode_signature, sign_manifest
from auricle.process.cli import main
from auricle.wire.bundle import decode
from auricle.wire.identity import Identity
from auricle.wire.kinds import version_key
from auricle_edge.ota.slots.bundle import Bundle
from auricle_edge.settings import read_settings
from auricle_export.flash.boards import load_board, load_boards
from auricle_export.flash.bundle.archive import EARLIEST, Part, name_in_tar, write_tar
from auricle_export.flash.bundle.build import build_bundle
from auricle_export.flash.bundle.contents import local_model, settings_of
from auricle_export.flash.fleet import Device

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    return make_world(tmp_path, monkeypatch)


def content_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in found.items() if file is not None}


def test_a_bundle_is_the_same_bytes_in_another_folder_with_another_umask(world: SmallWorld, tmp_path: Path) -> None:
    first = world.build(tmp_path / "one", key=tmp_path / "key")
    before = os.umask(0o077)
    try:
        os.utime(world.house / "alpha-1.0-py3-none-any.whl", (1, 1))
        second = world.build(tmp_path / "two" / "deep", key=tmp_path / "key")
    finally:
        os.umask(before)

    assert first.path.name == second.path.name
    assert first.path.read_bytes() == second.path.read_bytes()


def test_its_name_has_its_identity_and_its_tar_says_nothing_of_who_made_it_and_when(
    world: SmallWorld, tmp_path: Path
) -> None:
    built = world.build(tmp_path / "out")

    assert built.identity == hashlib.sha256(content_of(built.path)["bundle.json"]).hexdigest()
    name = f"auricle-{built.manifest.version}-{BOARD}-{SYSTEM}-{built.identity[:12]}.tar"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [built.path.name] == [name]
    with tarfile.open(built.path) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.type) for m in members} == {(0, 0, "", "", EARLIEST, b"0")}
    assert {m.name for m in members if m.mode == 0o755} == {"install", "slots.py"}
    assert {m.mode for m in members} == {0o644, 0o755}


def test_a_date_of_ones_own_leaves_the_identity(
    world: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.build(tmp_path / "one")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    after = world.build(tmp_path / "two")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")

    with tarfile.open(after.path) as archive:
        assert {member.mtime for member in archive} == {1700000000}
    assert before.identity == after.identity
    with pytest.raises(SettingsError, match="seconds"):
        world.build(tmp_path / "three")


def test_its_manifest_lists_every_file_and_the_device_takes_it(world: SmallWorld, tmp_path: Path) -> None:
    built = world.build(tmp_path / "out", key=tmp_path / "key")
    files = content_of(built.path)

    manifest = decode(files["bundle.json"], "it")
    listed = {entry.path: (entry.size, entry.sha256) for entry in manifest.files}
    assert listed == {
        path: (len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
        if path not in ("bundle.json", "bundle.sig")
    }
    units = {f"systemd/auricle-{unit}" for unit in ("edge.service", "edge.service.d/board.conf", "claim.service")}
    assert {"slots.py", "install", "tuf/root.json", "etc/claim.env", "pack.tar.zst", *units} <= set(files)
    assert manifest.pack == load_pack("home").identity
    wheels = {path: hashlib.sha256(content).hexdigest() for path, content in files.items() if path.endswith(".whl")}
    lines = files["requirements.txt"].decode().splitlines()[1:]
    assert sorted(line.rpartition(":")[2] for line in lines) == sorted(wheels.values())
    assert lines[0].startswith("auricle[edge,mic,gpio,updates]==")
    on_device = Bundle(built.path)
    on_device.verify()
    assert on_device.manifest.identity == built.identity
    on_device.close()


def test_the_settings_are_those_of_profile_and_fleet(world: SmallWorld, tmp_path: Path) -> None:
    files = content_of(world.build(tmp_path / "out").path)
    (tmp_path / "edge.toml").write_bytes(files["etc/edge.toml"])

    settings = read_settings(tmp_path / "edge.toml", {"device": "pi-01"})

    assert (settings.fleet, settings.broker) == ("home", "mqtts://hub.lan:8883")
    assert (settings.pack, settings.state) == ("/opt/auricle/current/pack.tar.zst", "/var/lib/auricle")
    assert (settings.threads, settings.detect.threshold, settings.detect.thresholds) == (1, 0.9, {"yes": 0.8})
    assert b"device" not in files["etc/edge.toml"]
    assert files["etc/claim.env"].decode() == f"AURICLE_SERVER=https://hub.lan:8443\nAURICLE_CA_PIN={'ab' * 32}\n"


def test_the_agent_takes_the_settings_for_every_board_and_wiring(world: SmallWorld, tmp_path: Path) -> None:
    path, home = tmp_path / "edge.toml", load_pack("home")
    command = ["/bin/x", 'a "quoted" \\ word', "ümläut 🎤 \x7f\t\n"]
    for board in load_boards():
        for microphone in (None, *(each.id for each in board.microphone)):
            more = {"gate": {"hot": 60.0}, "events": {"hook": command, "stdout": False}}
            device = Device(microphone=microphone, wired=board.gpio is not None, settings=more)
            path.write_text(settings_of(board, msgspec.structs.replace(world.fleet, device=device), home), "utf-8")

            settings = read_settings(path, {"device": "any-device"})

            assert (settings.gate.hot, settings.gate.too_hot) == (60.0, board.sensors.too_hot)
            assert (list(settings.events.hook or ()), settings.events.stdout) == (command, False)


def test_a_fleet_with_a_pack_of_other_models_takes_the_models_of_that_pack(world: SmallWorld) -> None:
    """Of gsc12: the plug-in on a small board, else the device's own choice, and what the fleet's settings name."""
    pack, fleet = load_pack("gsc12"), msgspec.structs.replace(world.fleet, pack="gsc12")
    named = msgspec.structs.replace(fleet, device=Device(settings={"local": "crnn-deep"}))

    assert local_model(load_board("pi-zero-2w"), fleet, pack) == "crnn-lite"
    assert local_model(load_board("pi5"), fleet, pack) is None
    assert local_model(load_board("pi5"), named, pack) == "crnn-deep"
    assert local_model(load_board("pi5"), world.fleet, load_pack("home")) == "resnet-base"
    assert "local =" not in settings_of(load_board("pi5"), fleet, pack)
    assert 'local = "crnn-deep"' in settings_of(load_board("pi5"), named, pack)


def test_a_pack_that_the_devices_would_refuse_is_refused_here(world: SmallWorld, tmp_path: Path) -> None:
    signer = Identity.create()
    keyed = msgspec.structs.replace(world.fleet, pack_key=signer.public.hex())
    unknown = msgspec.structs.replace(world.fleet, device=Device(settings={"local": "crnn-huge"}))

    with pytest.raises(SettingsError, match="pack_key"):
        build_bundle(world.board, keyed, tmp_path / "out", os=SYSTEM, wheels=world.wheels)
    with pytest.raises(AuricleError, match="crnn-huge"):
        build_bundle(world.board, unknown, tmp_path / "out", os=SYSTEM, wheels=world.wheels)

    pack = load_pack("digits")
    signature = encode_signature(sign_manifest(signer, pack.manifest_bytes))
    files = {**pack.files, "manifest.json": pack.manifest_bytes, "manifest.sig": signature}
    packed = io.BytesIO()
    write_tar(packed, {name: Part(content) for name, content in files.items()})
    (tmp_path / "mine.tar.zst").write_bytes(zstd.compress(packed.getvalue(), 1))
    keyed = msgspec.structs.replace(keyed, pack=str(tmp_path / "mine.tar.zst"))
    built = build_bundle(world.board, keyed, tmp_path / "out", os=SYSTEM, wheels=world.wheels)
    assert content_of(built.path)["pack.tar.zst"] == (tmp_path / "mine.tar.zst").read_bytes()
    assert f'pack_key = "{signer.public.hex()}"' in content_of(built.path)["etc/edge.toml"].decode()


def test_a_bundle_that_the_devices_would_not_believe_is_refused(world: SmallWorld, tmp_path: Path) -> None:
    trusted = Identity.load_or_create(tmp_path / "key").public.hex()
    text = world.fleet_file.read_text()
    world.fleet_file.write_text(text.replace("threads = 1", f'updates = {{ bundle_key = "{trusted}" }}'))
    for key in (None, tmp_path / "other"):
        with pytest.raises(SettingsError, match="--key"):
            world.build(tmp_path / "out", key=key)
    assert world.build(tmp_path / "out", key=tmp_path / "key").signed_by == trusted


def test_what_is_for_images_only_is_not_in_it(world: SmallWorld, tmp_path: Path) -> None:
    password = "$6$abcdefgh$0123456789012345678901234567890123456789"
    world.fleet_file.write_text(
        f'{world.fleet_file.read_text()}[user]\nname = "pi"\npassword_hash = "{password}"\n'
        '[wifi]\nssid = "garden"\npsk = "correct horse"\ncountry = "DE"\n'
    )
    content = world.build(tmp_path / "out").path.read_bytes()
    assert not [secret for secret in (password, "correct horse", "garden") if secret.encode() in content]


def asked_for(world: SmallWorld, out: Path, *more: str) -> list[str]:
    given = ["flash", "bundle", "--board", BOARD, "--os", SYSTEM, "--fleet", str(world.fleet_file)]
    return [*given, "--wheels", str(world.wheels), "--out", str(out), *more]


def test_a_bundle_without_updates_has_to_be_asked_for(world: SmallWorld, tmp_path: Path, capsys: Printed) -> None:
    world.fleet_file.write_text(world.fleet_file.read_text().replace('update_root = "root.json"\n', ""))
    asked = asked_for(world, tmp_path / "out")
    assert main(asked) == 2
    assert "auricle cloud fleet new" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*asked, "--without-updates", "--json"]) == 0
    assert "tuf/root.json" not in content_of(Path(json.loads(capsys.readouterr().out)["path"]))


def test_a_change_of_settings_alone_is_a_newer_version(world: SmallWorld, tmp_path: Path) -> None:
    text = world.fleet_file.read_text()
    first = world.build(tmp_path / "out").manifest.version
    world.fleet_file.write_text(f"revision = 2\n{text}")
    second = world.build(tmp_path / "out").manifest.version
    assert second == f"{first}.post2"
    assert version_key(second) > version_key(first)


def test_a_board_or_system_for_containers_and_metadata_that_is_no_root_are_refused(
    world: SmallWorld, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="container"):
        build_bundle(load_board("jetson-nano"), world.fleet, tmp_path / "out", wheels=world.wheels)
    with pytest.raises(SettingsError, match='"debian-21"'):
        build_bundle(world.board, world.fleet, tmp_path / "out", os="debian-21", wheels=world.wheels)
    for text in ("{}", "[]", "not JSON", '{"signed": {"_type": "targets"}}'):
        (tmp_path / "root.json").write_text(text)
        with pytest.raises(SettingsError, match=r"root\.json"):
            world.build(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_builds_and_verifies(world: SmallWorld, tmp_path: Path, capsys: Printed) -> None:
    asked = asked_for(world, tmp_path / "out", "--key", str(tmp_path / "key"))
    assert main([*asked, "--json"]) == 2
    assert "--new-key" in json.loads(capsys.readouterr().out)["error"]
    assert not (tmp_path / "key").exists()
    assert main([*asked, "--new-key", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert main(["flash", "verify", built["path"], "--key", built["signed_by"], "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert main(["flash", "verify", built["path"]]) == 0
    assert main(["flash", "verify", str(tmp_path / "none.tar")]) == 2

    assert verified["ok"] is True
    assert verified.items() >= {key: built[key] for key in ("identity", "board", "os", "fleet", "files")}.items()
    assert all(part in told for part in (built["path"], "bundle/install", "claim.token"))
    assert built["identity"] in capsys.readouterr().out


def test_a_wheel_for_many_platforms_has_the_first_where_a_tar_has_no_room_for_all() -> None:
    many = "backports_zstd-1.8.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl"
    assert len(many) > 100
    assert name_in_tar(many) == "backports_zstd-1.8.0-cp311-cp311-manylinux2014_x86_64.whl"
    assert name_in_tar(many.replace("backports_", "")) == many.replace("backports_", "")
