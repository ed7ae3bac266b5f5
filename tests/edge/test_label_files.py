"""Label files of recordings: numbers that are seconds of the recording, words in one form, any number of lines."""

from __future__ import annotations

import random
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
import soundfile

from auricle.errors import DataError
from auricle.hearing.curve import curve_of
from auricle.hearing.rule import Rule
from auricle_edge.evaluate.sources import LATE_SECONDS, LONGEST_SECONDS, LONGEST_WORD, read_labels, read_scene

SECONDS = 20


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "room.wav"
    soundfile.write(path, np.random.default_rng(1).normal(0, 500, SECONDS * 16_000).astype(np.int16), 16_000)
    return path


def _labels(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    (folder / "room.txt").write_bytes(text.encode(encoding))
    return folder / "room.txt"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_labels_are_the_same_however_they_were_saved(tmp_path: Path, encoding: str, end: str, form: str) -> None:
    text = normalize(form, "1,5\t2.25\tFür\n\\\t100\t2000\n0\t0\tnote\n\n")
    path = _labels(tmp_path, text.replace("\n", end), encoding)
    assert read_labels(path) == [(0, 0, "note"), (1.5, 2.25, "Für")]


@pytest.mark.parametrize(
    "line",
    [
        *(f"{start}\t{end}\tyes" for start, end in (("nan", "1"), ("1", "nan"), ("0", "inf"), ("-1", "1"), ("2", "1"))),
        *(f"0\t{end}\tyes" for end in ("1e308", "1e400", "1e5", str(LONGEST_SECONDS + 1), "9" * 400)),
        "1e308\t1e308\tyes", "0\t1\t", "0\t1\t \t", "0\t1", "0 1 yes", "0\t1\0\tyes", "yes",
        "-inf\tinf\tnote",
    ],
)  # fmt: skip
def test_a_line_that_is_no_label_is_named(tmp_path: Path, line: str) -> None:
    path = _labels(tmp_path, f"0\t1\tno\n{line}\n")
    with pytest.raises(DataError, match=r"line 2|zero bytes") as refused:
        read_labels(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("word", ["yes", "a note"])
def test_a_label_lies_in_its_recording(tmp_path: Path, sound: Path, word: str) -> None:
    good = _labels(tmp_path, f"{SECONDS - 0.5}\t{SECONDS + LATE_SECONDS}\t{word}\n")
    assert len(read_scene(sound, good, ["yes"]).words) == (word == "yes")
    for start, end in (
        (SECONDS, SECONDS),
        (SECONDS - 1, SECONDS + LATE_SECONDS + 0.01),
        (LONGEST_SECONDS - 1, LONGEST_SECONDS),
    ):
        with pytest.raises(DataError, match="after the end of"):
            read_scene(sound, _labels(tmp_path, f"{start}\t{end}\t{word}\n"), ["yes"])


def test_a_keyword_is_no_longer_than_one_is(tmp_path: Path, sound: Path) -> None:
    read_scene(sound, _labels(tmp_path, f"0\t{LONGEST_WORD}\tyes\n0\t{SECONDS}\ta note\n"), ["yes"])
    with pytest.raises(DataError, match=r'"yes" for 10.5 seconds from 1 on'):
        read_scene(sound, _labels(tmp_path, f"1\t{LONGEST_WORD + 1.5}\tyes\n"), ["yes"])


def test_seventy_thousand_labels_are_matched_as_few_are(tmp_path: Path, sound: Path) -> None:
    draw = random.Random(1)
    starts = sorted(draw.uniform(0, SECONDS - 1) for _ in range(70_000))
    labels = _labels(tmp_path, "".join(f"{start:.6f}\t{start + 0.5:.6f}\tyes\n" for start in starts))
    scene = read_scene(sound, labels, ["yes"])
    posteriors = np.random.default_rng(1).dirichlet([0.3] * 3, SECONDS * 10).astype(np.float32)
    counts = curve_of([posteriors], [scene], ("yes", "no", "_unknown_"), Rule())
    few = _labels(tmp_path, f"{starts[0]:.6f}\t{starts[0] + 0.5:.6f}\tyes\n")
    one = curve_of([posteriors], [read_scene(sound, few, ["yes"])], ("yes", "no", "_unknown_"), Rule())
    assert counts.hit.shape == (len(counts.thresholds), 70_000)
    np.testing.assert_array_equal(counts.hit[:, 0], one.hit[:, 0])


PIECES = (*"01\t\ne,.-\\\r ½", "yes", "308", "nan", "\x1c", "\u2028", "\ufeff")
"""What texts are drawn of."""


@pytest.mark.parametrize("seed", range(60))
def test_any_text_is_read_or_refused(tmp_path: Path, sound: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = _labels(tmp_path, "".join(draw.choice(PIECES) for _ in range(draw.randint(1, 40))), "utf-8")
    try:
        scene = read_scene(sound, path, ["yes", "no"])
    except DataError as error:
        assert "\n" not in str(error)
    else:
        assert all(0 <= word.start <= word.end <= (SECONDS + LATE_SECONDS) * 16_000 for word in scene.words)
