"""`coordinator.toml`: every setting arrives, options count above the file, mistakes get one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings, all_settings, read_coordinator, template
from auricle_cloud.commands.preflight_commands import _Preflight
from auricle_cloud.settings import Buffer, RunSettings
from auricle_learning.methods import MethodSettings

NOTHING: dict[str, dict[str, object]] = {}

WHOLE = """
fleet = "home"
worker = "mqtts://worker-0@hub.lan"
broker = "mqtt://coordinator:secret@127.0.0.1:1883"
state = "/tmp/state"
task = "words"
approval = "auto"
seed = 7
compute = "cpu"
validation = "/tmp/clips"
labelled = "learnt"
connect_timeout = 5
buffer = {size = 5, stale_limit = 6}
privacy = {delta = 1e-6}
secure_sum = {wait = 30}
limits = {samples = 100, loss = 10, weight = 20, norm = 30, frames = 40, burst = 50}
api = {listen = "127.0.0.1:9999", metrics_open = true}
detection = {enabled = true, repair = "hotfix", tau = 0.5, permutations = 9, tolerance = 0.02, margin = 0.03, \
    quarantine_after = 2, wait = 6, one_phase = true}
storage = {database = "sqlite:////tmp/db", blobs = "file:///tmp/blobs", keep_models = 8, keep_events = 9, \
    keep_audit = 30, keep_hearing = 10, backups = "/tmp/backups", keep_backups = 3}
rounds = {rounds = 12, devices = 4, gather = 9, preset = "fedavg", method = "lpa", \
    method_options = {prune_high = 0.25}, server_rate = 0.5, horizon = 33, \
    participation = 0.5, over_selection = 1.5, quorum = 0.6, deadline = 77, \
    patience = 3, least_wait = 1}
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "coordinator.toml"
    path.write_text(text)
    return path


def test_every_setting_of_a_file_reaches_the_coordinator(tmp_path: Path) -> None:
    told = read_coordinator(_file(tmp_path, WHOLE), NOTHING)
    run = told.run_settings(None)
    least: dict[str, object] = {"fleet": "other", "broker": "mqtt://c@127.0.0.1", "state": "elsewhere"}
    usual = read_coordinator(None, {"": least}).run_settings(None)
    alone = ("start", "mode", "broker", "durable", "region")  # an emulated fleet says `durable`, from Python
    for name in RunSettings.__dataclass_fields__:
        if name not in alone:
            assert getattr(run, name) != getattr(usual, name), name
    region = WHOLE.replace("enabled = true", "enabled = false") + 'region = "https://hub.lan:8443"'
    joined = read_coordinator(_file(tmp_path, region), NOTHING).run_settings(None)
    assert joined.region == "https://hub.lan:8443"
    assert run.broker.host == "127.0.0.1"
    assert run.preset.method == MethodSettings("lpa", {"prune_high": 0.25})
    assert run.preset.server.rate == 0.5
    assert (run.detection.tau, run.detection.wait, run.detection.one_phase) == (0.5, 6.0, True)
    assert (run.limits.samples, run.limits.burst) == (100, 50.0)
    api = told.api_settings()
    assert (api.port, api.metrics_open) == (9999, True)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({}, None),
        ({"rounds": {"method": "lpa"}}, "lpa"),
        ({"rounds": {"method_options": {"weighting": "samples"}}}, "samples"),
        ({"rounds": {"method_options": {"weighting": "uniform"}}}, None),
        ({"rounds": {"mode": "async"}}, "synchronous"),
        ({"detection": {"enabled": True}}, "hides"),
        ({"secure_sum": {"bound": 0.0}}, "bound"),
        ({"secure_sum": {"bucket": 3}}, None),
        ({"secure_sum": {"bucket": 0}, "privacy": {"clip": 1.0}}, None),
        ({"secure_sum": {"bucket": 2}}, "at least 3 devices"),
        ({"secure_sum": {"bucket": 8}, "privacy": {"clip": 1.0}}, "no buckets"),
    ],
)
def test_a_secure_sum_is_refused_with_what_needs_single_updates(
    more: dict[str, dict[str, object]], match: str | None, tmp_path: Path
) -> None:
    base: dict[str, dict[str, object]] = {
        "": {"fleet": "f", "broker": "mqtt://c@127.0.0.1", "state": str(tmp_path)},
        "rounds": {"method": "fedavg"},
        "secure_sum": {"on": True},
    }
    given = {table: {**base.get(table, {}), **more.get(table, {})} for table in {*base, *more}}
    if match is None:
        assert read_coordinator(None, given).run_settings(None).secure_sum.on
        return
    with pytest.raises(SettingsError, match=match):
        read_coordinator(None, given).run_settings(None)
    if "secure_sum" not in more:
        with pytest.raises(SettingsError, match=match):
            _Preflight(read_coordinator(None, given), tmp_path, "embedded")._method()


def test_detection_is_off_and_rounds_synchronous_unless_a_file_says_otherwise(tmp_path: Path) -> None:
    text = 'fleet="f"\nbroker="mqtt://c@127.0.0.1"\nstate="/tmp/s"\n[rounds]\nmode = "async"\n[buffer]\nsize = 3\n'
    run = read_coordinator(_file(tmp_path, text), NOTHING).run_settings(np.zeros(3, np.float32))
    assert (run.detection, run.mode, run.buffer) == (None, "async", Buffer(3, 20))
    assert run.start is not None


def test_options_count_above_the_file(tmp_path: Path) -> None:
    rounds = {"deadline": 5.0, "method_options": {"prune_high": 0.3}, "gather": 0.0, "devices": 0}
    given = {"": {"seed": 8, "fleet": None}, "rounds": rounds, "storage": {"keep_models": 9}}
    told = read_coordinator(_file(tmp_path, WHOLE), given)
    assert (told.seed, told.fleet) == (8, "home")
    assert (told.rounds.deadline, told.rounds.quorum, told.rounds.method_options) == (5.0, 0.6, {"prune_high": 0.3})
    assert (told.rounds.gather, told.rounds.devices) == (0.0, 0), "nobody need be waited for"
    assert (told.storage.keep_models, told.storage.keep_events) == (9, 9)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ({}, ("lpa", {"prune_low": 0.0, "prune_high": 0.3})),
        ({"method": "lpa"}, ("lpa", {"prune_low": 0.0, "prune_high": 0.3})),
        (
            {"method": "lpa+fedvsa", "method_options": {"clip": 4.0}},
            ("lpa+fedvsa", {"clip": 4.0, "prune_low": 0.0, "prune_high": 0.3}),
        ),
        ({"method": "fedmlac"}, ("fedmlac", {"prune_low": 0.0, "prune_high": 0.3})),
        ({"method_options": {"prune_high": 0.1}}, ("lpa", {"prune_high": 0.1})),
        ({"preset": "paper"}, ("lpa", {})),
        ({"method": "median"}, ("median", {})),
    ],
)
def test_a_coordinator_prunes_enough_for_a_fifth_of_attackers(
    rounds: dict[str, object], expected: tuple[str, dict[str, object]]
) -> None:
    preset = read_coordinator(None, {"rounds": rounds}).preset_for(trained=True)
    assert preset.method == MethodSettings(*expected)


def test_options_of_another_method_do_not_stay(tmp_path: Path) -> None:
    told = read_coordinator(_file(tmp_path, WHOLE), {"rounds": {"method": "fedavg"}})
    assert (told.rounds.method, dict(told.rounds.method_options)) == ("fedavg", {})
    told = read_coordinator(_file(tmp_path, WHOLE), {"rounds": {"method": "lpa"}})
    assert dict(told.rounds.method_options) == {"prune_high": 0.25}


def test_the_template_has_every_setting_at_its_default(tmp_path: Path) -> None:
    lines = template().splitlines()
    for each in all_settings():
        assert each.description, each.name
    said = [line[2:] if line.startswith("# ") and " = " in line else line for line in lines]
    names = [line.partition(" = ")[0] for line in said if " = " in line]
    assert len(names) == sum(each.default is not None for each in all_settings())
    assert read_coordinator(_file(tmp_path, "\n".join(said)), NOTHING) == CoordinatorSettings()


@pytest.mark.parametrize(
    ("text", "given", "noun"),
    [
        ("[rounds]\ndeadlin = 5\n", {}, "deadline"),
        ("flet = 'home'\n", {}, "fleet"),
        ("rounds = 5\n", {}, r"\[rounds\]"),
        ("[limits]\nburst = 0\n", {}, r"\[limits\]"),
        ("[detection]\ntau = 2\n", {}, r"\[detection\]"),
        ("[rounds\n", {}, "TOML"),
        ("", {"rounds": {"quorum": 2.0}}, "command line"),
        ("", {"": {"broker": "mqtt://c@127.0.0.1"}}, "fleet, state"),
    ],
)
def test_mistakes_are_named_with_tables(
    tmp_path: Path, text: str, given: dict[str, dict[str, object]], noun: str
) -> None:
    with pytest.raises(SettingsError, match=noun):
        read_coordinator(_file(tmp_path, text), given).run_settings(None)


def test_the_command_prints_the_template_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cloud", "settings"]) == 0
    assert capsys.readouterr().out == template()
    assert main(["cloud", "settings", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"table": "storage", "name": "keep_models", "default": 100, "description": "Newest models kept."} in rows
