"""Packs that name single clips: trained by a recipe on several folders and espeak-ng, and compared with it again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from tests.export.pretrain_toy import HZ, crnn_pack, write_pack

from auricle.errors import DataError, SettingsError
from auricle.hearing.splits import part_of
from auricle.packs.manifest import FileEntry
from auricle.packs.pack import Pack, load_pack
from auricle.process.cli import main
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.comparison import OTHER_SPEECH
from auricle_export.pretrain.epoch_order import mixed_order, mixed_size
from auricle_export.pretrain.recipe import load_recipe
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import split_by_name
from auricle_export.pretrain.task import ClipTask, clip_speech, pretrain_clips
from auricle_export.pretrain.trained import Score, mean_of_words

Printed = pytest.CaptureFixture[str]
LABELS = ("high", "low")
RECIPE = """
kind = "clips"
pack = "{pack}"
words = ["first", "second"]
leave_out = ["out"]
attribution = ["nobody, CC0"]
voices = 2
takes = 2
spoken = 0.25
batch = 8
[epochs]
crnn-lite = 3
"""


def names(part: str, count: int, beginning: str = "s") -> list[str]:
    return [name for number in range(400) if part_of(name := f"{beginning}{number}") == part][:count]


def write_clip(path: Path, hz: float, seed: int) -> None:
    rng, time = np.random.default_rng(seed), np.arange(16_000) / 16_000
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * hz * time) + 0.02 * rng.normal(size=16_000), 16_000)


def write_data(root: Path) -> Path:
    """Ten people in `first`; in `second` two of them again, one with a recording of `first`; one is in `out`, too."""
    people = [*names("train", 6), *names("validation", 2), *names("test", 2)]
    for number, who in enumerate(people):
        for word in LABELS:
            write_clip(root / "first" / word / f"{who}_nohash_0.wav", HZ[word], number)
    for word in LABELS:
        write_clip(root / "second" / word / f"{people[0]}_nohash_1.wav", HZ[word], 50)
        write_clip(root / "second" / word / f"{people[1]}_nohash_1.wav", HZ[word], 1)
    write_clip(root / "out" / "high" / f"{people[5]}_nohash_0.wav", HZ["high"], 99)
    return root


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def recipe_of(folder: Path, pack: str = "x", **changes: str) -> Path:
    text = RECIPE.format(pack=pack)
    for name, value in changes.items():
        text = text.replace(name, value)
    path = folder / "toy.toml"
    path.write_text(text)
    return path


def read(path: Path) -> ClipRecipe:
    recipe = load_recipe(str(path))
    assert isinstance(recipe, ClipRecipe)
    return recipe


def test_each_label_is_heard_equally_often_with_its_share_of_synthetic_speech() -> None:
    """20 recordings of two labels: 20 clips of each an epoch, of which 0.3 are six synthetic ones."""
    targets, spoken = np.array([0] * 15 + [1] * 5), np.array([0, 0, 1, 1, 1])

    order = mixed_order(targets, spoken, 0.3, 1.0, np.random.default_rng(0))
    counts = np.bincount(order, minlength=25)

    assert len(order) == mixed_size(targets) == 40
    assert counts[:15].sum() == 14 and counts[:15].max() == 1
    assert sorted(counts[15:20]) == [2, 3, 3, 3, 3]
    assert counts[20:22].tolist() == [3, 3] and counts[22:].tolist() == [2, 2, 2]


def test_synthetic_speech_stands_in_where_recordings_are_few_or_missing() -> None:
    """60 recordings of three labels, 40 of each an epoch: one recording is heard eight times, none not at all."""
    targets, spoken = np.array([0] * 59 + [1]), np.array([0] + [1] * 4 + [2] * 5)
    counts = np.bincount(mixed_order(targets, spoken, 0.0, 1.0, np.random.default_rng(0)), minlength=70)
    assert counts[:59].sum() == 40 and counts[59] == 8
    assert counts[60] == 0 and counts[61:65].tolist() == [8, 8, 8, 8] and counts[65:].tolist() == [8] * 5


@pytest.mark.parametrize(("balance", "of_each"), [(0.0, [31, 9]), (0.5, [26, 14]), (1.0, [20, 20])])
def test_labels_that_are_recorded_more_are_heard_more_unless_balanced(balance: float, of_each: list[int]) -> None:
    """18 and 2 recordings: (23 : 7), its root (4.80 : 2.65) and (1 : 1) of 40 clips."""
    targets, spoken = np.array([0] * 18 + [1] * 2), np.array([0, 1])
    labels = np.concatenate([targets, spoken])
    order = mixed_order(targets, spoken, 0.2, balance, np.random.default_rng(0))
    assert np.bincount(labels[order]).tolist() == of_each


def test_speakers_are_split_by_the_hash_of_their_names_and_every_word_counts_the_same_in_their_mean() -> None:
    everybody = [*names("test", 2), *names("train", 3), *names("validation", 1)]
    assert split_by_name(everybody) == (names("train", 3), names("validation", 1), names("test", 2))
    with pytest.raises(DataError, match="3 speakers"):
        split_by_name(names("train", 3))
    assert mean_of_words({"often": Score(80, 100), "rare": Score(1, 2)}) == pytest.approx(0.65)


def test_what_a_recipe_says_decides_the_training(tmp_path: Path) -> None:
    found = read(recipe_of(tmp_path)).training("crnn-lite", PretrainSettings(seed=3, device="cpu"))
    assert found == PretrainSettings(epochs=3, patience=3, batch=8, rate=4e-3, seed=3, device="cpu", smoothing=0.05)
    with pytest.raises(SettingsError, match="valid"):
        load_recipe(str(recipe_of(tmp_path, spoken="spoken = 1.0 #")))


@pytest.mark.parametrize("voices", [0, 2])
def test_folders_are_read_as_one_and_synthetic_speech_is_never_judged_by(
    voices: int, data: Path, tmp_path: Path
) -> None:
    """Of six people to train on one is left out; the five say two words, one twice, and what is doubled counts once."""
    if voices:
        pytest.importorskip("espeakng_loader")
    recipe = read(recipe_of(tmp_path, voices=f"voices = {voices} #"))
    speech = clip_speech(recipe, data, crnn_pack(LABELS), 0, lambda *_: None)

    assert [part.speakers for part in (speech.train, speech.validation, speech.test)] == [5, 2, 2]
    assert [len(part) for part in (speech.train, speech.validation, speech.test)] == [12, 4, 4]
    espeak = ", and espeak-ng" if voices else ""
    assert speech.what == f"recordings in the folders first, second, 2 words{espeak}"
    if speech.mixed is not None:
        assert speech.mixed.share == 0.25
        assert np.bincount(speech.mixed.targets).tolist() == [4, 4]
    assert (speech.mixed is None) is (voices == 0)


@dataclass(frozen=True)
class Made:
    """A pack that the command made."""

    data: Path
    recipe: Path
    pack: Path


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    pytest.importorskip("espeakng_loader")
    folder = tmp_path_factory.mktemp("made")
    base = write_pack(folder / "toy.tar.zst", crnn_pack(LABELS, ("crnn-lite", "crnn-base")))
    made = Made(data, recipe_of(folder, str(base)), folder / "out.tar.zst")
    assert main(["export", "pretrain", *arguments(made), "--out", str(made.pack)]) == 0
    return made


def arguments(made: Made, data: Path | None = None) -> list[str]:
    return ["--recipe", str(made.recipe), "--data", str(data or made.data), "--compute", "cpu"]


def test_the_command_makes_a_pack_of_the_recipes_models(made: Made) -> None:
    start = load_pack(made.pack).manifest.start
    assert list(start) == ["crnn-lite"]
    assert start["crnn-lite"].attribution == ("nobody, CC0",)
    assert (start["crnn-lite"].clips, start["crnn-lite"].speakers, start["crnn-lite"].judged_clips) == (12, 5, 4)
    assert not Path(f"{made.pack}.state").exists()


def test_weights_of_other_models_leave_the_pack(made: Made, tmp_path: Path) -> None:
    first = load_pack(made.pack)
    said = first.manifest.start["crnn-lite"]
    starts = {"crnn-lite": said, "crnn-base": msgspec.structs.replace(said, file="weights/base")}
    files = {**first.files, "weights/base": b"other weights"}
    entries = tuple(FileEntry.of(path, content) for path, content in sorted(files.items()))
    both = Pack(msgspec.structs.replace(first.manifest, start=starts, files=entries), files)
    task = ClipTask(read(made.recipe), made.data, tmp_path / "state", PretrainSettings(device="cpu"))

    again = pretrain_clips(both, task).pack

    assert again.identity == first.identity


def test_a_check_finds_what_a_pack_says_and_tells_one_that_boasts(made: Made, tmp_path: Path, capsys: Printed) -> None:
    assert main(["export", "pretrain", *arguments(made), "--check", str(made.pack), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same"] is True and len(found["rows"]) == 7

    pack = load_pack(made.pack)
    said = pack.manifest.start["crnn-lite"]
    claim = msgspec.structs.replace(said, accuracy=0.0 if said.accuracy > 0.5 else 1.0)
    boasting = Pack(msgspec.structs.replace(pack.manifest, start={"crnn-lite": claim}), pack.files)
    path = write_pack(tmp_path / "boasting.tar.zst", boasting)

    assert main(["export", "pretrain", *arguments(made), "--check", str(path)]) == 1

    out = capsys.readouterr().out
    assert "1 of 7 differ" in out and "Hits by kind" not in out


def test_a_check_tells_other_recordings(made: Made, tmp_path: Path, capsys: Printed) -> None:
    data = write_data(tmp_path / "data")
    write_clip(data / "first" / "low" / f"{names('train', 1)[0]}_nohash_0.wav", HZ["low"], 77)
    assert main(["export", "pretrain", *arguments(made, data), "--check", str(made.pack), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [row["what"] for row in found["rows"] if not row["same"]] == ["crnn-lite: digest of the speech"]
    assert found["notes"] == [OTHER_SPEECH]


@pytest.mark.parametrize(("more", "says"), [("--data", "--data once"), ("--leave-out", "--leave-out")])
def test_a_recipe_names_its_folders(tmp_path: Path, more: str, says: str, capsys: Printed) -> None:
    given = ["export", "pretrain", "--recipe", "digits", "--out", str(tmp_path / "o.tar.zst"), "--data", "one"]
    assert main([*given, more, "two"]) == 2
    assert says in capsys.readouterr().err


def test_without_a_recipe_several_folders_are_trained_on_at_once(data: Path, tmp_path: Path, capsys: Printed) -> None:
    base = write_pack(tmp_path / "toy.tar.zst", crnn_pack(LABELS))
    out = tmp_path / "o.tar.zst"
    folders = ["--data", str(data / "first"), "--data", str(data / "second"), "--leave-out", str(data / "out")]
    settings = ["--epochs", "1", "--compute", "cpu", "--pack", str(base), "--out", str(out), "--json"]

    assert main(["export", "pretrain", *folders, *settings]) == 0

    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["data"] == "recordings in the folders first, second, 2 words"
    assert sum(result["speakers"].values()) == 9 and sum(result["clips"].values()) == 20
    assert sum(of for _, of in result["models"]["crnn-lite"]["words"].values()) == result["clips"]["test"]
