"""Fleets of which not every clip has a label: the split, what is refused, the table, and both engines alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fleet.ended_run import line
from tests.fleet.test_fleet_run import small
from tests.learning.toy import clips, device

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.wire.plan import FixMatch
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_fleet import FleetRun, Group
from auricle_fleet.population.conditions import with_labels_of
from auricle_fleet.results.parties import by_party, parties
from auricle_fleet.settings.check import check_run
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.training.speech_data import DeviceData


def rows_of(data: DeviceData) -> set[bytes]:
    """Every clip that is trained on, whether it has a label or not."""
    free = [] if data.unlabelled is None else list(data.unlabelled.energies)
    return {clip.tobytes() for clip in (*data.train.energies, *free)}


@pytest.mark.parametrize(("share", "named"), [(0.5, 5), (0.1, 1), (0.01, 1), (0.2, 2), (0.0, 0)])
def test_a_share_of_the_clips_keeps_its_labels_and_the_others_are_sound(share: float, named: int) -> None:
    whole = device(10, 6)
    data = with_labels_of(whole, share, 3)
    assert (len(data.train), len(data.unlabelled or ())) == (named, 10 - named)
    assert rows_of(data) == rows_of(whole)
    assert len(data.held_out) == (6 if named else 0)
    again, other = with_labels_of(whole, share, 3), with_labels_of(whole, share, 4)
    assert np.array_equal(again.train.energies, data.train.energies)
    assert with_labels_of(whole, 1.0, 3) is whole
    assert share not in (0.5, 0.2) or not np.array_equal(other.train.energies, data.train.energies)


def test_devices_of_fedrpo_have_no_labels_unless_told() -> None:
    told = FleetSettings(method="fedrpo", labelled="clips")
    assert told.labelled_part == 0.0 and told.preset_for(trained=False).plan.fixmatch == FixMatch()
    assert FleetSettings(method="fedrpo", labelled="clips", labelled_share=0.25).labelled_part == 0.25
    assert FleetSettings(method="fedrpo", labelled="clips", method_options={"unlabelled": 0}).labelled_part == 1.0
    assert FleetSettings().labelled_part == FleetSettings(method="fedavg").labelled_part == 1.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labelled_share": 0.0}, "fedrpo"),
        ({"groups": (Group(name="mute", labelled_share=0.0),)}, "fedrpo"),
        ({"labelled_share": 1.5}, "--labelled-share"),
        ({"labelled_share": float("nan")}, "--labelled-share"),
        ({"method": "fedrpo", "labelled": "clips", "learning": "mutual"}, "--learning"),
    ],
)
def test_what_cannot_be_learned_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        check_run(FleetSettings(**changes))


REPORT = {
    "updates": [
        {"device": n, "samples": k, "unsupervised": u}
        for n, k, u in zip("abcd", (8, 8, 9, 9), (8, 3, 9, 9), strict=True)
    ],
    "direction": {"angles": {"a": 100.0, "b": 40.0, "c": 60.0, "d": None}, "coordinator": 20.0},
}


def test_a_round_says_how_many_had_labels_and_how_far_they_are_from_its_direction() -> None:
    assert parties(REPORT) == {
        "labelled_devices": 1,
        "unlabelled_devices": 3,
        "coordinator_angle": 20.0,
        "labelled_angle": 40.0,
        "unlabelled_angle": 80.0,
    }
    assert parties({"updates": [{"device": "a", "samples": 8}]}) == parties({}) == {}
    assert by_party([line()]) == ""
    everybody = parties({**REPORT, "updates": [{"device": n, "samples": 8} for n in "abcd"]})
    assert everybody["labelled_angle"] == pytest.approx(200 / 3), "without FixMatch all have labels"
    assert "<td>-</td><td>-</td><td>20.0°</td><td>66.7°</td><td>-</td>" in by_party([line(**everybody)])
    table = by_party([line(**parties(REPORT))])
    assert "<td>1</td><td>1</td><td>3</td><td>20.0°</td><td>40.0°</td><td>80.0°</td>" in table


@pytest.mark.slow
def test_both_engines_make_the_same_model_of_devices_without_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("espeakng_loader")
    labels = load_pack("gsc12").with_labels(("yes", "no"))
    task, rng = labels.manifest.task, np.random.default_rng(1)
    features = rng.standard_normal((9, task.frames, task.frontend.mels)).astype(np.float32)
    held = ValidationSet(features, clips(9).targets % 2)
    for place in ("auricle_cloud.rounds.coordinator", "auricle_fleet.virtual.fleet"):
        monkeypatch.setattr(f"{place}.load_validation", lambda *_: held)
    monkeypatch.setattr("auricle_fleet.population.central.describe_cut", lambda *_: "")
    told: dict[str, Any] = {
        "method": "fedrpo",
        "labelled": str(tmp_path),
        "method_options": {"threshold": 0.51, "lr": 0.2},
        "groups": (Group(name="named", count=1, labelled_share=1.0), Group(name="some", count=1, labelled_share=0.4)),
    }
    live = FleetRun(small(**told), tmp_path / "live").run()
    without = FleetRun(small(**told, engine="virtual", broker=None), tmp_path / "virtual").run()
    assert live.paths.model.read_bytes() == without.paths.model.read_bytes()
    for ours, theirs in zip(without.rounds, live.rounds, strict=True):
        for name in ("counted", "inference_loss", "labelled_devices", "unlabelled_devices", "coordinator_angle"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert (ours.labelled_devices, ours.unlabelled_devices) == (2, 2)
        assert ours.coordinator_angle is not None and ours.coordinator_angle <= 90.001
    assert "With labels and without, by round" in without.paths.report.read_text()
    assert "unlabelled_angle" in without.paths.rounds.read_text().splitlines()[0]
