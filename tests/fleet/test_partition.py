"""Clips dealt out to devices: exact counts, every clip on one device, and what cannot be dealt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fleet.test_fleet_run import small

from auricle.errors import DataError, SettingsError
from auricle.settings import from_mapping
from auricle.speech.speech_set import SpeechSet, set_without_sound
from auricle.speech.split import DeviceClips
from auricle_fleet import FleetRun
from auricle_fleet.engines import require_engine
from auricle_fleet.forecast.crowd import crowd_of
from auricle_fleet.population.data import load_data
from auricle_fleet.population.dealing import (
    FEWEST_CLIPS,
    apportioned,
    by_dirichlet,
    by_labels,
    long_tail,
    own_tail,
    split_speakers,
)
from auricle_fleet.population.partition import divided, fresh_labels
from auricle_fleet.settings.check import check_run
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Fresh, Partition

LABELS = ("a", "b", "c", "d")


def speech(speakers: int = 6, each: int = 10) -> SpeechSet:
    """So many clips of each label by each speaker."""
    names = [f"s{number}" for number in range(speakers)]
    said = [label for label in LABELS for _ in range(each)]
    return set_without_sound(LABELS, said * speakers, [name for name in names for _ in said])


def dealt(partition: Partition, devices: int | None = None, unseen: int | None = 1) -> list[DeviceClips]:
    settings = FleetSettings(partition=partition)
    return list(divided(settings, speech(), 5, devices, unseen).devices)


def counts(devices: list[DeviceClips]) -> NDArray[np.int64]:
    """(devices, labels)"""
    targets = speech().targets
    return np.stack([np.bincount(targets[device.clips], minlength=len(LABELS)) for device in devices])


def on_one_device_each(devices: list[DeviceClips], clips: int) -> bool:
    together = np.concatenate([device.clips for device in devices])
    return len(together) == len(np.unique(together)) == clips


def test_shares_become_whole_numbers_with_the_right_sum() -> None:
    assert apportioned(np.array([1.0, 1.0, 1.0]), 10).tolist() == [4, 3, 3]
    assert apportioned(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]  # 3.5, 2.1, 1.4
    assert apportioned(np.array([0.0, 2.0]), 3).tolist() == [0, 3]
    assert apportioned(np.zeros(2), 0).tolist() == [0, 0]


def test_a_long_tail_keeps_exact_counts() -> None:
    targets = np.repeat(np.arange(4), 100)
    rng = np.random.default_rng(0)
    kept = long_tail(targets, 4, 8.0, rng)
    assert np.bincount(targets[kept]).tolist() == [100, 50, 25, 12]  # 8^(-c/3) is 1, 1/2, 1/4, 1/8
    few = np.repeat(np.arange(4), (100, 20, 100, 100))
    assert np.bincount(few[long_tail(few, 4, 8.0, rng)]).tolist() == [40, 20, 10, 5]  # 40: twice the 20 of label 1
    assert np.bincount(targets[long_tail(targets, 4, 1e4, rng)]).tolist() == [100, 4, 1, 1]
    assert long_tail(targets, 4, 1.0, rng).tolist() == list(range(400))


def test_a_long_tail_is_of_all_devices_together() -> None:
    devices = dealt(Partition(imbalance=8.0), unseen=1)
    assert len(devices) == 5
    assert counts(devices).sum(axis=0).tolist() == [50, 25, 12, 6]
    assert all(set(device.clips // 40) == {int(device.speaker[1:])} for device in devices)  # each its own speaker's


def test_a_long_tail_can_be_each_devices_own() -> None:
    targets = np.repeat(np.arange(4), 100)
    kept = np.bincount(targets[own_tail(targets, 100.0, np.random.default_rng(0))])
    assert sorted(kept.tolist(), reverse=True) == [100, 21, 4, 1]  # 100^(-c/3) is 1, 0.215, 0.046, 0.01
    devices = dealt(Partition(imbalance=8.0, tail="device"), unseen=1)
    table = counts(devices)
    assert [sorted(row, reverse=True) for row in table.tolist()] == [[10, 5, 2, 1]] * 5
    assert len({tuple(row) for row in table.tolist()}) > 1  # each in an order of its own
    two = counts(dealt(Partition(kind="labels", labels=2, imbalance=2.0, tail="device"), 10))
    assert [sorted(row)[2:] for row in two.tolist()] == [[5, 10]] * 10  # of the labels that it has


def test_fresh_labels_are_drawn_for_each_device_and_one_is_never_fresh() -> None:
    targets = np.array([1, 1, 3, 3, 4])
    begins = fresh_labels(targets, 6, Fresh(labels=2, round=5, every=3), 7)
    assert sorted(begins[[1, 3, 4]].tolist()) == [1, 5, 8] and begins[[0, 2, 5]].tolist() == [1, 1, 1]
    assert sorted(fresh_labels(targets, 6, Fresh(labels=9, round=5), 7)[[1, 3, 4]].tolist()) == [1, 5, 5]
    assert fresh_labels(targets, 6, None, 7).tolist() == [1] * 6
    drawn = {tuple(fresh_labels(targets, 6, Fresh(labels=1, round=5), seed).tolist()) for seed in range(20)}
    assert len(drawn) == 3
    dealt(Partition(fresh=Fresh(labels=3, round=5)))
    few = Partition(kind="labels", imbalance=4.0, fresh=Fresh(labels=1, round=2))
    with pytest.raises(DataError, match="needs 5"):
        dealt(few, 10)


@pytest.mark.parametrize("kind", ["labels", "dirichlet"])
def test_a_share_of_all_labels_is_dealt_out_beside_the_others_and_comes_late(kind: Any) -> None:
    fresh = Fresh(share=0.5, round=4, every=2)
    own = {"labels": 1} if kind == "labels" else {}
    devices = dealt(Partition(kind=kind, fresh=fresh, **own), 8)
    table = counts(devices)
    assert table.sum(axis=0).tolist() == [50] * 4 and on_one_device_each(devices, 200)
    assert table[:, :2].sum(axis=1).min() >= FEWEST_CLIPS
    if kind == "labels":
        assert ((table > 0).sum(axis=1) == 2).all() and ((table[:, 2:] > 0).sum(axis=1) == 1).all()
    assert fresh_labels(speech().targets[devices[0].clips], 4, fresh, 7).tolist() == [1, 1, 4, 6]
    assert [Fresh(share=share, round=2).late_labels(10) for share in (0.01, 0.1, 0.3, 0.99)] == [1, 1, 3, 9]


def test_speakers_are_split_among_more_devices() -> None:
    devices = dealt(Partition(kind="split"), 12)
    assert [device.speaker[2:] for device in devices].count("-1") == 5
    assert on_one_device_each(devices, 5 * 40)
    assert sorted(len(device.clips) for device in devices) == [13, 13, 13, 13, 14, 14] + [20] * 6
    assert all(len(set(device.clips // 40)) == 1 for device in devices)
    halves = counts([device for device in devices if len(device.clips) == 20])
    assert halves.tolist() == [[5, 5, 5, 5]] * 6
    one = split_speakers([DeviceClips("ana", np.arange(6))], np.zeros(6, np.int64), 1)
    assert [(device.speaker, device.clips.tolist()) for device in one] == [("ana", [0, 1, 2, 3, 4, 5])]


def test_dirichlet_shares_of_each_label_are_dealt_out_whole() -> None:
    devices = dealt(Partition(kind="dirichlet", alpha=0.5), 8)
    table = counts(devices)
    assert table.sum(axis=0).tolist() == [50] * 4
    assert table.sum(axis=1).min() >= FEWEST_CLIPS
    assert on_one_device_each(devices, 200)
    again = dealt(Partition(kind="dirichlet", alpha=0.5), 8)
    assert [device.clips.tolist() for device in again] == [device.clips.tolist() for device in devices]
    even = counts(dealt(Partition(kind="dirichlet", alpha=1e4), 5))
    assert np.abs(even - 10).max() <= 1
    targets = np.repeat(np.arange(10), 200)
    parts = (by_dirichlet(targets, 20, alpha, np.random.default_rng(1)) for alpha in (0.1, 1.0, 100.0))
    skew = [np.mean([len(set(targets[part].tolist())) for part in each]) for each in parts]
    assert skew[0] < skew[1] < skew[2] == 10
    many = by_dirichlet(np.repeat(np.arange(10), 400), 100, 0.1, np.random.default_rng(0))  # FedVSA's fleet, scaled
    assert min(map(len, many)) >= FEWEST_CLIPS and sum(map(len, many)) == 4000


def test_every_device_has_so_many_labels() -> None:
    devices = dealt(Partition(kind="labels", labels=2), 10)
    table = counts(devices)
    assert (table > 0).sum(axis=1).tolist() == [2] * 10
    assert (table > 0).sum(axis=0).tolist() == [5] * 4
    assert table[table > 0].tolist() == [10] * 20  # 50 clips of a label for its 5 devices
    assert on_one_device_each(devices, 200)
    targets = np.repeat(np.arange(6), 100)
    for count, each in ((7, 2), (9, 4), (5, 5), (3, 6)):
        parts = by_labels(targets, count, each, 0.0, np.random.default_rng(count))
        found = np.stack([np.bincount(targets[part], minlength=6) for part in parts])
        assert (found > 0).sum(axis=1).tolist() == [each] * count
        holders = (found > 0).sum(axis=0)
        assert holders.max() - holders.min() <= 1
        assert found.sum(axis=0).tolist() == [100] * 6
    few = by_labels(targets, 2, 2, 0.0, np.random.default_rng(0))
    assert sum(map(len, few)) == 400  # two labels that nobody has
    whole = by_labels(targets, 2, 9, 0.0, np.random.default_rng(0))
    assert all(len(set(targets[part].tolist())) == 6 for part in whole)


def test_sigma_is_the_deviation_of_a_labels_clips_over_their_mean() -> None:
    targets = np.repeat(np.arange(2), 1_000_000)
    parts = by_labels(targets, 2000, 2, 0.7, np.random.default_rng(3))
    sizes = np.stack([np.bincount(targets[part], minlength=2) for part in parts])
    assert sizes.sum() == len(targets) and sizes.sum(axis=0).tolist() == [1_000_000] * 2
    assert sizes.std() / sizes.mean() == pytest.approx(0.7, rel=0.05)
    assert abs(np.corrcoef(sizes.T)[0, 1]) < 0.1  # drawn for each label
    few = by_labels(np.repeat(np.arange(10), 600), 100, 2, 3.0, np.random.default_rng(1))
    assert min(map(len, few)) >= 5 and sum(map(len, few)) == 6000


@pytest.mark.parametrize(
    ("partition", "devices", "says"),
    [
        ({"kind": "dirichlet"}, 41, "lower --devices to 40"),
        ({"kind": "dirichlet", "alpha": 1e-3}, 30, "fewer than 5 clips"),
        ({"kind": "split"}, 4, "fewer than the 5 speakers"),
        ({"kind": "labels", "sigma": 3.0}, 40, "sigma"),
        ({"kind": "labels", "labels": 1, "imbalance": 100.0}, 10, "needs 5"),
    ],
)
def test_what_cannot_be_dealt_is_said(partition: dict[str, Any], devices: int | None, says: str) -> None:
    with pytest.raises(DataError, match=says):
        dealt(Partition(**partition), devices)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"alpha": 0.1}, "alpha"),
        ({"kind": "dirichlet", "sigma": 1.0}, "sigma"),
        ({"kind": "labels", "labels": 0}, "partition.labels"),
        ({"kind": "speakers"}, "partition.kind"),
        ({"imbalance": 0.5}, "partition.imbalance"),
        ({"tail": "device"}, "imbalance"),
        ({"imbalance": 10.0, "tail": "devices"}, "device"),
        ({"fresh": {"labels": 2}}, "partition.fresh"),
        ({"fresh": {"labels": 2, "round": 1}}, "partition.fresh.round"),
        ({"fresh": {"round": 5}}, "say labels or share"),
        ({"fresh": {"labels": 2, "share": 0.5, "round": 5}}, "say labels or share"),
        ({"fresh": {"share": 0.5, "round": 5}}, "say labels of fresh"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(told: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        from_mapping(FleetSettings, {"partition": told}, "fleet.toml")


@pytest.mark.slow
def test_a_run_has_the_devices_that_its_partition_makes(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader")
    partition = Partition(kind="labels", labels=1)
    settings = small(takes=10, partition=partition, engine="virtual", broker=None, rounds=1)
    data, crowd = load_data(settings), crowd_of(settings)
    assert [len(set(clips.train.targets.tolist())) for _, clips in data.devices] == [1] * 4
    assert crowd.trained.tolist() == [len(clips.train) for _, clips in data.devices] == [16] * 4
    result = FleetRun(settings, tmp_path / "run").run()
    assert result.summary.training_clips == 64
    assert FleetSettings.load(tmp_path / "run").partition == partition


@pytest.mark.parametrize(("share", "each"), [("0.03", 2), ("0.01", 1), ("0.1", 5), ("0.001", 1)])
@pytest.mark.parametrize("partition", [Partition(), Partition(kind="dirichlet")])
def test_a_share_of_each_label_goes_from_the_devices_to_the_coordinator(
    share: str, each: int, partition: Partition
) -> None:
    """Five devices have 50 clips of each of the four labels."""
    settings = FleetSettings(method="fedrpo", labelled=f"share:{share}", partition=partition)
    split = divided(settings, speech(), 5, None if partition == Partition() else 5, 1)
    assert np.bincount(speech().targets[split.labelled]).tolist() == [each] * 4
    pool = np.concatenate([split.labelled, *(device.clips for device in split.devices)])
    assert len(np.unique(pool)) == len(pool) == 200
    assert not set(pool) & set(split.unseen)


def test_the_coordinator_can_learn_from_the_validation_speakers() -> None:
    settings = FleetSettings(method="zeno", labelled="validation", validation=True)
    split = divided(settings, speech(), 5, None, 3)
    assert split.labelled.tolist() == split.validation.tolist() and len(split.labelled) == 40
    assert len(split.unseen_speakers) == 2 and len(split.devices) == 3


@pytest.mark.parametrize("labelled", ["share:0", "share:0.6", "share:nan", "share:some", "share:"])
def test_a_share_of_labels_is_a_number_up_to_a_half(labelled: str) -> None:
    with pytest.raises(SettingsError, match=r"share:0\.03"):
        check_run(FleetSettings(method="fedrpo", labelled=labelled))


def test_labelled_clips_of_validation_speakers_need_some_and_both_engines_take_a_share() -> None:
    with pytest.raises(SettingsError, match="add --validation"):
        check_run(FleetSettings(method="zeno", labelled="validation"))
    for engine in ("live", "virtual"):
        assert require_engine(FleetSettings(method="fedrpo", labelled="share:0.1", engine=engine)) == engine
