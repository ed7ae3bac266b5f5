"""Central training: what is split, what is kept, when it stops, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from tests.export.pretrain_toy import MODEL, WORDS, Tiny, tiny_pack, write_pack, write_tones
from torch import nn

from auricle.errors import AuricleError, DataError, PackError, SettingsError, StorageError
from auricle.packs.pack import Pack, load_pack
from auricle.packs.start import start_weights
from auricle.speech.features import LogMel
from auricle.speech.sources import read_sources
from auricle.speech.speech_set import SpeechSet
from auricle.speech.synthesis import SynthesisSettings
from auricle_export.packs.start_weights import with_start_of, without_start
from auricle_export.pretrain.epoch_order import balanced_order, balanced_size
from auricle_export.pretrain.modules import own_modules
from auricle_export.pretrain.pack import with_trained
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import PretrainSpeech, prepare_speech, split_speakers
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.task import PretrainTask, models_of, pretrain_pack, remove_state
from auricle_export.pretrain.trained import Epoch, Trained, TrainingInterrupted
from auricle_export.pretrain.training import train_model

MODULES = {MODEL: Tiny}
SETTINGS = PretrainSettings(epochs=6, patience=6, batch=16, rate=0.02, device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tones(tmp_path_factory.mktemp("tones"))


def read(folder: Path) -> SpeechSet:
    return read_sources([str(folder)], SynthesisSettings(",".join(WORDS)))


@pytest.fixture(scope="module")
def speech(folder: Path) -> PretrainSpeech:
    audio = read(folder)
    return prepare_speech(audio, tiny_pack().manifest.task, "tones", split_speakers(audio.speaker_names, 0))


def train(
    speech: PretrainSpeech,
    folder: Path,
    settings: PretrainSettings = SETTINGS,
    report: Callable[[Epoch], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Trained:
    return train_model(MODEL, tiny_pack(), speech, settings, folder, modules=MODULES, report=report, stopped=stopped)


def test_speakers_are_split_and_nobody_is_in_two_parts() -> None:
    names = tuple(f"s{i}" for i in range(20))
    train, validation, test = split_speakers(names, seed=3)
    assert (len(train), len(validation), len(test)) == (14, 3, 3)
    assert sorted([*train, *validation, *test]) == sorted(names)
    assert split_speakers(names[::-1], seed=3) == (train, validation, test)
    assert split_speakers(names, seed=4) != (train, validation, test)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_speakers_cannot_be_split(count: int) -> None:
    with pytest.raises(DataError, match="three"):
        split_speakers(tuple("ab")[:count], 0)
    assert [len(part) for part in split_speakers(("a", "b", "c"), 0)] == [1, 1, 1]


def test_every_clip_of_a_speaker_is_in_the_part_of_its_speaker(folder: Path, speech: PretrainSpeech) -> None:
    audio = read(folder)
    test = split_speakers(audio.speaker_names, 0)[2]
    places = np.flatnonzero(np.isin(audio.speakers, [audio.speaker_names.index(name) for name in test]))
    task = tiny_pack().manifest.task

    assert [part.speakers for part in (speech.train, speech.validation, speech.test)] == [8, 1, 1]
    assert [len(part) for part in (speech.train, speech.validation, speech.test)] == [96, 12, 12]
    assert np.array_equal(speech.test.energies, LogMel(task).energies(audio.audio[places]))
    assert np.array_equal(speech.test.targets, audio.targets[places])
    assert speech.noise is not None


def test_a_word_that_only_held_out_speakers_say_is_named(folder: Path) -> None:
    audio = read(folder)
    held = [audio.speaker_names.index(name) for name in split_speakers(audio.speaker_names, 0)[0]]
    targets = np.where(np.isin(audio.speakers, held) & (audio.targets == 1), 0, audio.targets)
    rest = type(audio)(audio.labels, audio.audio, targets, audio.speakers, audio.speaker_names)
    with pytest.raises(DataError, match='says "low"'):
        prepare_speech(rest, tiny_pack().manifest.task, "tones", split_speakers(rest.speaker_names, 0))


def test_each_label_is_drawn_equally_often_and_no_clip_twice_before_all_once() -> None:
    targets = np.array([0] * 7 + [1] * 2 + [2] * 3)
    order = balanced_order(targets, np.random.default_rng(0))
    assert len(order) == balanced_size(targets) == 12
    assert np.bincount(targets[order]).tolist() == [4, 4, 4]
    assert np.bincount(order[targets[order] == 1], minlength=9)[7:9].tolist() == [2, 2]
    assert np.bincount(order).max() == 2


def test_it_learns_and_is_judged_on_speakers_it_never_heard(speech: PretrainSpeech, tmp_path: Path) -> None:
    told: list[Epoch] = []
    trained = train(speech, tmp_path, report=told.append)
    again = train(speech, tmp_path, report=lambda _: pytest.fail("trained again"))

    assert [epoch.number for epoch in told] == [1, 2, 3, 4, 5, 6]
    assert told[-1].loss < told[0].loss
    assert trained.accuracy >= 0.9
    assert (trained.judged_clips, trained.epochs) == (len(speech.test), 6)
    assert trained.best_epoch == told[-1].best_epoch
    assert np.array_equal(trained.weights, trained.weights.astype(np.float16).astype(np.float32))
    assert np.array_equal(again.weights, trained.weights)
    module, table = Tiny(3), tiny_pack().table(MODEL)
    module.load_state_dict({s.name: torch.from_numpy(table.tensor(trained.weights, s.name)) for s in table.specs})
    logits = module.eval()(torch.from_numpy(LogMel(tiny_pack().manifest.task).finish(speech.test.energies)))
    assert trained.accuracy == float((logits.argmax(dim=1).numpy() == speech.test.targets).mean())


def test_interrupted_and_resumed_it_gives_the_same_weights(speech: PretrainSpeech, tmp_path: Path) -> None:
    whole = train(speech, tmp_path / "whole")
    batches = 0

    def stopped() -> bool:
        nonlocal batches
        batches += 1
        return batches == 20  # in the fourth epoch of six

    with pytest.raises(TrainingInterrupted):
        train(speech, tmp_path / "parts", stopped=stopped)
    told: list[Epoch] = []
    torch.manual_seed(99)
    resumed = train(speech, tmp_path / "parts", report=told.append)

    assert [epoch.number for epoch in told] == [4, 5, 6]
    assert np.array_equal(resumed.weights, whole.weights)
    assert resumed.accuracy == whole.accuracy
    assert resumed.best_epoch == whole.best_epoch
    kept = [load((tmp_path / part / f"{MODEL}.safetensors").read_bytes()) for part in ("whole", "parts")]
    assert kept[0].keys() == kept[1].keys()
    assert all(np.array_equal(kept[0][name], kept[1][name]) for name in kept[0])


def test_it_stops_when_patience_is_over_and_keeps_the_best(speech: PretrainSpeech, tmp_path: Path) -> None:
    told: list[Epoch] = []
    settings = PretrainSettings(epochs=60, patience=2, batch=16, rate=1e-12, device="cpu")

    trained = train(speech, tmp_path, settings, told.append)

    best = min(told, key=lambda epoch: (epoch.validation_loss, epoch.number))
    assert len(told) < 60
    assert trained.epochs == told[-1].number == told[-1].best_epoch + 2
    assert trained.best_epoch == best.number
    assert trained.validation_accuracy == best.validation_accuracy


def test_another_seed_gives_another_pack_and_the_same_the_same(folder: Path, tmp_path: Path) -> None:
    quick = PretrainSettings(epochs=1, batch=16, device="cpu")

    def made(state: str, settings: PretrainSettings = quick, **changes: object) -> Pack:
        given = task(folder, tmp_path / state, settings=settings, **changes)
        return pretrain_pack(tiny_pack(), given, modules=MODULES).pack

    first, other = made("a"), made("c", changed(quick, seed=1))
    assert made("b").identity == first.identity
    assert not np.array_equal(start_weights(first, MODEL), start_weights(other, MODEL))
    two = made("d", words="low,high")
    assert two.labels == ("low", "high")
    assert two.table(MODEL).specs[-1].shape == (2,)
    assert start_weights(two, MODEL).shape == (two.table(MODEL).size,)
    stopped = task(folder, tmp_path / "state")
    with pytest.raises(TrainingInterrupted):
        pretrain_pack(tiny_pack(), stopped, modules=MODULES, stopped=lambda: True)
    assert not (tmp_path / "state").exists()


def changed(settings: PretrainSettings, **changes: int) -> PretrainSettings:
    return PretrainSettings(**{**settings.__dict__, **changes})


def test_frozen_batch_normalisation_stays_as_it_is(speech: PretrainSpeech, tmp_path: Path) -> None:
    class Normed(Tiny):
        def __init__(self, labels: int) -> None:
            super().__init__(labels)
            self.norm = norm

    norm = nn.BatchNorm1d(8, affine=False)
    settings = PretrainSettings(epochs=1, batch=16, device="cpu")
    train_model(MODEL, tiny_pack(), speech, settings, tmp_path, modules={MODEL: Normed})

    assert norm.running_mean is not None
    assert norm.running_mean.abs().sum() == 0


WRONG = {"epochs": 0, "patience": 0, "batch": -1, "threads": 0, "rate": 0.0, "seed": -1, "device": "cdua"}


@pytest.mark.parametrize(
    ("name", "value"), [*WRONG.items(), ("rate", float("nan")), ("epochs", 10**40), ("seed", 1 << 63)]
)
def test_settings_that_cannot_be_trained_with_are_named(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match="cuda" if name == "device" else f"--{name}"):
        PretrainSettings(**{name: value})


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_a_gpu_that_is_not_there_is_said() -> None:
    with pytest.raises(SettingsError, match="GPU"):
        PretrainSettings(device="cuda")
    assert PretrainSettings(device="auto").torch_device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_it_trains_and_goes_on_upon_a_gpu(speech: PretrainSpeech, tmp_path: Path) -> None:
    settings = PretrainSettings(epochs=6, patience=6, batch=16, rate=0.02, device="cuda")
    calls = iter(range(1000))
    with pytest.raises(TrainingInterrupted):
        train(speech, tmp_path, settings, stopped=lambda: next(calls) == 19)
    trained = train(speech, tmp_path, settings)
    assert trained.epochs == 6
    assert trained.accuracy >= 0.9


def test_another_trainings_state_is_refused_and_says_what_differs(speech: PretrainSpeech, tmp_path: Path) -> None:
    train(speech, tmp_path)
    with pytest.raises(SettingsError, match="batch"):
        train(speech, tmp_path, changed(SETTINGS, batch=8))
    other = PretrainSpeech(**{**speech.__dict__, "digest": "0" * 64})
    with pytest.raises(SettingsError, match="speech"):
        train(other, tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff" * 40, None])
def test_a_damaged_state_is_refused(speech: PretrainSpeech, tmp_path: Path, damage: bytes | None) -> None:
    train(speech, tmp_path)
    path = tmp_path / f"{MODEL}.safetensors"
    path.write_bytes(path.read_bytes()[:-3] if damage is None else damage)
    with pytest.raises(StorageError, match="damaged"):
        train(speech, tmp_path)


def test_a_loss_that_is_not_finite_and_another_module_are_refused(speech: PretrainSpeech, tmp_path: Path) -> None:
    class Wild(Tiny):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * float("inf")

    class Other(Tiny):
        def __init__(self, labels: int) -> None:
            super().__init__(labels)
            self.body = nn.Linear(80, 8, bias=False)

    with pytest.raises(AuricleError, match="--rate"):
        train_model(MODEL, tiny_pack(), speech, SETTINGS, tmp_path, modules={MODEL: Wild})
    with pytest.raises(PackError, match=r"body\.bias"):
        train_model(MODEL, tiny_pack(), speech, SETTINGS, tmp_path, modules={MODEL: Other})
    with pytest.raises(PackError, match="tiny"):
        train_model(MODEL, tiny_pack(), speech, SETTINGS, tmp_path)
    with pytest.raises(PackError, match='"tiny"'):
        models_of(["tyni"], tiny_pack())


def test_a_classifier_of_another_name_is_the_packs_head(speech: PretrainSpeech, tmp_path: Path) -> None:
    class Own(nn.Module):
        def __init__(self, labels: int) -> None:
            super().__init__()
            self.body = nn.Linear(80, 8)
            self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
            self.words = nn.Linear(8, labels)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled = torch.cat([x.mean(dim=1), x.amax(dim=1)], dim=1)
            logits: torch.Tensor = self.words(torch.tanh(self.body(pooled)) * self.frozen)
            return logits

    trained = train_model(MODEL, tiny_pack(), speech, SETTINGS, tmp_path, modules={MODEL: Own})

    assert trained.accuracy >= 0.9
    assert trained.weights.shape == (tiny_pack().table(MODEL).size,)


def task(data: Path | str, state: Path, **changes: object) -> PretrainTask:
    return PretrainTask(**{"data": (str(data),), "folder": state, "settings": SETTINGS, **changes})  # type: ignore[arg-type]


def test_the_pack_gets_float16_weights_and_says_where_they_come_from(folder: Path, tmp_path: Path) -> None:
    pack = tiny_pack(models=(MODEL, "small"))

    done = pretrain_pack(pack, task(folder, tmp_path / "state"), modules={MODEL: Tiny, "small": Tiny})
    loaded = load_pack(write_pack(tmp_path / "toy.tar.zst", done.pack))

    assert loaded.identity == done.pack.identity
    assert sorted(loaded.manifest.start) == ["small", MODEL]
    for model, start in loaded.manifest.start.items():
        tensors = load(loaded.files[start.file])
        assert all(tensor.dtype == np.float16 for tensor in tensors.values())
        assert np.array_equal(start_weights(loaded, model), done.trained[model].weights)
        assert start.file == f"weights/{model}.safetensors"
        assert start.data == f"recordings in the folder {folder.name}, 3 words"
        assert (start.clips, start.speakers, start.judged_clips, start.seed) == (96, 8, 12, 0)
        assert start.accuracy == round(done.trained[model].accuracy, 4)
    remove_state(tmp_path / "state", list(done.trained))
    assert not (tmp_path / "state").exists()


def test_models_trained_before_stay_and_can_be_carried_over(speech: PretrainSpeech, tmp_path: Path) -> None:
    pack = tiny_pack(models=(MODEL, "small"))
    trained = train(speech, tmp_path)

    first = with_trained(pack, {MODEL: trained}, speech, 0)
    both = with_trained(first, {"small": trained}, speech, 7)

    assert both.manifest.start[MODEL] == first.manifest.start[MODEL]
    assert both.manifest.start["small"].seed == 7
    assert without_start(both).identity == pack.identity
    assert with_start_of(pack, both).identity == both.identity
    other = tiny_pack(("a", "b", "c"), (MODEL, "small"))
    assert with_start_of(other, both).identity == other.identity
    with pytest.raises(PackError, match="other words"):
        with_trained(other, {MODEL: trained}, speech, 0)
    assert state_file("A/b") == state_file("a b") == "a-b.safetensors"
    with pytest.raises(PackError, match="file name"):
        with_trained(tiny_pack(models=("a b", "A/b")), {"a b": trained, "A/b": trained}, speech, 0)


@pytest.mark.parametrize(
    ("data", "changes", "says"),
    [
        ("/no/such/folder", {}, "exist"),
        (None, {"words": "low,hihg"}, "hihg"),
        (None, {"words": "low"}, "two"),
        (None, {"models": ("tniy",)}, "tiny"),
        ("one word", {}, "high"),
        ("one word", {"words": "common:1"}, "two words"),
        ("synthetic", {"words": "yes,no", "speakers": 2, "takes": 1}, "three"),
        ("synthetic", {"words": "yes,no", "speakers": 10_000}, "fewer"),
        ("synthetic", {"words": "yes,no", "takes": 0}, "takes"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(
    folder: Path, tmp_path: Path, data: str | None, changes: dict[str, object], says: str
) -> None:
    one = write_tones(tmp_path / "one", ("low",)) if data == "one word" else None
    with pytest.raises(AuricleError, match=says):
        pretrain_pack(tiny_pack(), task(one or data or folder, tmp_path / "state", **changes), modules=MODULES)


def test_packs_of_built_in_models_need_no_modules_named() -> None:
    modules = own_modules()
    crnns = {f"crnn-{kind}" for kind in ["tiny", "lite", "mid", "base", "deep", "bi64", "wide", "bi64-deep", "stacked"]}
    assert set(modules) == {*crnns, "resnet-lite", "resnet-base", "embedding-head", "embedding-head-wide"}
    assert modules["crnn-lite"](7)(torch.zeros(1, 100, 40)).shape == (1, 7)
