"""What a run is told: what is refused, and what survives on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle_fleet.groups import Group
from auricle_fleet.results.run_folder import prepare_folder
from auricle_fleet.settings.check import LOCALS
from auricle_fleet.settings.fleet_settings import FleetSettings


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"preset": "practicl"}, 'did you mean "practical"'),
        ({"rule": "fedvas"}, 'did you mean "fedvsa"'),
        ({"learning": "mutuel"}, 'did you mean "mutual"'),
        ({"mode": "asink"}, 'did you mean "async"'),
        ({"mode": "supervised"}, "How devices learn is --learning"),
        ({"mode": "async", "detect": True}, "--mode sync"),
        ({"over_selection": 0.5}, "--over-selection"),
        ({"rule": "lpa", "rule_options": {"prune_hihg": 0.2}}, 'did you mean "prune_high"'),
        ({"rule": "trimmed-mean", "rule_options": {"beta": 0.5}}, "beta"),
        ({"groups": (Group(name="a"), Group(name="a"))}, 'Two groups are called "a"'),
        ({"devices": 3, "groups": (Group(name="a", count=4),)}, "4 devices together, and this run has 3"),
        ({"groups": (Group(name="a", count=0),)}, 'the group "a"'),
        ({"groups": (Group(name="a", local="crnn-bas"),)}, 'did you mean "crnn-base"'),
        ({"local": "crnn-wied"}, 'did you mean "crnn-wide"'),
        ({"local": "crnn-base,"}, "no local model"),
        ({"local": "mixd"}, 'did you mean "mixed"'),
        ({"start": "pakc"}, 'did you mean "pack"'),
        ({"judge": "of"}, 'did you mean "off"'),
        ({"runtime": "ort"}, "--runtime is step or native"),
        ({"judge_minutes": 0.0}, "--judge-minutes"),
        ({"judge_minutes": float("nan")}, "--judge-minutes"),
        ({"judge_share": 1.1}, "--judge-share"),
        ({"carried": 1.0}, "--carried"),
        ({"carried": float("nan")}, "--carried"),
        ({"codec": "float61"}, 'did you mean "float16"'),
        ({"rounds": 0}, "--rounds is 0"),
        ({"takes": 0}, "--takes is 0"),
        ({"central_epochs": -1}, "--central-epochs is -1"),
        ({"participation": 0.0}, "--participation"),
        ({"participation": float("nan")}, "--participation"),
        ({"quorum": 1.01}, "--quorum"),
        ({"deadline": 0.0}, "--deadline"),
        ({"deadline": float("nan")}, "--deadline"),
        ({"deadline": float("inf")}, "--deadline"),
        ({"seed": -1}, "--seed"),
        ({"seed": 1 << 50}, "--seed"),
        ({"port": -1}, "--port"),
        ({"port": 65536}, "--port"),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_name(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        FleetSettings(**wrong)


def test_local_models_in_turn() -> None:
    assert FleetSettings(local="mixed").architectures() == LOCALS
    assert FleetSettings(local="crnn-base, crnn-lite").architectures() == ("crnn-base", "crnn-lite")


def test_a_run_that_names_no_local_model_takes_the_larger_one_of_its_pack() -> None:
    assert FleetSettings().architectures() == ("crnn-base",)
    assert FleetSettings(pack="home").architectures(load_pack("home")) == ("resnet-base",)
    assert FleetSettings(pack="home", local="resnet-lite").architectures(load_pack("home")) == ("resnet-lite",)


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    settings = FleetSettings(data="some/folder", devices=7, rule="lpa+fedvsa", participation=0.3, broker="mqtt://u:p@h")

    settings.save(tmp_path)

    assert FleetSettings.load(tmp_path) == settings


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((damaged, "is damaged: it was cut short") for damaged in (b"", b"{", b"[]", b'{"data": "\xff"}')),
        (b'{"rounds": "many"}', "settings.json: rounds"),
        (b'{"roundz": 3}', 'no setting "roundz": did you mean "rounds"?'),
        (b'{"rounds": 0}', "rounds"),
        (None, "holds no run"),
    ],
)
def test_a_folder_without_sound_settings_is_no_run(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "settings.json").write_bytes(content)

    with pytest.raises(AuricleError, match=re.escape(says)) as caught:
        FleetSettings.load(tmp_path)

    assert "`" not in str(caught.value)  # of a library's own words


def test_a_folder_takes_one_run_and_resuming_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    first = FleetSettings(seed=1)
    prepare_folder(out, resume=False)
    first.save(out)

    with pytest.raises(StorageError, match="--resume"):
        prepare_folder(out, resume=False)
    prepare_folder(out, resume=True)

    assert FleetSettings.load(out) == first


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"out cannot be written: what should be a folder .* is a file\.$"):
        prepare_folder(tmp_path / "file" / "out", resume=False)
    with pytest.raises(StorageError, match=r"file cannot be written: it is a file, and a folder is needed"):
        prepare_folder(tmp_path / "file", resume=False)


def test_the_command_line_changes_the_preset() -> None:
    same = FleetSettings(preset="paper").preset_for(trained=False)
    changed = FleetSettings(preset="paper", rule="fedavg", learning="supervised", codec="float16").preset_for(
        trained=False
    )

    assert (same.rule, same.plan.mode, same.plan.codec) == ("lpa", "mutual", "float32")
    assert (changed.rule, changed.plan.mode, changed.plan.codec) == ("fedavg", "supervised", "float16")
    assert changed.plan.rate == same.plan.rate


def test_a_brokers_password_stays_in_a_file_of_its_user(tmp_path: Path) -> None:
    settings = FleetSettings(broker="mqtt://hub:secret@127.0.0.1:1883")

    settings.save(tmp_path)

    assert (tmp_path / "settings.json").stat().st_mode & 0o777 == 0o600
    assert FleetSettings.load(tmp_path) == settings
    assert settings.changed() == {"broker": "mqtt://hub@127.0.0.1:1883"}
    assert FleetSettings(broker="amqtt").changed() == {"broker": "amqtt"}
