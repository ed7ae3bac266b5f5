"""Corpora of other sound in a fleet: whole recordings on one side, clips on devices, suites and runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora import RECORDINGS, SLICES, make_crema_d, make_iemocap, make_urbansound

from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.process.cli import main
from auricle.speech.folder import list_folder
from auricle.speech.split import DeviceClips, FleetSplit
from auricle.speech.words import EMOTIONS, URBAN_SOUNDS
from auricle_fleet.forecast.crowd import crowd_of
from auricle_fleet.population.data import load_data
from auricle_fleet.population.dealing import deal_held_out, draw_recordings
from auricle_fleet.population.partition import divided, least_clips
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.settings.partition import Fresh, Partition
from auricle_fleet.suite.plan import cells, read_suite
from auricle_fleet.suite.sizes import full_size, narrowed

SUITE = """
seeds = [0]
[settings]
words = "yes,no"
pack = "net"
devices = 100
unseen = 2
rounds = 1
epochs = 1
local = "crnn-lite"
preset = "fedavg"
[packs.net]
words = ["yes", "no"]
[[methods]]
name = "mean"
[[methods]]
name = "FedMLAC"
settings = { method = "fedmlac" }
[[conditions]]
name = "as it is"
"""


@pytest.fixture(scope="module")
def urbansound(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"urbansound:{make_urbansound(tmp_path_factory.mktemp('UrbanSound8K'), 1.0)}"


def test_whole_recordings_come_nearest_to_a_share_of_each_label() -> None:
    """Of label 0 two of ten clips, of label 1 three of five, since its only recording but one is too large."""
    targets, rng = np.array([0] * 10 + [1] * 5), np.random.default_rng(0)
    recordings = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5])
    chosen = draw_recordings(targets, recordings, 0.2, rng)
    assert np.bincount(targets[chosen]).tolist() == [2, 5]
    assert len(set(recordings[chosen].tolist())) == 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60), st.integers(0, 5))
def test_no_recording_is_divided(clips: list[tuple[int, int]], seed: int) -> None:
    targets, recordings = np.array(clips).T
    chosen = draw_recordings(targets, recordings, 0.2, np.random.default_rng(seed))
    left = np.setdiff1d(np.arange(len(clips)), chosen)
    assert not set(recordings[chosen].tolist()) & set(recordings[left].tolist())
    assert set(targets[chosen].tolist()) == set(targets.tolist())


def test_clips_held_out_go_where_their_label_is_trained_on() -> None:
    """Label 0 is trained on 1 to 3, label 1 by the second device alone, label 2 by none."""
    targets = np.array([0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 2])
    own = [DeviceClips("a", np.array([0])), DeviceClips("b", np.array([1, 2, 3, 4]))]
    first, second = deal_held_out(own, np.arange(5, 12), targets, np.random.default_rng(0))
    assert first.held_out is not None and second.held_out is not None
    assert targets[first.held_out].tolist() == [0] and targets[second.held_out].tolist() == [0, 0, 0, 1, 1]
    assert first.held_out[0] not in second.held_out


def split_of(settings: FleetSettings) -> tuple[FleetSplit, np.ndarray]:
    """How a run divides the corpus, and the recording of each clip."""
    speech = list_folder(Path(settings.data), "urbansound")
    split = divided(settings, speech, least_clips(settings, speech), settings.devices, settings.unseen)
    return split, speech.speakers


@pytest.mark.parametrize(
    "changes",
    [
        {"partition": Partition(kind="dirichlet", alpha=0.5)},
        {"partition": Partition(kind="labels", labels=3), "validation": True},
        {"partition": Partition(kind="dirichlet", fresh=Fresh(share=0.2, round=2))},
        {"partition": Partition(kind="dirichlet"), "method": "fedrpo", "labelled": "share:0.2"},
        {"partition": Partition(kind="dirichlet", imbalance=3)},
    ],
)
def test_no_recording_is_both_trained_on_and_judged_by(urbansound: str, changes: dict[str, object]) -> None:
    split, recordings = split_of(FleetSettings(data=urbansound, devices=5, **changes))  # type: ignore[arg-type]
    trained = np.concatenate([split.labelled, *(each.clips for each in split.devices)])
    held = np.concatenate([each.held_out for each in split.devices if each.held_out is not None])
    judged = np.concatenate([held, split.unseen, split.validation])
    assert not set(recordings[trained].tolist()) & set(recordings[judged].tolist())
    every = np.concatenate([trained, judged])
    assert len(np.unique(every)) == len(every) and len(held) >= 10
    assert len(split.devices) == 5 and min(len(each.clips) for each in split.devices) >= 5


def test_the_clips_of_a_run_are_those_that_its_forecast_counts(urbansound: str) -> None:
    """Of 50 recordings of four clips a fifth is unseen; of the others one or two of each label are held out."""
    settings = FleetSettings(data=urbansound, devices=5, partition=Partition(kind="dirichlet"))
    data, crowd = load_data(settings), crowd_of(settings)
    assert data.pack.labels == URBAN_SOUNDS and data.unseen_speakers == RECORDINGS * 10 // 5
    assert data.counts.tolist() == np.stack([crowd.trained, crowd.held_out], axis=1).tolist()
    assert int(data.counts.sum()) == 40 * SLICES and len(data.unseen) == 10 * SLICES


def test_without_a_partition_clips_that_are_nobodys_are_dealt_by_dirichlet(urbansound: str) -> None:
    settings, (sentence,) = with_choices(FleetSettings(data=urbansound))
    assert (settings.partition, settings.devices) == (Partition(kind="dirichlet"), 50)
    assert sentence.startswith("A clip of UrbanSound8K is nobody's, so --partition dirichlet is taken")
    assert with_choices(settings) == (settings, ())
    labels = FleetSettings(data=urbansound, partition=Partition(kind="labels"))
    assert with_choices(labels)[0] == FleetSettings(data=urbansound, partition=labels.partition, devices=50)
    assert with_choices(FleetSettings(data="crema-d:here"))[1] == ()


@pytest.mark.parametrize("partition", [Partition(), Partition(kind="split"), Partition(kind="voices")])
def test_a_partition_by_speaker_of_clips_that_are_nobodys_is_refused(urbansound: str, partition: Partition) -> None:
    with pytest.raises(SettingsError, match=f"the partition {partition.kind} has no speakers: take the kind dirichlet"):
        crowd_of(FleetSettings(data=urbansound, devices=5, partition=partition))


def test_an_actor_is_a_device(tmp_path: Path) -> None:
    crema = load_data(FleetSettings(data=f"crema-d:{make_crema_d(tmp_path / 'crema')}", unseen=2))
    assert crema.pack.labels == EMOTIONS and crema.unseen_speakers == 2
    assert set(crema.speakers) < {str(1000 + actor) for actor in range(1, 7)} and len(crema.speakers) == 4
    iemocap = load_data(FleetSettings(data=f"iemocap:{make_iemocap(tmp_path / 'iemocap')}", unseen=1))
    assert set(iemocap.speakers) < {"Ses01F", "Ses01M", "Ses02F", "Ses02M"} and len(iemocap.speakers) == 3


def test_a_suite_takes_the_labels_and_the_crowd_of_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    suite = read_suite(str(tmp_path / "mine.toml"))[0]
    changed = narrowed(suite, data="urbansound:here", rounds=None, seeds=None)
    assert (changed.packs["net"].words, changed.packs["net"].window) == (("urbansound",), 4.0)
    told = cells(changed, "mine.toml")[0].settings
    assert (told.words, told.devices, told.min_clips, told.unseen) == ("urbansound", 50, 1, None)
    assert told.partition == Partition(kind="dirichlet")
    told = cells(narrowed(suite, data="crema-d:here", rounds=None, seeds=None), "mine.toml")[0].settings
    assert (told.words, told.devices, told.partition) == ("emotions", None, Partition())
    assert narrowed(suite, data="here", rounds=None, seeds=None).packs == suite.packs


@pytest.mark.parametrize("name", ["fedmlac-table4", "fedmlac-table6", "fedvsa-table3", "fedvsa-table4"])
def test_suites_of_the_papers_take_urbansound(name: str) -> None:
    """Those that deal clips afresh keep their own way."""
    suite = read_suite(name)[0]
    for sized in (suite, full_size(suite, name)):
        changed = narrowed(sized, data="urbansound:here", rounds=None, seeds=None)
        told = [cell.settings for cell in cells(changed, name)]
        own = [cell.settings.partition for cell in cells(sized, name)]
        assert {each.words for each in told} == {"urbansound"} and {each.data for each in told} == {"urbansound:here"}
        kept = [each if each.deals else Partition(kind="dirichlet") for each in own]
        assert [each.partition for each in told] == kept


@pytest.mark.slow
def test_a_suite_builds_a_pack_of_four_seconds_and_runs_on_a_corpus(
    urbansound: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="packs are built with PyTorch")
    pytest.importorskip("onnxscript", reason="packs are built with onnxscript")
    (tmp_path / "mine.toml").write_text(f"{SUITE}settings = {{ devices = 4 }}\n")
    out = tmp_path / "out"
    command = ["fleet", "suite", str(tmp_path / "mine.toml"), "--data", urbansound, "--out", str(out), "--jobs", "1"]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["failed"] == {} and "net (urbansound; 4 s; crnn-lite; SHA-256" in said["packs"][0]
    (pack,) = (out / "packs").iterdir()
    assert load_pack(pack).manifest.task.seconds == 4 and load_pack(pack).labels == URBAN_SOUNDS


@pytest.mark.slow
def test_rounds_on_a_corpus_with_a_window_of_two_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Emotions that are tones are told apart by people whom no device has; chance is a quarter."""
    pytest.importorskip("torch", reason="packs are built with PyTorch")
    pytest.importorskip("onnxscript", reason="packs are built with onnxscript")
    root = make_crema_d(tmp_path / "crema", seconds=1.5)
    build = ["export", "build", "--model", "crnn-lite", "--labels", "emotions", "--window", "2", "--name", "emotions"]
    assert main([*build, "--out", str(tmp_path)]) == 0
    run = ["fleet", "run", "--engine", "virtual", "--data", f"crema-d:{root}", "--unseen", "2", "--rounds", "12"]
    model = ["--pack", str(tmp_path / "emotions.tar.zst"), "--local", "crnn-lite", "--judge", "off"]
    capsys.readouterr()
    assert main([*run, *model, "--out", str(tmp_path / "run"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summary = rows[-1]
    assert len(rows) == 13 and summary["devices"] == 4 and summary["plugin_accuracy_unseen"] > 0.5
