"""From settings to what devices hear, and the ceiling: the plug-in trained on everybody's clips together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from auricle.errors import AuricleError
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.row_store import Spill
from auricle.speech.words import COMMANDS, DIGITS
from auricle_cloud.evaluation import validation_set
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_fleet.population import central
from auricle_fleet.population.central import CentralTraining, all_clips, coordinator_clips, labelled_cut
from auricle_fleet.population.data import FleetData, load_data, task_pack, usual_words
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.runtimes import StepRuntime, accuracy, frontend_of
from auricle_learning.training.speech_data import Clips, DeviceData

WORDS, SPEAKERS, TAKES = ("yes", "no", "up"), ("ana", "bob", "cyd", "dan"), 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("speech")
    rng = np.random.default_rng(0)
    time = np.arange(16_000) / 16_000
    for w, word in enumerate(WORDS):
        (root / word).mkdir()
        for s, speaker in enumerate(SPEAKERS):
            for take in range(TAKES):
                tone = 0.3 * np.sin(2 * np.pi * (300 + 400 * w + 20 * s) * time) + 0.01 * rng.normal(size=16_000)
                soundfile.write(root / word / f"{speaker}_nohash_{take}.wav", tone, 16_000)
    (root / "yes" / "eve_nohash_0.wav").write_bytes(b"RIFF....WAVE")
    return root


def settings(folder: Path, **changes: object) -> FleetSettings:
    values = {"data": str(folder), "words": "yes,no,up", "min_clips": 10, "unseen": 1, **changes}
    return FleetSettings(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def data(folder: Path) -> FleetData:
    return load_data(settings(folder))


def test_speakers_are_devices_or_unseen_never_both(data: FleetData) -> None:
    names = [speaker for speaker, _ in data.devices]
    assert len(names) == 3
    assert set(names) < set(SPEAKERS)
    assert data.unseen_speakers == 1
    assert len(data.unseen) == len(WORDS) * TAKES
    assert len(data.skipped) == 1
    assert "eve_nohash_0.wav" in data.skipped[0]


def test_a_fifth_of_each_devices_clips_is_never_trained_on(data: FleetData) -> None:
    assert [(len(clips.train), len(clips.held_out)) for _, clips in data.devices] == [(12, 3)] * 3
    assert data.training_clips == 36
    task = data.pack.manifest.task
    assert data.unseen.energies.shape == (15, task.frames, task.frontend.mels)
    for _, clips in data.devices:
        assert sorted(np.unique(clips.train.targets)) == [0, 1, 2]
        assert clips.noise is None and np.isfinite(clips.train.energies).all()


def lies_in_a_file(rows: Any) -> bool:
    while isinstance(rows, np.ndarray) and not isinstance(rows, np.memmap):
        rows = rows.base
    return rows is not None


def test_many_clips_lie_in_a_file_without_a_name_and_are_the_same(
    folder: Path, data: FleetData, tmp_path: Path
) -> None:
    mapped = load_data(settings(folder), spill=Spill(tmp_path / "run", above=0))
    for (speaker, ours), (name, theirs) in zip(mapped.devices, data.devices, strict=True):
        assert speaker == name
        for one, other in ((ours.train, theirs.train), (ours.held_out, theirs.held_out)):
            assert one.energies.tobytes() == other.energies.tobytes()
            assert one.targets.tolist() == other.targets.tolist()
            assert lies_in_a_file(one.energies) and not lies_in_a_file(other.energies)
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.slow
def test_the_same_settings_give_the_same_speech_and_another_seed_another_split(folder: Path, data: FleetData) -> None:
    told: list[tuple[str, int, int]] = []
    again = load_data(settings(folder), lambda what, done, total: told.append((what, done, total)))
    assert {what for what, _, _ in told} == {"reading clips", "computing features"}
    assert all(0 <= done <= total for _, done, total in told)
    others = {tuple(s for s, _ in load_data(settings(folder, seed=seed)).devices) for seed in (1, 2, 3)}
    assert [s for s, _ in again.devices] == [s for s, _ in data.devices]
    assert np.array_equal(again.unseen.energies, data.unseen.energies)
    for (_, one), (_, other) in zip(again.devices, data.devices, strict=True):
        assert np.array_equal(one.train.energies, other.train.energies)
    assert len(others) > 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"words": "yes,no,sheila"}, "sheila"),
        ({"devices": 9}, "more devices than speakers"),
        ({"min_clips": 99}, "--min-clips"),
        ({"unseen": 0}, "--unseen"),
        ({"data": "/no/such/folder"}, "does not exist"),
    ],
)
def test_speech_that_is_not_there_is_named(folder: Path, changes: dict[str, object], says: str) -> None:
    with pytest.raises(AuricleError, match=says):
        load_data(settings(folder, **changes))


def test_known_words_take_the_shipped_pack_and_others_the_same_models() -> None:
    digits = load_pack("digits")
    (same, itself), (other, origin) = task_pack(digits.labels), task_pack(("yes", "no", "up"))
    assert same.identity == itself.identity == digits.identity
    assert origin.manifest.name == "gsc35"
    assert other.labels == ("yes", "no", "up")
    assert other.manifest.plugin == digits.manifest.plugin
    assert other.plugin_table.size < digits.plugin_table.size


def test_a_folder_alone_is_enough(folder: Path) -> None:
    """Its own words, and speakers with fewer clips than usual, where nobody names either."""
    data = load_data(FleetSettings(data=str(folder)))
    assert data.pack.labels == ("no", "up", "yes")
    assert [len(clips.train) + len(clips.held_out) for _, clips in data.devices] == [len(WORDS) * TAKES] * 3
    assert data.unseen_speakers == 1


@pytest.mark.parametrize(
    ("words", "usual"),
    [
        ((*COMMANDS, "wow"), "gsc12"),
        (COMMANDS, "common:10"),  # nothing stands for `_unknown_`
        (DIGITS, "digits"),
        (("lamp", "door"), "common:10"),
    ],
)
def test_the_shipped_words_where_a_folder_has_them(tmp_path: Path, words: tuple[str, ...], usual: str) -> None:
    for word in words:
        (tmp_path / word).mkdir()
        for take in range(10):
            (tmp_path / word / f"ana_nohash_{take}.wav").touch()
    assert usual_words(str(tmp_path)) == usual
    assert usual_words("synthetic") == "gsc12"


LABELS = ("low", "high")


@pytest.fixture(scope="module")
def pack() -> Pack:
    return load_pack("gsc35").with_labels(LABELS)


def speech(pack: Pack, count: int, seed: int) -> Clips:
    """Two words that differ in where their energy lies: low bands or high bands."""
    rng = np.random.default_rng(seed)
    task = pack.manifest.task
    targets = np.arange(count) % 2
    energies = rng.random((count, task.frames, task.frontend.mels), dtype=np.float32) * 0.1
    half = task.frontend.mels // 2
    energies[targets == 0, 20:80, :half] += 10
    energies[targets == 1, 20:80, half:] += 10
    return Clips(energies, targets.astype(np.int64))


def fleet(pack: Pack) -> FleetData:
    nothing = np.zeros(0, np.int64)
    parts = []
    for i in range(2):
        clips = speech(pack, 16, i)
        parts.append((f"s{i}", DeviceData(clips, clips.chosen(nothing), None)))
    return FleetData(pack, tuple(parts), speech(pack, 20, 9), 1, np.zeros(20, np.int64), ())


def test_a_run_says_where_too_few_clips_are_held_out(pack: Pack) -> None:
    assert fleet(pack).caution.startswith("0 held-out clips, not one of each word on each device")
    devices = tuple((name, replace(data, held_out=speech(pack, 2, 0))) for name, data in fleet(pack).devices)
    assert replace(fleet(pack), devices=devices).caution == ""


def test_an_easy_task_is_learnt_and_every_epoch_told(pack: Pack) -> None:
    told: list[tuple[int, int]] = []
    runtime, data = StepRuntime(pack), fleet(pack)
    training = CentralTraining(runtime, 0)
    weights = training.train(all_clips(data), 12, lambda done, total: told.append((done, total)))
    logits = runtime.logits(pack.manifest.plugin, weights, frontend_of(runtime).finish(data.unseen.energies))
    reached = accuracy(logits, data.unseen.targets)
    assert reached is not None and reached >= 0.9
    assert told == [(n, 12) for n in range(1, 13)]


def test_the_same_seed_gives_the_same_ceiling(pack: Pack) -> None:
    training, clips = CentralTraining(StepRuntime(pack), 5), all_clips(fleet(pack))
    first, second = (training.train(clips, 1) for _ in range(2))
    assert np.array_equal(first, second)
    begun = training.train(clips, 1, start=first)
    assert not np.array_equal(begun, first)


def test_the_coordinators_clips_are_the_labelled_ones(folder: Path) -> None:
    drawn = load_data(settings(folder, unseen=2, method="fedavg", labelled="share:0.2", pretrain=1))
    assert coordinator_clips(settings(folder, labelled="share:0.2"), drawn) is drawn.labelled
    of_folder = coordinator_clips(settings(folder, labelled=str(folder)), drawn)
    validated = load_validation(folder, drawn.pack)
    assert np.array_equal(of_folder.targets, validated.targets)
    assert np.array_equal(LogMel(drawn.pack.manifest.task).finish(of_folder.energies), validated.features)


def test_a_folder_of_labelled_clips_that_is_cut_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, pack = settings(folder, method="fedrpo", labelled=str(folder)), load_data(settings(folder)).pack
    assert labelled_cut(told, pack) == ""
    cut = partial(validation_set.describe_cut, most=5)
    monkeypatch.setattr(central, "describe_cut", cut)
    assert labelled_cut(told, pack).endswith(" 5 are taken: of each label equally many, as far as it has them.")
    assert labelled_cut(settings(folder, method="fedavg", labelled=str(folder)), pack) == ""  # nobody learns from it
    assert labelled_cut(settings(folder, method="fedrpo", labelled="share:0.2"), pack) == ""


def test_validation_speakers_and_the_coordinators_clips_are_read_too(folder: Path) -> None:
    data = load_data(settings(folder, validation=True, unseen=2, method="fedrpo", labelled="share:0.2"))
    assert (data.validation_speakers, data.unseen_speakers, len(data.devices)) == (1, 1, 2)
    assert data.validation is not None and len(data.validation) == len(data.unseen) == len(WORDS) * TAKES
    assert data.labelled is not None and sorted(data.labelled.targets) == [0, 0, 1, 1, 2, 2]
    assert int(data.counts.sum()) == 2 * len(WORDS) * TAKES - 6
    theirs = load_data(settings(folder, validation=True, unseen=2, method="zeno", labelled="validation"))
    assert theirs.labelled is not None and theirs.validation is not None
    assert (theirs.labelled.energies == theirs.validation.energies).all()
