"""Corpora of other sound in their published layouts: labels, whose a clip is, and what is said where files lack."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.corpora import FORMATS, HEADER, RECORDINGS, SLICES, make_crema_d, make_iemocap, make_urbansound

from auricle.errors import DataError
from auricle.speech.clip_folder import describe_skipped, scan_folder
from auricle.speech.corpora import folder_of, split_corpus
from auricle.speech.folder import list_folder, load_folder
from auricle.speech.speech_set import to_float
from auricle.speech.words import EMOTIONS, URBAN_SOUNDS


@pytest.fixture(scope="module")
def urbansound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_urbansound(tmp_path_factory.mktemp("UrbanSound8K"))


def named(corpus: str, root: Path) -> Path:
    return Path(f"{corpus}:{root}")


def test_a_corpus_is_named_before_its_folder() -> None:
    found = split_corpus("crema-d:here/CREMA-D")
    assert found is not None and (found[0].title, found[1]) == ("CREMA-D", Path("here/CREMA-D"))
    assert [split_corpus(other) for other in ("crema-d", "gsc", "synthetic", "other:here", "")] == [None] * 5
    assert (folder_of("urbansound:a/b"), folder_of("a/b")) == (Path("a/b"), Path("a/b"))
    assert folder_of("urbansound:~/b") == Path.home() / "b"


def test_urbansound_has_ten_classes_and_the_recording_as_speaker(urbansound: Path) -> None:
    """Whatever the rate, the channels and the encoding, a clip is its tone in the middle of a window of 4 s."""
    root = named("urbansound", urbansound)
    speech = load_folder(root, "urbansound", clip_samples=64_000)
    assert speech.labels == URBAN_SOUNDS
    assert speech.audio.shape == (10 * RECORDINGS * SLICES, 64_000) and speech.findings == ()
    assert set(speech.clips_per_label().values()) == {RECORDINGS * SLICES}
    assert speech.speaker_names == tuple(str(1000 + number) for number in range(10 * RECORDINGS))
    assert set(speech.clips_per_speaker().tolist()) == {SLICES}
    energy = np.square(to_float(speech.audio)).sum(axis=1)
    middle = np.square(to_float(speech.audio[:, 27_000:37_000])).sum(axis=1)
    assert np.allclose(middle, energy) and energy.min() > 10
    first = speech.audio[speech.targets == 3][: len(FORMATS)]
    pitch = np.abs(np.fft.rfft(first[:, 28_000:36_000], axis=1)).argmax(axis=1) * 2
    assert np.all(np.abs(pitch - (200 + 330 * 3)) <= 3)
    listed = list_folder(root, "urbansound")
    assert np.array_equal(listed.targets, speech.targets) and np.array_equal(listed.speakers, speech.speakers)


def test_a_clip_that_is_longer_than_the_window_gives_its_loudest_part(tmp_path: Path) -> None:
    root = make_urbansound(tmp_path, seconds=0.8)
    speech = load_folder(named("urbansound", root), "urbansound", clip_samples=8_000)
    assert speech.audio.shape[1] == 8_000 and speech.describe_cut().endswith("build one with a longer --window")


def test_files_that_cannot_be_read_or_are_not_there_are_counted(tmp_path: Path) -> None:
    root = make_urbansound(tmp_path, seconds=0.1)
    table = root / "metadata" / "UrbanSound8K.csv"
    (root / "audio" / "fold1" / "1000-0-0-0.wav").write_bytes(b"RIFF....WAVE")
    (root / "audio" / "fold1" / "1000-0-0-1.wav").unlink()
    with table.open("a") as rows:
        rows.write("../../x.wav,1,0,1,1,1,3,dog_bark\nshort.wav,1\na.wav,1,0,1,1,../1,3,dog_bark\n")
    speech = load_folder(named("urbansound", root), "urbansound")
    assert len(speech) == 198 and len(speech.skipped) == 5
    said = describe_skipped(speech.findings)
    assert said.startswith("5 files left out, 3 of them: no file, recording, fold or class, the first: Row 202 of ")
    assert Counter(found.reason for found in speech.findings)["there is no such file"] == 1


def test_crema_d_has_actors_and_the_emotions_of_their_names(tmp_path: Path) -> None:
    root = make_crema_d(tmp_path, actors=3)
    (root / "AudioWAV" / "1001_IEO_JOY_XX.wav").write_bytes(b"")
    found = scan_folder(named("crema-d", root))
    assert found.counts() == dict.fromkeys(("angry", "disgusted", "happy", "neutral", "sad"), 15)
    assert {clip.speaker for clip in found.clips} == {"1001", "1002", "1003"}
    assert [finding.reason for finding in found.findings] == ["a name without actor or emotion"]
    speech = load_folder(named("crema-d", root), "emotions")
    assert speech.labels == EMOTIONS and speech.clips_per_speaker().tolist() == [20] * 3


def test_iemocap_has_the_improvised_dialogues_with_excited_as_happy(tmp_path: Path) -> None:
    """Two sessions of two improvised dialogues in which each of two actors has three utterances of each label."""
    root = make_iemocap(tmp_path)
    (root / "Session2" / "sentences" / "wav" / "Ses02F_impro01" / "Ses02F_impro01_M000.wav").unlink()
    found = scan_folder(named("iemocap", root))
    assert found.counts() == {"angry": 23, "frustrated": 24, "happy": 48, "neutral": 24, "sad": 24}
    assert Counter(clip.speaker for clip in found.clips) == {"Ses01F": 36, "Ses01M": 36, "Ses02F": 36, "Ses02M": 35}
    assert not [clip for clip in found.clips if "script" in clip.path.name]
    assert [finding.reason for finding in found.findings] == ["there is no such file"]
    assert load_folder(named("iemocap", root), "emotions").labels == EMOTIONS


@pytest.mark.parametrize(
    ("corpus", "there", "says"),
    [
        ("urbansound", None, "of UrbanSound8K does not exist: name the one that it was unpacked to"),
        ("urbansound", "audio/", "has no metadata/UrbanSound8K.csv: name the folder that UrbanSound8K"),
        ("urbansound", HEADER.replace("fsID", "fsid"), 'has no column "fsID" but slice_file_name, fsid, start'),
        ("urbansound", HEADER, "has no clip of UrbanSound8K in its published layout."),
        ("urbansound", f"{HEADER}\na.wav,1,0,1,1,1,3,dog_bark", "layout. The first: There is no .*/audio/fold1/a.wav"),
        ("urbansound", f'{HEADER}\n"a.wav,1', r"is not a table in CSV \(unexpected end of data\)"),
        ("crema-d", "AudioMP3/", "has no folder AudioWAV: name the folder of CREMA-D"),
        ("crema-d", "AudioWAV/", "has no clip of CREMA-D in its published layout."),
        ("iemocap", "Sessions/", "has no Session1: name the folder of IEMOCAP"),
        ("iemocap", "Session1/", "There is no .*/Session1/dialog/EmoEvaluation, which has the labels of Session1"),
        ("iemocap", "Session1/dialog/EmoEvaluation/", "has no clip of IEMOCAP in its published layout."),
    ],
)
def test_a_folder_of_another_layout_is_refused_in_a_sentence(
    tmp_path: Path, corpus: str, there: str | None, says: str
) -> None:
    root = tmp_path / "corpus"
    if there is not None:
        root.mkdir()
        if there.endswith("/"):
            (root / there).mkdir(parents=True)
        else:
            (root / "metadata").mkdir()
            (root / "metadata" / "UrbanSound8K.csv").write_text(f"{there}\n")
    with pytest.raises(DataError, match=says) as refused:
        scan_folder(named(corpus, root))
    assert str(refused.value).count("\n") == 0


def test_a_corpus_of_which_no_clip_can_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    root = make_crema_d(tmp_path, actors=2)
    for path in (root / "AudioWAV").iterdir():
        path.write_bytes(b"RIFF....WAVE")
    with pytest.raises(DataError, match=r'^No clip of "angry" could be used \(40 files: .*: leave it out of --words'):
        load_folder(named("crema-d", root), "emotions")
