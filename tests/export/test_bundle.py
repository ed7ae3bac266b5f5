"""A bundle: the same bytes each time, what is in it, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import msgspec
import pytest
import zstandard
from tests.export.small_bundle import BOARD, SYSTEM, SmallWorld, make_world

from auricle.errors import AuricleError, SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.signature import encode_signature, sign_manifest
from auricle.process.cli import main
from auricle.wire.identity import Identity
from auricle.wire.kinds import version_key
from auricle_edge.ota.slots.bundle import Bundle
from auricle_edge.settings import read_settings
from auricle_export.flash.boards import load_board, load_boards
from auricle_export.flash.bundle.archive import EARLIEST, Part, write_tar
from auricle_export.flash.bundle.build import build_bundle
from auricle_export.flash.bundle.contents import local_model, settings_of
from auricle_export.flash.bundle.manifest import decode
from auricle_export.flash.fleet import Device


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    """What small bundles are made of."""
    return make_world(tmp_path, monkeypatch)


def content_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in found.items() if file is not None}


def test_a_bundle_is_the_same_bytes_in_another_folder_with_another_umask(world: SmallWorld, tmp_path: Path) -> None:
    first = world.build(tmp_path / "one", key=tmp_path / "key", deb=True)
    before = os.umask(0o077)
    try:
        os.utime(world.house / "alpha-1.0-py3-none-any.whl", (1, 1))
        second = world.build(tmp_path / "two" / "deep", key=tmp_path / "key", deb=True)
    finally:
        os.umask(before)

    assert first.path.name == second.path.name
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.package is not None and second.package is not None
    assert first.package.read_bytes() == second.package.read_bytes()


def test_its_name_has_version_board_system_and_identity(world: SmallWorld, tmp_path: Path) -> None:
    built = world.build(tmp_path / "out")

    manifest = content_of(built.path)["bundle.json"]
    assert built.identity == hashlib.sha256(manifest).hexdigest()
    version = built.manifest.version
    assert built.path.name == f"auricle-{version}-{BOARD}-{SYSTEM}-{built.identity[:12]}.tar"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [built.path.name]


def test_the_tar_says_nothing_of_who_made_it_and_when(world: SmallWorld, tmp_path: Path) -> None:
    built = world.build(tmp_path / "out")

    with tarfile.open(built.path) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == sorted(names)
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime, m.type) for m in members} == {(0, 0, "", "", EARLIEST, b"0")}
    assert {m.name for m in members if m.mode == 0o755} == {"install", "slots.py"}
    assert {m.mode for m in members} == {0o644, 0o755}


def test_the_date_can_be_set_from_outside_and_leaves_the_identity(
    world: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.build(tmp_path / "one")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    after = world.build(tmp_path / "two")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")

    with tarfile.open(after.path) as archive:
        assert {member.mtime for member in archive} == {1700000000}
    assert before.identity == after.identity
    with pytest.raises(SettingsError, match="it takes seconds since 1970"):
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
    assert {
        "slots.py",
        "install",
        "systemd/auricle-edge.service",
        "systemd/auricle-edge.service.d/board.conf",
        "systemd/auricle-claim.service",
        "tuf/root.json",
        "etc/claim.env",
        "pack.tar.zst",
    } <= set(files)
    assert manifest.pack == load_pack("home").identity
    on_device = Bundle(built.path)
    on_device.verify()
    assert on_device.manifest.identity == built.identity
    on_device.close()


def test_the_requirements_name_every_wheel_by_its_hash(world: SmallWorld, tmp_path: Path) -> None:
    files = content_of(world.build(tmp_path / "out").path)

    wheels = {path: hashlib.sha256(content).hexdigest() for path, content in files.items() if path.endswith(".whl")}
    lines = files["requirements.txt"].decode().splitlines()[1:]
    assert sorted(line.rpartition(":")[2] for line in lines) == sorted(wheels.values())
    assert lines[0].startswith("auricle[edge,mic,gpio,updates]==")


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
    for board in load_boards():
        for microphone in (None, *(each.id for each in board.microphone)):
            device = Device(microphone=microphone, wired=board.gpio is not None, settings={"gate": {"hot": 60.0}})
            path.write_text(settings_of(board, msgspec.structs.replace(world.fleet, device=device), home))

            settings = read_settings(path, {"device": "any-device"})

            assert (settings.gate.hot, settings.gate.too_hot) == (60.0, board.sensors.too_hot)


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


def test_settings_with_any_text_are_read_back(world: SmallWorld, tmp_path: Path) -> None:
    command = ["/bin/x", 'a "quoted" \\ word', "ümläut 🎤 \x7f\t\n"]
    device = Device(settings={"events": {"hook": command, "stdout": False}, "gate": {"hours": ["22:00-06:00"]}})
    (tmp_path / "edge.toml").write_text(
        settings_of(world.board, msgspec.structs.replace(world.fleet, device=device), load_pack("home")), "utf-8"
    )

    settings = read_settings(tmp_path / "edge.toml", {"device": "any-device"})

    assert list(settings.events.hook or ()) == command
    assert (settings.events.stdout, list(settings.gate.hours)) == (False, ["22:00-06:00"])


def test_a_board_or_system_for_containers_is_refused(world: SmallWorld, tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"^On NVIDIA Jetson Nano .* in a container only: no bundle can be made for it\.$"
    ):
        build_bundle(load_board("jetson-nano"), world.fleet, tmp_path / "out", wheels=world.wheels)
    with pytest.raises(SettingsError, match='has no system "debian-21": did you mean'):
        build_bundle(world.board, world.fleet, tmp_path / "out", os="debian-21", wheels=world.wheels)
    assert not (tmp_path / "out").exists()


def test_a_pack_that_the_devices_would_refuse_is_refused_here(world: SmallWorld, tmp_path: Path) -> None:
    signer = Identity.create()
    keyed = msgspec.structs.replace(world.fleet, pack_key=signer.public.hex())
    unknown = msgspec.structs.replace(world.fleet, device=Device(settings={"local": "crnn-huge"}))

    with pytest.raises(SettingsError, match="The pack home is not signed by pack_key"):
        build_bundle(world.board, keyed, tmp_path / "out", os=SYSTEM, wheels=world.wheels)
    with pytest.raises(AuricleError, match="crnn-huge"):
        build_bundle(world.board, unknown, tmp_path / "out", os=SYSTEM, wheels=world.wheels)

    pack = load_pack("digits")
    signature = encode_signature(sign_manifest(signer, pack.manifest_bytes))
    files = {**pack.files, "manifest.json": pack.manifest_bytes, "manifest.sig": signature}
    packed = io.BytesIO()
    write_tar(packed, {name: Part(content) for name, content in files.items()})
    (tmp_path / "mine.tar.zst").write_bytes(zstandard.compress(packed.getvalue(), 1))
    keyed = msgspec.structs.replace(keyed, pack=str(tmp_path / "mine.tar.zst"))
    built = build_bundle(world.board, keyed, tmp_path / "out", os=SYSTEM, wheels=world.wheels)
    assert content_of(built.path)["pack.tar.zst"] == (tmp_path / "mine.tar.zst").read_bytes()
    assert f'pack_key = "{signer.public.hex()}"' in content_of(built.path)["etc/edge.toml"].decode()


def test_a_bundle_that_the_devices_would_not_believe_is_refused(world: SmallWorld, tmp_path: Path) -> None:
    trusted = Identity.load_or_create(tmp_path / "key").public.hex()
    text = world.fleet_file.read_text()
    world.fleet_file.write_text(text.replace("threads = 1", f'updates = {{ bundle_key = "{trusted}" }}'))

    for key in (None, tmp_path / "other"):
        with pytest.raises(SettingsError, match=r"take bundles signed by .* only: give its file with --key"):
            world.build(tmp_path / "out", key=key)
    assert world.build(tmp_path / "out", key=tmp_path / "key").signed_by == trusted


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON", '{"signed": {"_type": "targets"}}'], ids=range(4))
def test_metadata_that_is_no_root_is_refused(text: str, world: SmallWorld, tmp_path: Path) -> None:
    (tmp_path / "root.json").write_text(text)

    with pytest.raises(SettingsError, match=r"root\.json is not root metadata of updates"):
        world.build(tmp_path / "out")


def test_what_is_for_images_only_is_not_in_it(world: SmallWorld, tmp_path: Path) -> None:
    password = "$6$abcdefgh$0123456789012345678901234567890123456789"
    world.fleet_file.write_text(
        f'{world.fleet_file.read_text()}[user]\nname = "pi"\npassword_hash = "{password}"\n'
        '[wifi]\nssid = "garden"\npsk = "correct horse"\ncountry = "DE"\n'
    )

    content = world.build(tmp_path / "out", deb=True).path.read_bytes()

    assert not [secret for secret in (password, "correct horse", "garden") if secret.encode() in content]


def test_a_fleet_without_updates_has_no_root(world: SmallWorld, tmp_path: Path) -> None:
    world.fleet_file.write_text(world.fleet_file.read_text().replace('update_root = "root.json"\n', ""))

    assert "tuf/root.json" not in content_of(world.build(tmp_path / "out").path)


def test_a_bundle_that_could_never_be_updated_is_refused_unless_it_is_asked_for(
    world: SmallWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.fleet_file.write_text(world.fleet_file.read_text().replace('update_root = "root.json"\n', ""))
    asked = ["flash", "bundle", "--board", BOARD, "--os", SYSTEM, "--fleet", str(world.fleet_file)]
    asked += ["--wheels", str(world.wheels), "--out", str(tmp_path / "out")]

    assert main(asked) == 2
    assert "auricle cloud fleet new" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*asked, "--without-updates"]) == 0


def test_a_change_of_settings_alone_is_a_newer_version(world: SmallWorld, tmp_path: Path) -> None:
    text = world.fleet_file.read_text()
    first = world.build(tmp_path / "out").manifest.version
    world.fleet_file.write_text(f"revision = 2\n{text}")

    second = world.build(tmp_path / "out").manifest.version

    assert second == f"{first}.post2"
    assert version_key(second) > version_key(first)


def test_the_command_builds_and_verifies(world: SmallWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["flash", "bundle", "--board", BOARD, "--os", SYSTEM, "--fleet", str(world.fleet_file)]
    asked += ["--wheels", str(world.wheels), "--out", str(tmp_path / "out"), "--key", str(tmp_path / "key"), "--deb"]
    assert main([*asked, "--json"]) == 2
    assert "draw a new one with --new-key" in json.loads(capsys.readouterr().out)["error"]
    assert not (tmp_path / "key").exists()
    assert main([*asked, "--new-key", "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert main(["flash", "verify", built["path"], "--key", built["signed_by"], "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert main(["flash", "verify", built["path"]]) == 0

    assert Path(built["package"]).is_file()
    assert verified["ok"] is True
    assert verified.items() >= {key: built[key] for key in ("identity", "board", "os", "fleet", "files")}.items()
    assert built["path"] in told and "sudo sh bundle/install" in told
    assert "DEVICE.token /etc/auricle/claim.token" in told
    assert built["identity"] in capsys.readouterr().out


def test_the_command_says_in_a_sentence_what_is_wrong(
    world: SmallWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--fleet", str(world.fleet_file), "--out", str(tmp_path / "out"), "--wheels", str(world.wheels)]

    assert main(["flash", "bundle", "--board", "pi6", *asked]) == 2
    assert 'There is no board "pi6"' in capsys.readouterr().err
    assert main(["flash", "bundle", "--board", "jetson-nano", *asked]) == 2
    assert "in a container only" in capsys.readouterr().err
    assert main(["flash", "verify", str(tmp_path / "none.tar")]) == 2
    assert "none.tar cannot be read (No such file or directory)." in capsys.readouterr().err
