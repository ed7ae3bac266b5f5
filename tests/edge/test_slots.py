"""The two slots of a device: installed, tried, confirmed, reverted, removed."""

from __future__ import annotations

import ensurepip
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.edge.slots_bundle import Device, identity, make_bundle, pack
from tests.edge.slots_guard import Say, on_trial, run
from tests.edge.slots_guard import device as device
from tests.edge.slots_guard import folder as folder
from tests.edge.slots_guard import new as new
from tests.edge.slots_guard import old as old

from auricle_edge.ota.slots import filling
from auricle_edge.ota.slots.bundle import read_manifest
from auricle_edge.ota.slots.journal import Place, lock


def test_a_bundle_is_installed_and_runs(device: Device, old: Path) -> None:
    assert run(device, "install", old) == 0
    assert device.probe() == "1.0"
    nothing = {"previous": None, "trial": None, "last": None}
    assert device.journal() == {"format": 1, "active": "a", "confirmed": True, **nothing}
    assert (device.root / "etc/auricle/edge.toml").read_text() == "# settings of 1.0\n"
    assert (device.home / "current/pack.tar.zst").read_bytes() == b"a pack of 1.0"
    assert stat.S_IMODE((device.home / "slots.json").stat().st_mode) == 0o644
    assert stat.S_IMODE((device.home / ".journal.lock").stat().st_mode) == 0o600
    units = device.root / "etc/systemd/system"
    wanted = {path.name for path in (units / "multi-user.target.wants").iterdir()}
    assert wanted == {f"auricle-{name}.service" for name in ("edge", "guard", "claim", "update")}
    assert all(link.resolve().is_file() for link in units.glob("*.wants/*"))


def test_scripts_name_the_python_of_their_slot_as_the_device_sees_it(device: Device, old: Path) -> None:
    run(device, "install", old)
    for name in ("auricle-probe", "auricle-deep", "probe-own"):
        script = device.home / "a/bin" / name
        assert script.read_text().startswith("#!/opt/auricle/a/bin/python3\n")
        assert os.access(script, os.X_OK)
    for path in device.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert str(device.root).encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_wheels_are_unpacked_as_pip_does_it(folder: Path, device: Device, old: Path) -> None:
    bundled = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
    if not bundled:
        pytest.skip("this Python comes without a wheel of pip")
    target, wheels = folder / "by-pip", [*bundled, *old.glob("wheels/*.whl")]
    options = "-q --no-index --no-deps --no-compile --ignore-installed --no-warn-script-location --prefix"
    subprocess.run(
        [sys.executable, "-I", bundled[0] / "pip", "install", *options.split(), target, *wheels],
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )
    (folder / "ours").mkdir()
    manifest = read_manifest((old / "bundle.json").read_bytes())
    library = filling.make_environment(Place(device.root), folder / "ours", manifest)
    for path in wheels:
        with path.open("rb") as file:
            filling.unpack(file, folder / "ours", Path("/x/bin/python3"), library)

    def tree(root: Path) -> dict[str, object]:
        return {
            str(path.relative_to(root)): (path.read_bytes() if "bin/" not in str(path) else b"", path.stat().st_mode)
            for path in root.rglob("*")
            if path.is_file() and path.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
        }

    ours, theirs = tree(folder / "ours"), tree(target)
    for extra in ("pyvenv.cfg", "bin/python", "bin/python3"):
        del ours[extra]
    versioned = {name for name in theirs if name.startswith("bin/pip")}  # pip invents more names for itself
    assert ours.keys() - versioned == theirs.keys() - versioned
    for name in ours.keys() - versioned:
        assert ours[name] == theirs[name], name


def test_the_same_bundle_twice_is_once(device: Device, old: Path, capsys: Say) -> None:
    run(device, "install", old)
    before = {path: path.lstat().st_ino for path in device.root.rglob("*")}
    assert run(device, "install", pack(old, old.parent / "old.tar")) == 0
    assert "already" in capsys.readouterr().out
    assert {path: path.lstat().st_ino for path in device.root.rglob("*")} == before


def test_another_bundle_by_hand_replaces_what_is_installed_and_can_be_taken_back(
    device: Device, old: Path, new: Path
) -> None:
    run(device, "install", old)
    assert run(device, "install", new) == 0
    assert device.probe() == "2.0"
    assert run(device, "revert", "--reason", "too  loud") == 0
    assert device.probe() == "1.0"
    assert device.journal()["last"]["reason"] == "too loud"


def test_a_healthy_version_is_confirmed_and_brings_its_guard(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    journal = device.journal()
    assert (journal["active"], journal["confirmed"], journal["previous"]) == ("b", False, "a")
    assert journal["trial"]["identity"] == identity(new)
    assert (device.probe(), device.guard()) == ("2.0", "1.0")
    assert run(device, "check") == 0
    for bundle, healthy in ((old, True), (new, False)):
        device.healthy(bundle, healthy)
        run(device, "check")
        assert device.journal()["trial"] is not None
    device.healthy(new)
    assert run(device, "check") == 0
    journal = device.journal()
    assert (journal["active"], journal["confirmed"], journal["previous"], journal["trial"]) == ("b", True, "a", None)
    ended = {"outcome": "confirmed", "reason": ""}
    assert journal["last"] == {"identity": identity(new), "version": "2.0", "rollout": "r7", **ended}
    assert device.guard() == "2.0"


def reverted(device: Device, old: Path, why: str) -> None:
    journal = device.journal()
    assert (journal["active"], journal["confirmed"], journal["trial"]) == ("a", True, None)
    assert journal["last"]["outcome"] == "reverted" and journal["last"]["rollout"] == "r7"
    assert why in journal["last"]["reason"]
    assert device.probe() == "1.0"
    assert (device.root / "etc/auricle/edge.toml").read_text() == "# settings of 1.0\n"
    assert device.guard() == "1.0"


def test_a_version_that_does_not_become_healthy_in_time_is_reverted(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new, "--deadline", 0)
    device.healthy(new, False)
    assert run(device, "check") == 0
    reverted(device, old, "within 0 s")


@pytest.mark.parametrize("said", ["", "[]", '{"format": 1}', "[" * 9000, "\udcff"], ids=range(5))
def test_nonsense_about_health_is_no_health(device: Device, old: Path, new: Path, said: str) -> None:
    on_trial(device, old, new)
    (device.root / "run/auricle").mkdir(parents=True)
    (device.root / "run/auricle/health.json").write_bytes(said.encode("utf-8", "surrogateescape"))
    assert run(device, "check") == 0
    assert device.journal()["trial"] is not None


def test_health_from_a_pipe_or_through_a_link_is_not_waited_for(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    health = device.root / "run/auricle/health.json"
    device.healthy(new)
    health.rename(health.with_name("other"))
    health.symlink_to("other")
    run(device, "check")
    health.unlink()
    os.mkfifo(health)
    run(device, "check")
    assert device.journal()["trial"] is not None


def test_a_version_that_never_runs_is_given_up_at_its_fourth_start(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    for start in (1, 2, 3):
        assert run(device, "starting") == 0
        assert device.journal()["trial"]["starts"] == start
    assert run(device, "starting") == 0
    reverted(device, old, "started 3 times")
    assert run(device, "starting") == 0
    reverted(device, old, "started 3 times")


def test_a_trial_does_not_outlive_its_boot(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    device.boot("second")
    assert run(device, "check") == 0
    reverted(device, old, "switched off")


def test_a_slot_that_was_lost_is_left_for_the_other(device: Device, old: Path, new: Path) -> None:
    run(device, "install", old)
    run(device, "install", new)
    (device.home / "b/bundle.json").unlink()
    assert run(device, "check") == 0
    assert device.probe() == "1.0"


def test_a_damaged_journal_is_made_again_from_what_is_active(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    device.healthy(new)
    run(device, "check")
    for damaged in (b"", b"\xff", b"{}", b'{"format": 1, "active": "../x", "trial": null, "last": null}'):
        (device.home / "slots.json").write_bytes(damaged)
        assert run(device, "stage", old, "--identity", identity(old)) == 0
        assert run(device, "status") == 0
    assert device.probe() == "2.0"


def test_a_version_may_be_tried_again_after_it_was_reverted(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new, "--deadline", 0)
    run(device, "check")
    assert run(device, "stage", new, "--identity", identity(new)) == 0
    assert run(device, "try") == 0
    device.healthy(new)
    run(device, "check")
    assert device.probe() == "2.0" and device.journal()["confirmed"]


def test_settings_follow_the_version_unless_somebody_changed_them(device: Device, old: Path, new: Path) -> None:
    settings = device.root / "etc/auricle/edge.toml"
    on_trial(device, old, new)
    assert settings.read_text() == "# settings of 2.0\n"
    run(device, "revert")
    assert settings.read_text() == "# settings of 1.0\n"
    settings.write_text("# mine\n")
    run(device, "try")
    assert settings.read_text() == "# mine\n"
    assert settings.with_name("edge.toml.new").read_text() == "# settings of 2.0\n"


def test_settings_that_are_a_link_or_empty_are_somebodys_own(device: Device, old: Path, new: Path) -> None:
    settings = device.root / "etc/auricle/edge.toml"
    run(device, "install", old)
    settings.rename(settings.with_name("mine.toml"))
    settings.symlink_to("mine.toml")
    assert run(device, "install", new) == 0
    assert settings.is_symlink() and settings.read_text() == "# settings of 1.0\n"
    settings.unlink()
    settings.touch()
    assert run(device, "revert") == 0
    assert settings.read_text() == ""


def test_units_follow_the_version_and_one_that_was_disabled_stays_so(folder: Path, device: Device, old: Path) -> None:
    units = device.root / "etc/systemd/system"
    edge = "systemd/auricle-edge.service"
    guard = "systemd/auricle-guard.service"
    renew = "systemd/auricle-renew.timer"
    extra = {"systemd/auricle-more.service": b"[Install]\nWantedBy=multi-user.target\n"}
    new = make_bundle(folder / "new", "2.0", more={edge: b"# 2\n", guard: b"# 2\n", renew: None, **extra})
    run(device, "install", old)
    (units / "multi-user.target.wants/auricle-claim.service").unlink()
    run(device, "stage", new, "--identity", identity(new))
    run(device, "try")

    assert (units / "auricle-edge.service").read_bytes() == b"# 2\n"
    assert (units / "auricle-guard.service").read_bytes() == (old / guard).read_bytes()
    assert (units / "multi-user.target.wants/auricle-more.service").exists()
    assert not (units / "auricle-renew.timer").exists()
    assert not (units / "timers.target.wants").exists()
    assert not (units / "multi-user.target.wants/auricle-claim.service").exists()
    run(device, "confirm")
    assert (units / "auricle-guard.service").read_bytes() == b"# 2\n"
    run(device, "revert")
    assert (units / "auricle-edge.service").read_bytes() == (old / edge).read_bytes()
    assert not (units / "auricle-more.service").exists()
    assert (units / "timers.target.wants/auricle-renew.timer").exists()


def test_a_claim_token_leaves_the_boot_partition(device: Device, old: Path) -> None:
    token, kept = device.root / "boot/firmware/auricle.token", device.root / "etc/auricle/claim.token"
    token.parent.mkdir(parents=True)
    for command, text in ((("install", old), "secret\n"), (("check",), "another\n")):
        token.write_text(text)
        run(device, *command)
        assert not token.exists()
        assert kept.read_text() == text and stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert run(device, "claimed") == 0
    assert not kept.exists()


def test_uninstalling_leaves_nothing(device: Device, old: Path, new: Path) -> None:
    on_trial(device, old, new)
    for path in ("var/lib/private/auricle/identity/key.pem", "var/lib/systemd/timers/stamp-auricle-renew.timer"):
        (device.root / path).parent.mkdir(parents=True, exist_ok=True)
        (device.root / path).write_text("")
    (device.root / "var/lib/auricle").symlink_to("private/auricle")
    device.healthy(new)
    assert run(device, "uninstall") == 0
    assert device.everything() == set()
    assert not device.home.exists() and not (device.root / "etc/auricle").exists()
    assert run(device, "uninstall") == run(device, "check") == 0
    assert device.everything() == set()


def test_uninstalling_leaves_what_others_have_beside_its_settings(device: Device, old: Path) -> None:
    run(device, "install", old)
    secret = device.root / "etc/auricle/authority-passphrase"
    secret.write_text("of the coordinator on the same machine")
    assert run(device, "uninstall") == 0
    assert device.everything() == {"etc/auricle/authority-passphrase"}


def test_uninstalling_may_keep_settings_and_data(device: Device, old: Path) -> None:
    run(device, "install", old)
    (device.root / "var/lib/auricle").mkdir(parents=True)
    (device.root / "var/lib/auricle/x").write_text("")
    assert run(device, "uninstall", "--keep-data") == 0
    assert device.everything() == {"etc/auricle/edge.toml", "var/lib/auricle/x"}


def test_status_speaks_json(device: Device, old: Path, capsys: Say) -> None:
    assert run(device, "status", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told.pop("said")
    assert told == {"code": 0, "installed": False, "slots": {"a": None, "b": None}, "journal": None}
    run(device, "install", old)
    capsys.readouterr()
    run(device, "status", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["slots"]["a"]["identity"] == identity(old) and told["journal"]["active"] == "a"


def test_status_names_the_version_of_each_slot_and_how_the_newest_trial_ended(
    device: Device, old: Path, new: Path, capsys: Say
) -> None:
    def said() -> list[str]:
        capsys.readouterr()
        assert run(device, "status") == 0
        return capsys.readouterr().out.splitlines()

    on_trial(device, old, new)
    tried, runs = identity(new)[:12], identity(old)[:12]
    assert [(tried in line, "trial" in line) for line in said()] == [(True, True), (False, False)]
    run(device, "revert", "--reason", "it hears nothing")
    first, second, last = said()
    assert (runs in first, tried in second) == (True, True)
    assert "2.0" in last and "it hears nothing" in last


def test_an_installation_begins_anew_where_journal_and_slot_are_damaged(
    device: Device, old: Path, new: Path, capsys: Say
) -> None:
    run(device, "install", old)
    (device.home / "slots.json").write_bytes(b"")
    (device.home / "a/bundle.json").unlink()
    capsys.readouterr()
    assert run(device, "status", "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert "whole" in told["said"] and told["installed"] is False
    assert run(device, "check") == 2
    assert run(device, "install", new) == 0
    assert device.probe() == "2.0"


def test_an_interruption_is_a_sentence_and_the_same_command_ends_what_was_begun(
    device: Device, old: Path, new: Path, capsys: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(device, "install", old)
    with monkeypatch.context() as patch:
        patch.setattr(filling, "copy_files", lambda slot, bundle: os.kill(os.getpid(), signal.SIGINT))
        assert run(device, "install", new) == 130
    assert "Interrupted" in capsys.readouterr().err
    assert device.probe() == "1.0"
    assert run(device, "install", new) == 0
    assert device.probe() == "2.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_who_is_not_root_is_told_so(device: Device, old: Path, capsys: Say) -> None:
    run(device, "install", old)
    os.seteuid(65534)
    try:
        assert run(device, "revert") == 1
    finally:
        os.seteuid(0)
    said = capsys.readouterr().err
    assert "root" in said and said.count("\n") == 1


def test_one_installation_at_a_time(device: Device, old: Path, new: Path, capsys: Say) -> None:
    run(device, "install", old)
    with lock(Place(device.root), "build"):
        assert run(device, "stage", new, "--identity", identity(new)) == 2
    assert "under way" in capsys.readouterr().err
