"""A fleet without links: the same weights as a live one, bit for bit, and everything else that a run leaves."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.fleet.test_fleet_run import small
from tests.rule_package import BROKEN, install_rule

from auricle.errors import AuricleError, PackError, SettingsError, StorageError
from auricle.packs.pack import load_pack, pack_bytes
from auricle.speech.row_store import Spill
from auricle_cloud.settings import SecureSum
from auricle_fleet import FleetResult, FleetRun, Group, Network, RoundRow
from auricle_fleet.engines import ENGINES
from auricle_fleet.results.live import Silent
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Fresh, Partition
from auricle_fleet.virtual import fleet as virtual_fleet
from auricle_fleet.virtual.checkpoint import NOTE
from auricle_fleet.virtual.sequential import SequentialFleet
from auricle_learning.native.library import compiler

pytest.importorskip("espeakng_loader")


class Sentences(Silent):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def virtual(**changes: Any) -> FleetSettings:
    return small(**{"engine": "virtual", "broker": None, **changes})


def as_bytes(result: FleetResult) -> bytes:
    return result.paths.model.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {
            "groups": (
                Group(name="boaster", attack="samples"),
                Group(name="loud", noise_db=10.0, label_errors=0.3, attack="backdoor", attack_rounds=(2,)),
                Group(name="together", count=2, attack="alie", strength=1.0, attack_rounds=(2,)),
            ),
            "partition": Partition(fresh=Fresh(labels=1, round=2)),
            "takes": 6,
        },
        {"method": "multi-krum", "participation": 0.75, "local": "crnn-lite,crnn-base"},
        {"method": "fedopt", "rounds": 3},
        {"method": "scaffold", "rounds": 3, "preset": "fedavg", "groups": (Group(name="boaster", attack="steps"),)},
        {"method": "feddc", "rounds": 3, "preset": "fedavg"},
        {"method": "feddisco", "codec": "int8"},
        {"method": "acmu", "rounds": 3, "participation": 0.75, "codec": "int8"},
        {"method": "creff", "rounds": 3, "method_options": {"features": 5, "epochs": 20}},
        {"method": "mupfl", "rounds": 3, "participation": 0.75, "method_options": {"bavd": False, "pkcf_features": 5}},
        {"start": "pack", "judge": "on", "judge_share": 1.0, "codec": "float16", "preset": "fedavg"},
        {"rounds": 3, "codec": "int8"},
        {"rounds": 3, "codec": "top-k"},
        pytest.param(
            {"runtime": "native"}, marks=pytest.mark.skipif(compiler() is None, reason="there is no C compiler here")
        ),
    ],
    ids=[
        "groups",
        "participation",
        "state",
        "vectors",
        "more vectors",
        "histogram",
        "personal",
        "gradients",
        "own classifiers",
        "judged",
        "eight bits",
        "the larger half",
        "native",
    ],
)
def test_both_engines_make_the_same_model(tmp_path: Path, changes: dict[str, Any]) -> None:
    """And say the same of the devices: who counted, whom the rule left out, who was bounded, how well each hears."""
    live = FleetRun(small(**changes), tmp_path / "live").run()
    without = FleetRun(virtual(**changes), tmp_path / "virtual").run()
    assert as_bytes(live) == as_bytes(without)
    for ours, theirs in zip(without.rounds, live.rounds, strict=True):
        named = ("state", "invited", "counted", "personal", "bounded", "left_out", "refused", "inference_loss")
        for name in (*named, "plugin_accuracy_unseen"):
            assert getattr(ours, name) == getattr(theirs, name), name
        own = {name: each["own"].accuracy for name, each in ours.scores.items()}
        assert own == {name: value for name, value in ours.personal.items() if value is not None}
        assert ours.held_out["own"].accuracy == pytest.approx(ours.personal_accuracy)
        assert set(ours.held_out) == {"received", "trained", "own"} and not theirs.scores
        assert ours.groups == theirs.groups
        assert (ours.groups is not None) == (changes.get("method") in ("acmu", "mupfl"))
    assert [(row.device, row.rounds) for row in without.devices] == [(row.device, row.rounds) for row in live.devices]
    assert without.paths.report.exists() and without.paths.card.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "told",
    [
        {"method": "feddyn"},
        {"method": "acmu"},
        {"method": "mupfl", "method_options": {"bavd": False}},
        {"codec": "top-k"},
    ],
)
@pytest.mark.nightly
def test_a_run_that_was_ended_goes_on_to_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]
) -> None:
    """Ended by its caller, and with a process that died before the rounds that it had told were kept."""
    whole = FleetRun(virtual(rounds=4, **told), tmp_path / "whole").run()
    first = FleetRun(
        virtual(rounds=4, **told), tmp_path / "ended", on_round=lambda row: row.round == 2 and first.stop()
    )
    assert first.run().interrupted
    assert as_bytes(FleetRun.resume(tmp_path / "ended").run()) == as_bytes(whole)

    def dies(row: RoundRow) -> None:
        if row.round == 3:
            raise AuricleError("died")

    with monkeypatch.context() as patched:
        patched.setattr(virtual_fleet, "EVERY", 0.0)
        kept = virtual_fleet.VirtualFleet._keep
        patched.setattr(virtual_fleet.VirtualFleet, "_keep", lambda *given: kept(*given) if given[2] < 3 else None)
        with pytest.raises(AuricleError, match="died"):
            FleetRun(virtual(rounds=4, **told), tmp_path / "died", on_round=dies).run()
    again = FleetRun.resume(tmp_path / "died").run()
    assert as_bytes(again) == as_bytes(whole)
    assert [row.round for row in again.rounds] == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_fleet_whose_clips_lie_in_a_file_makes_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = FleetRun(virtual(), tmp_path / "memory").run()
    monkeypatch.setattr("auricle_fleet.run.Spill", functools.partial(Spill, above=0))
    assert as_bytes(FleetRun(virtual(), tmp_path / "mapped").run()) == as_bytes(in_memory)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_said_to_be_that(tmp_path: Path) -> None:
    FleetRun(virtual(rounds=1), tmp_path / "run").run()
    note = tmp_path / "run" / "state" / "virtual" / NOTE
    for content in (b"", note.read_bytes()[:-3], msgspec.msgpack.encode({"round": 1})):
        note.write_bytes(content)
        with pytest.raises(StorageError, match="damaged"):
            FleetRun.resume(tmp_path / "run", rounds=2).run()


@pytest.mark.slow
def test_slow_and_silent_devices_take_no_time_of_ours(tmp_path: Path) -> None:
    """A day's delay is over at once: the slow one comes too late, and so does the one behind a modem."""
    groups = (
        Group(name="slow", delay=86_400.0),
        Group(name="mute", drop_out=1.0),
        Group(name="modem", network=Network(kilobits=1.0)),
    )
    result = FleetRun(virtual(groups=groups, method="fedavg", quorum=0.25), tmp_path / "run").run()
    assert [(row.invited, row.counted, row.state) for row in result.rounds] == [(4, 1, "published")] * 2
    none = FleetRun(virtual(groups=(*groups[:1], Group(name="mutes", count=3, drop_out=1.0))), tmp_path / "none").run()
    assert [row.state for row in none.rounds] == ["aborted", "aborted"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "async"}, "--mode async"),
        ({"method": "fedavg", "preset": "fedavg", "secure_sum": SecureSum(on=True)}, "--secure-sum"),
        ({"broker": "mosquitto"}, "--broker"),
        ({"groups": (Group(name="flappy", network=Network(cut=3.0)),)}, "cut"),
        ({"engine": "virtuel"}, "virtuel"),
    ],
)
def test_what_only_a_live_fleet_has_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        FleetRun(virtual(**changes))


DROPPING = """
import torch
from torch import nn
from auricle_export.compiler.layers import Bavd

class Net(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.conv = nn.Conv1d(40, 6, 3, stride=4)
        self.drop = Bavd()
        self.out = nn.Linear(6, labels)

    def forward(self, x):
        return self.out(self.drop(torch.relu(self.conv(x.transpose(1, 2)))).mean(2))
"""


@pytest.mark.slow
def test_both_engines_drop_activations_where_the_rule_asks_for_it(tmp_path: Path) -> None:
    """The same model on both engines, PKCF included, and another one without; a pack of the wheel is refused."""
    build = pytest.importorskip("auricle_export.packs.build", reason="packs are made with PyTorch")
    source, packed = tmp_path / "nets.py", tmp_path / "net.tar.zst"
    source.write_text(DROPPING)
    packed.write_bytes(
        pack_bytes(build.build_author_pack(f"{source}:Net", ("yes", "no"), "net", plugin=f"{source}:Net"))
    )
    told: dict[str, Any] = {"method": "acmu", "pack": str(packed), "local": "net", "learning": "supervised"}
    options = {"bavd": True, "maps": True, "alpha": 0.0, "pkcf": True, "pkcf_features": 5}
    asked = {**told, "method_options": options}
    live = FleetRun(small(**asked), tmp_path / "live").run()
    without = FleetRun(virtual(**asked), tmp_path / "virtual").run()
    plain = FleetRun(virtual(**told), tmp_path / "plain").run()
    untuned = FleetRun(virtual(**{**told, "method_options": {**options, "pkcf": False}}), tmp_path / "untuned").run()
    assert as_bytes(live) == as_bytes(without) != as_bytes(plain)
    assert as_bytes(untuned) not in (as_bytes(plain), as_bytes(without))
    gradients, features = 4 * 2 * (2 * 6 + 2), 4 * 2 * 5 * 6  # bytes; of two words, of which features come in round 2
    assert without.rounds[-1].bytes_up - untuned.rounds[-1].bytes_up == 2 * 4 * gradients
    assert without.rounds[-1].bytes_down - untuned.rounds[-1].bytes_down > 4 * features
    assert [row.groups for row in live.rounds] == [row.groups for row in without.rounds]
    assert all(row.groups for row in live.rounds)
    assert live.rounds[-1].bytes_up - plain.rounds[-1].bytes_up >= 2 * 4 * 4 * 25  # rounds, devices, bytes, map
    with pytest.raises(PackError, match="activations"):
        FleetRun(virtual(**{**asked, "pack": None, "local": "crnn-lite"}), tmp_path / "refused").run()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["virtual", "sequential"])
def test_a_rule_that_gives_no_number_is_named_and_keeps_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, engine: str
) -> None:
    """As at a coordinator (`tests/cloud/test_model_check.py`)."""
    monkeypatch.setitem(ENGINES, "sequential", SequentialFleet)
    install_rule(monkeypatch, tmp_path / "rules", "broken", BROKEN.format(value="nan"))
    settings, view, models = virtual(engine=engine, method="broken", preset="fedavg"), Sentences(), list[Any]()

    def keep(_row: RoundRow) -> None:
        models.append(load_file(tmp_path / "run" / "model.safetensors"))

    result = FleetRun(settings, tmp_path / "run", on_round=keep, view=view).run()

    assert [(row.state, row.counted) for row in result.rounds] == [("aborted", 0), ("published", 4)]
    table = load_pack(result.paths.pack).plugin_table
    first = table.initial(settings.seed)
    assert np.array_equal(np.concatenate([models[0][spec.name].ravel() for spec in table.specs]), first)
    said = caplog.text if engine == "virtual" else "".join(view.said)
    assert 'the method "broken" of broken-rule gave no finite model' in said
