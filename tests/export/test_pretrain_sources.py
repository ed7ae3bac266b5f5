"""What a recipe reads: folders of every kind, Speech Commands as downloaded, and folders that a command adds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from tests.core.speech.archive_server import ArchiveServer, archive_of, serving
from tests.export.live_toy import FRONTEND, tone
from tests.export.test_pretrain_recipe import RECIPE, speakers, write_data

from auricle.errors import SettingsError
from auricle.process.cli import main
from auricle.speech.audio import read_audio
from auricle.speech.sources import Place
from auricle_export.pretrain.corpus import Sources, make_corpus, read_part
from auricle_export.pretrain.outcome import judge_clips
from auricle_export.pretrain.recipe import Recipe, load_recipe
from auricle_export.pretrain.streams import make_streams
from auricle_export.speech.import_speech import ImportSettings, import_speech

LABELS = ("high", "low", "_unknown_", "_silence_")


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE.format(pack="x"))
    return load_recipe(str(path))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    """Serves a Speech Commands of one word by one person of the training part."""
    monkeypatch.setenv("no_proxy", "*")
    (who,) = speakers("train", 1)
    file = tmp_path / "clip.wav"
    soundfile.write(file, tone(2_500, seed=50), 16_000)
    with serving(archive_of({f"./high/{who}_nohash_3.wav": file.read_bytes()})) as server:
        yield server


def _imported(root: Path, out: Path, *, running: bool) -> Path:
    """A collection of two recordings by people of the training part, brought in by `import-speech`."""
    (root / "clips").mkdir(parents=True)
    rows = ["path,word,speaker"]
    for number, who in enumerate(("ann", "bob", "eve", "joe", "kim", "sue")):
        soundfile.write(root / "clips" / f"{number}.wav", tone(2_300, seed=60 + number), 16_000)
        rows.append(f"{number}.wav,high,{who}")
    (root / "list.csv").write_text("\n".join(rows) + "\n")
    import_speech(ImportSettings(root / "list.csv", out, running=running))
    return out


def test_words_come_from_folders_of_every_kind_at_once(recipe: Recipe, server: ArchiveServer, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    own = _imported(tmp_path / "collection", tmp_path / "imported", running=False)
    steps: list[str] = []
    more = recipe.with_words([str(own), "speech-commands"])
    place = Place(server.archive(), tmp_path / "cache")
    sources = more.sources(data, place, lambda what, *_: steps.append(what))
    parts = [read_part(sources, LABELS, part) for part in ("train", "validation", "test")]
    before = [read_part(recipe.sources(data), LABELS, part) for part in ("train", "validation", "test")]
    assert sources.words == (data / "words", own, tmp_path / "cache" / "speech")
    assert sum(len(part.keywords) for part in parts) == sum(len(part.keywords) for part in before) + 7
    assert list(dict.fromkeys(steps)) == ["downloading Speech Commands", "unpacking Speech Commands"]
    assert more.data() == "recordings of people in words, imported, speech-commands, and espeak-ng"


def test_imported_running_speech_is_split_by_who_speaks(recipe: Recipe, tmp_path: Path) -> None:
    own = _imported(tmp_path / "collection", tmp_path / "sentences", running=True)
    data = write_data(tmp_path / "data")
    sources = Sources((data / "words",), (own,))
    found = [len(read_part(sources, LABELS, part).running) for part in ("train", "validation", "test")]
    names = [path.name.partition("_")[0] for path in (own / "speech").iterdir()]
    assert len(set(names)) == 6 and sum(found) == 6


def test_a_recording_that_two_folders_hold_counts_once(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    (who, *_) = speakers("train", 1)
    again = tmp_path / "again" / "high"
    again.mkdir(parents=True)
    sound = read_audio(data / "words" / "high" / f"{who}_nohash_0.wav")
    soundfile.write(again / f"{who}_nohash_0.flac", np.rint(sound * 32_768).astype(np.int16), 16_000)
    soundfile.write(again / f"{who}_nohash_1.flac", tone(2_600, seed=70), 16_000)
    folders = ((data / "words",), (data / "words", again.parent))
    one, two = (read_part(Sources(roots, (data / "speech",)), LABELS, "train") for roots in folders)
    assert len(two.keywords) == len(one.keywords) + 1


@pytest.mark.slow
def test_words_of_another_language_are_no_keywords_whatever_they_are_called(recipe: Recipe, tmp_path: Path) -> None:
    """A gloss that is spelt like a keyword is trained on, and judged, as `_unknown_`."""
    data = write_data(tmp_path / "data")
    foreign = data / "foreign" / "high"
    foreign.mkdir(parents=True)
    for number, who in enumerate(speakers("train", 2) + speakers("test", 1)):
        soundfile.write(foreign / f"{who}_nohash_0.wav", tone(3_000, seed=80 + number), 16_000)
    sources = msgspec.structs.replace(recipe, languages=("foreign",), other_voices=2).sources(data)
    before = read_part(recipe.sources(data), LABELS, "train")
    train, test = (read_part(sources, LABELS, part) for part in ("train", "test"))
    assert (len(train.keywords), len(train.others)) == (len(before.keywords), len(before.others))
    assert [len(train.languages), len(test.languages)] == [2, 1]
    corpus = make_corpus(sources, LABELS, FRONTEND, 0)
    assert len(corpus.bank.others) == len(train.others) + 2
    takes = len(test.keywords) + len(test.others) + 1

    def unknown(features: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.tile(np.eye(4, dtype=np.float32)[LABELS.index("_unknown_")], (len(features), 1))

    assert judge_clips(test, LABELS, FRONTEND, unknown) == (len(test.others) + 1, takes)
    scenes = make_streams(test, LABELS, FRONTEND, 0, passes=1, negatives=1, seconds=3).scenes
    kinds = {stretch.kind for scene in scenes for stretch in scene.stretches}
    assert "languages" in kinds


def test_a_folder_is_of_one_language(recipe: Recipe, tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    with pytest.raises(SettingsError, match="another"):
        msgspec.structs.replace(recipe, languages=("words",)).sources(data)


def test_a_noise_that_two_folders_hold_is_in_one_part(tmp_path: Path) -> None:
    """white_noise.wav is of the validation part, white_noise.flac of the training part: by their names."""
    data = write_data(tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    hiss = (1_000 * np.random.default_rng(3).standard_normal(16_000)).astype(np.int16)
    soundfile.write(data / "words" / "_background_noise_" / "white_noise.wav", hiss, 16_000)
    soundfile.write(other / "white_noise.flac", hiss, 16_000)
    soundfile.write(other / "hiss0.flac", hiss[::-1], 16_000)  # another noise of the same name
    sources = Sources((data / "words",), (data / "speech",), (other,))
    parts = [read_part(sources, LABELS, part) for part in ("train", "validation", "test")]
    heard = [sound for part in parts for sound in part.noise if np.array_equal(sound, hiss / np.float32(32_768))]
    assert len(heard) == 1 and sum(len(part.noise) for part in parts) == 24 + 2


def test_without_a_folder_of_data_every_folder_has_to_be_whole(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--data"):
        recipe.sources(None)
    with pytest.raises(SettingsError, match="twice"):
        recipe.with_words([str(tmp_path / "words")]).sources(tmp_path)
    data = write_data(tmp_path / "data")
    text = RECIPE.format(pack="x").replace('"words"', f'"{data}/words"').replace('"speech"', f'"{data}/speech"')
    (tmp_path / "whole.toml").write_text(text)
    assert load_recipe(str(tmp_path / "whole.toml")).sources(None).words == (data / "words",)


def test_whom_to_name_is_added_and_has_to_be_somebody(recipe: Recipe) -> None:
    assert recipe.with_words(["speech-commands"], ["me, CC0"]).attribution == ("nobody, CC0", "me, CC0")
    with pytest.raises(SettingsError, match="--attribution"):
        recipe.with_words([], [""])
    many = recipe.with_words([f"/data/{'x' * 30}{number}" for number in range(9)])
    assert many.data() == "recordings of people in 10 folders, and espeak-ng"


def test_a_folder_that_is_added_reminds_of_its_licence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = ["export", "pretrain", "--recipe", "home", "--data", str(tmp_path), "--out", str(tmp_path / "o.tar.zst")]
    assert main([*train, "--words", "mine"]) == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert "--attribution" in said and "does not exist" in said
    assert main([*train, "--words", "mine", "--attribution", "me, CC0"]) == 2
    assert "--attribution" not in capsys.readouterr().err
