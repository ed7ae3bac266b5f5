"""What a run is told: what is refused, and what survives on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auricle.errors import AuricleError, SettingsError, StorageError
from auricle.packs.pack import load_pack
from auricle_cloud.settings import Privacy, SecureSum
from auricle_fleet.results.run_folder import prepare_folder
from auricle_fleet.settings.check import check_run
from auricle_fleet.settings.fleet_settings import LOCALS, FleetSettings
from auricle_fleet.settings.groups import Group

MISTYPED = (
    "preset=practicl practical; method=fedvas fedvsa; learning=mutuel mutual; mode=asink async; "
    "local=crnn-wied crnn-wide; local=mixd mixed; start=pakc pack; judge=of off; codec=float61 float16"
)
NAN, INFINITE = float("nan"), float("inf")
OUT_OF_RANGE: dict[str, list[float]] = {
    "over_selection": [0.5], "judge_minutes": [0.0, NAN], "judge_share": [1.1], "carried": [1.0, NAN], "rounds": [0],
    "takes": [0], "central_epochs": [-1], "participation": [0.0, 1.5, NAN], "quorum": [1.01],
    "deadline": [0.0, NAN, INFINITE], "seed": [-1, 1 << 50], "port": [-1, 65536],
}  # fmt: skip
WRONG: list[tuple[dict[str, Any], str]] = [
    *(({told.split("=")[0]: told.split("=")[1]}, meant) for told, meant in map(str.split, MISTYPED.split("; "))),
    *(({name: value}, f"--{name.replace('_', '-')}") for name, values in OUT_OF_RANGE.items() for value in values),
    ({"mode": "supervised"}, "--learning"),
    ({"mode": "async", "detect": True}, "--mode sync"),
    ({"method": "lpa", "method_options": {"prune_hihg": 0.2}}, "prune_high"),
    ({"method": "trimmed-mean", "method_options": {"beta": 0.5}}, "beta"),
    ({"groups": (Group(name="a"), Group(name="a"))}, '"a"'),
    ({"devices": 3, "groups": (Group(name="a", count=4),)}, "4 devices"),
    ({"groups": ({"name": "a", "count": 0},)}, "groups"),
    ({"groups": (Group(name="a", local="crnn-bas"),)}, "crnn-base"),
    ({"local": "crnn-base,"}, "local model"),
    ({"runtime": "ort"}, "--runtime"),
    ({"secure_sum": SecureSum(on=True)}, "fedavg"),
    ({"secure_sum": SecureSum(on=True), "method": "fedavg", "codec": "top-k"}, "leave out top-k, or --secure-sum"),
    ({"privacy": Privacy(clip=1.0), "method": "fedavg", "codec": "top-k"}, "leave out top-k, or --dp-clip"),
    ({"method": "trimmed-mean", "codec": "top-k"}, 'The method "trimmed-mean" takes each weight alone'),
    ({"method": "fedmlac", "learning": "supervised"}, "mutual=false"),
    ({"method": "fedmlac", "method_options": {"mutual": False}, "learning": "mutual"}, "mutual=true"),
]


@pytest.mark.parametrize(("wrong", "says"), WRONG)
def test_what_cannot_be_run_is_refused_with_its_name(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        check_run(FleetSettings(**wrong))


def test_local_models_in_turn_and_by_default_the_larger_one_of_the_pack() -> None:
    assert FleetSettings(local="mixed").architectures() == LOCALS
    assert FleetSettings(local="crnn-base, crnn-lite").architectures() == ("crnn-base", "crnn-lite")
    gsc12 = load_pack("gsc12")
    assert FleetSettings(local="crnn-bi64, crnn-bi64-deep").architectures(gsc12) == ("crnn-base", "crnn-deep")
    assert FleetSettings(local="mixed").architectures(gsc12) == LOCALS
    assert FleetSettings(local="mixed").architectures(load_pack("home")) == ("resnet-base", "resnet-lite")
    groups = (Group(name="a", local="crnn-bi64"), None)
    assert FleetSettings(local="crnn-lite").own_models(groups, gsc12) == ["crnn-base", "crnn-lite"]
    check_run(FleetSettings(local="crnn-bi64"))
    assert FleetSettings().architectures() == ("crnn-base",)
    assert FleetSettings(pack="home").architectures(load_pack("home")) == ("resnet-base",)
    assert FleetSettings(pack="home", local="resnet-lite").architectures(load_pack("home")) == ("resnet-lite",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((damaged, "damaged") for damaged in (b"", b"{", b"[]", b'{"data": "\xff"}')),
        (b'{"rounds": "many"}', "rounds"),
        (b'{"roundz": 3}', "roundz"),
        (None, "holds no run"),
    ],
)
def test_a_folder_without_sound_settings_is_no_run(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(AuricleError, match=says) as caught:
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
    with pytest.raises(StorageError, match="folder"):
        prepare_folder(tmp_path / "file" / "out", resume=False)
    with pytest.raises(StorageError, match="folder"):
        prepare_folder(tmp_path / "file", resume=False)


def test_the_command_line_changes_the_preset() -> None:
    same = FleetSettings(preset="paper").preset_for(trained=False)
    told = FleetSettings(preset="paper", method="fedavg", learning="supervised", codec="float16")
    changed = told.preset_for(trained=False)
    assert (same.method.name, same.plan.mode, same.plan.codec) == ("lpa", "mutual", "float32")
    assert (changed.method.name, changed.plan.mode, changed.plan.codec) == ("fedavg", "supervised", "float16")
    assert changed.plan.rate == same.plan.rate


def test_a_brokers_password_stays_in_a_file_of_its_user(tmp_path: Path) -> None:
    settings = FleetSettings(broker="mqtt://hub:secret@127.0.0.1:1883", devices=7, participation=0.3)
    settings.save(tmp_path)
    assert (tmp_path / "settings.json").stat().st_mode & 0o777 == 0o600
    assert FleetSettings.load(tmp_path) == settings
    assert settings.changed() == {"broker": "mqtt://hub@127.0.0.1:1883", "devices": 7, "participation": 0.3}
    assert FleetSettings(broker="amqtt").changed() == {"broker": "amqtt"}


def test_the_server_takes_the_average_as_it_is_where_that_is_asked_for() -> None:
    def server(**told: Any) -> tuple[str, float]:
        found = FleetSettings(preset="fedavg", **told).preset_for(trained=False).server
        return found.kind, found.rate

    assert server() == ("adam", 0.02) == server(server_optimizer="adam")
    assert server(server_optimizer="none")[0] == "none" == server(method="scaffold", server_optimizer="none")[0]
    assert server(server_optimizer="yogi", server_rate=0.3) == ("yogi", 0.3)
    for told, said in (
        ({"server_optimizer": "adamm"}, 'There is no server optimizer "adamm"'),
        ({"server_optimizer": "adam", "method": "scaffold"}, "scaffold is itself the server's step"),
        ({"server_optimizer": "none", "server_rate": 0.1}, "leave --server-rate out"),
    ):
        with pytest.raises(SettingsError, match=said):
            check_run(FleetSettings(preset="fedavg", **told))


def test_the_epochs_of_a_round_are_the_presets_or_what_is_told() -> None:
    def epochs(**told: Any) -> int:
        return FleetSettings(**told).preset_for(trained=False).plan.epochs

    assert (epochs(), epochs(preset="paper"), epochs(preset="paper", epochs=5)) == (3, 1, 5)
    for wrong in (0, 1001):
        with pytest.raises(SettingsError, match="epochs takes a whole number"):
            epochs(epochs=wrong)


def test_own_models_have_the_presets_rate_or_the_one_told() -> None:
    def rates(**told: Any) -> tuple[float, float]:
        plan = FleetSettings(**told).preset_for(trained=False).plan
        return plan.rate, plan.local_rate

    assert rates(preset="fedavg", method="fedkad") == (0.1, 0.003)
    assert rates(preset="fedavg", method="fedkad", local_rate=0.5) == (0.1, 0.5)
    assert rates(rate=0.5) == (0.5, 0.001)
    with pytest.raises(SettingsError, match="local_rate"):
        FleetSettings(local_rate=0.0)


def test_devices_augment_as_the_preset_has_it_or_as_told() -> None:
    def augments(**told: Any) -> bool:
        return FleetSettings(**told).preset_for(trained=False).plan.augment

    assert (augments(), augments(augment="off"), augments(preset="paper"), augments(preset="paper", augment="on")) == (
        *(True, False),
        *(False, True),
    )
