"""Every reader of files of sound gives the same answer: what one decodes all decode, what one refuses all refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError
from auricle.packs.pack import Pack, load_pack
from auricle.packs.shipped import DEFAULT_PACK
from auricle.speech.folder import load_folder
from auricle.speech.sound_faults import Finding
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_edge.commands.calibrate_commands import _samples
from auricle_edge.evaluate.sources import Folders, read_scene, read_sources
from auricle_edge.listening.capture.child_parts import Refusal
from auricle_edge.listening.capture.recordings import Recordings
from auricle_export.pretrain.corpus import Sources, read_part
from auricle_export.speech.import_speech import ImportSettings, import_speech
from auricle_learning.training.speech_data import load_clips
from tests.sounds import KINDS, Made, tone

if TYPE_CHECKING:
    from auricle_edge.listening.capture.child_parts import ChildOptions

PACK: Pack = load_pack(DEFAULT_PACK)
WORD = next(label for label in PACK.labels if not label.startswith("_"))


def _as_words(made: Made, folder: Path) -> Path:
    """A folder of one word that the file says, beside a good clip of another speaker."""
    words = folder / "words"
    (words / WORD).mkdir(parents=True)
    soundfile.write(words / WORD / "good_nohash_0.wav", tone(), 16_000)
    (words / WORD / f"other_nohash_0{made.path.suffix}").symlink_to(made.path)
    return words


def _by_fleet(made: Made, folder: Path) -> bool:
    words = _as_words(made, folder)
    (words / "zebra").mkdir()
    soundfile.write(words / "zebra" / "good_nohash_0.wav", tone(), 16_000)
    return len(load_folder(words, f"{WORD},zebra", min_word_clips=1)) == 3


def _by_device_data(made: Made, folder: Path) -> bool:
    data, _ = load_clips(_as_words(made, folder), PACK, held_out=0.0)
    return len(data.train) == 2


def _by_validation(made: Made, folder: Path) -> bool:
    return len(load_validation(_as_words(made, folder), PACK).skipped) == 0


def _by_evaluate(made: Made, folder: Path) -> bool:
    return len(read_sources(Folders(keywords=(_as_words(made, folder),)), [WORD], ()).keywords) == 2


def _by_evaluate_noise(made: Made, folder: Path) -> bool:
    return len(read_sources(Folders(noise=(_as_words(made, folder),)), [WORD], ()).noise) == 2


def _by_recording(made: Made, folder: Path) -> bool:
    (folder / "labels.txt").write_text(f"0.1\t0.2\t{WORD}\n")
    return len(read_scene(made.path, folder / "labels.txt", [WORD], []).samples) > 0


def _by_calibrate(made: Made, folder: Path) -> bool:
    return _samples(made.path, 0.0, []) is not None


def _by_pretrain(made: Made, folder: Path) -> bool:
    words, found = _as_words(made, folder), 0
    for part in ("train", "validation", "test"):
        try:
            found += len(read_part(Sources((words,)), [WORD], part).keywords)  # type: ignore[arg-type]
        except DataError:
            continue
    return found == 2


def _by_import(made: Made, folder: Path) -> bool:
    words = _as_words(made, folder)
    linked = words / WORD / f"other_nohash_0{made.path.suffix}"
    linked.unlink()
    if made.path.is_file():
        linked.hardlink_to(made.path.resolve())
    rows = [f"{WORD}/good_nohash_0.wav,{WORD},a", f"{WORD}/{linked.name},{WORD},b"]
    (folder / "list.csv").write_text("\n".join(["path,word,speaker", *rows]))
    return import_speech(ImportSettings(folder / "list.csv", folder / "out", audio=words)).written == 2


READERS: dict[str, Callable[[Made, Path], bool]] = {
    name.removeprefix("_by_"): read for name, read in list(globals().items()) if name.startswith("_by_")
}


@pytest.mark.parametrize("reader", sorted(READERS))
@pytest.mark.parametrize("kind", ["samples", "others", "open_headers", "cut"])
def test_every_reader_gives_the_same_answer(tmp_path: Path, kind: str, reader: str) -> None:
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    wrong = []
    for number, made in enumerate(KINDS[kind](sounds)):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            is_used = READERS[reader](made, folder)
        except DataError:
            is_used = False
        if is_used != (made.fault is None or made.fault.is_used):
            wrong.append(made.name)
    assert wrong == []


def _options(target: Path, kind: str) -> ChildOptions:
    return {
        "kind": kind,
        "target": str(target),
        "fast": True,
        "loop": False,
        "rate": None,
        "channels": None,
        "block": 0.1,
        "first": 0,
        "parent": 0,
    }


def _heard(source: Recordings) -> np.ndarray:
    pieces = []
    while (piece := source.read()) is not None:
        pieces.append(piece.data)
    return np.frombuffer(b"".join(pieces), "<i2")


@pytest.mark.parametrize("kind", ["open_headers", "cut", "samples", "others"])
def test_a_folder_as_source_goes_on_past_files_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    wrong = []
    for number, made in enumerate(KINDS[kind](sounds)):
        if made.fault is not None and made.fault.name in ("SILENT", "CHANNELS", "OPPOSITE", "NOT_FINITE"):
            continue  # heard as it is: what follows the source says what it thinks of it
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"a{made.path.suffix}").symlink_to(made.path)
        soundfile.write(folder / "b.wav", tone(), 16_000)
        findings: list[Finding] = []
        sound = _heard(Recordings(_options(folder, "folder"), findings.append))
        is_used = made.fault is None or made.fault.is_used
        if len(sound) != 11_200 * (1 + is_used) and not (made.name.startswith("cut") and len(sound) >= 11_200):
            wrong.append((made.name, len(sound)))
        if is_used and np.abs(sound[:11_200] - tone() * 32_768).max() > 2:
            wrong.append((made.name, "samples"))
        if [finding.reason for finding in findings] != ([] if made.fault is None else [made.fault.value]):
            wrong.append((made.name, str(findings)))
    assert wrong == []


def test_a_source_of_which_nothing_can_be_used_is_one_sentence(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.wav").write_text("text")
    with pytest.raises(Refusal, match=r"all 3: not a format that is read\. The first: .*0\.wav is text"):
        Recordings(_options(tmp_path, "folder"), print)
    with pytest.raises(Refusal, match=r"0\.wav is text, and not sound"):
        Recordings(_options(tmp_path / "0.wav", "file"), print)


@pytest.mark.parametrize("first", [0, 5_000, 11_200, 22_399])
def test_a_source_goes_on_where_an_earlier_child_ended(tmp_path: Path, first: int) -> None:
    for name, rise in (("a.wav", 0), ("b.flac", 11_200)):
        soundfile.write(tmp_path / name, np.arange(rise, rise + 11_200, dtype=np.int16), 16_000)
    options = _options(tmp_path, "folder")
    options["first"] = first
    assert _heard(Recordings(options, print)).tolist() == list(range(first, 22_400))
    options["loop"], options["first"] = True, 22_400 * 1_000_000 + first
    piece = Recordings(options, print).read()
    assert piece is not None
    assert np.frombuffer(piece.data, "<i2")[0] == first
