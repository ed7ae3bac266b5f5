"""What packs heard of people: which rows a page shows, and which takes judge a pack that others trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from bench.own_wake_word import split_takes
from msgspec import structs

from auricle.errors import DataError
from auricle_export.wakeword.page import wake_page
from auricle_export.wakeword.people import PeopleHearing, like, networks_of, people_record
from auricle_export.wakeword.report import Judges
from auricle_export.wakeword.voices_sound import SourceVoices

from .test_vote_network import HEAD, JOINED, PLAIN
from .test_wake_page import REPORT, Document

KOKORO = PeopleHearing(
    phrase="computer", trained_on=0, voices=("kokoro",), takes=329, heard=0.56, hours=6.74, false_accepts=2
)
OVER = structs.replace(KOKORO, frontend="toy")
VOTE = structs.replace(KOKORO, vote="toy")
PIPER = structs.replace(KOKORO, voices=("piper", "kokoro"))


@pytest.mark.parametrize(
    ("voices", "frontend", "vote", "due"),
    [
        (("kokoro",), "", "", [KOKORO]),
        (("kokoro",), "toy", "", [OVER]),
        (("kokoro",), "", "toy", [VOTE]),
        (("kokoro", "piper"), "", "", [PIPER]),
        ((), "", "", [OVER, KOKORO, VOTE, PIPER]),
    ],
)
def test_rows_of_packs_that_were_made_so_are_shown_else_all(
    voices: tuple[str, ...], frontend: str, vote: str, due: list[PeopleHearing]
) -> None:
    assert list(like([OVER, KOKORO, VOTE, PIPER], voices, frontend, vote)) == due


def test_a_pack_names_the_networks_that_it_hears_through() -> None:
    assert networks_of(PLAIN.manifest) == ("", "")
    assert networks_of(HEAD.manifest) == ("toy", "")
    assert networks_of(JOINED.manifest) == ("", "toy")


def test_a_sentence_says_what_a_pack_hears_through() -> None:
    assert 'espeak-ng, a pack over the network toy for "computer"' in OVER.sentence
    assert 'a pack with a vote of the network toy for "computer"' in VOTE.sentence
    assert "56 % (50 to 61 %) of 329 takes by people" in KOKORO.sentence


def test_a_page_of_a_pack_of_kokoros_voices_with_a_vote_shows_what_such_packs_heard() -> None:
    natural = SourceVoices("kokoro", "natural voices", "Apache-2.0", 40, 160)
    espeak = SourceVoices("espeak-ng", "formant voices", "GPL-3.0", 97, 4_051)
    training = replace(REPORT.training, people=0, recordings=0, sources=(natural, espeak))
    report = replace(REPORT, judges=Judges(voices=29), training=training, vote="embedding")
    alike = tuple(row for row in people_record() if row.voices == ("kokoro",) and row.vote == "embedding")
    text = Document(wake_page(report)).text

    assert alike and report.people == alike and all(row.sentence in text for row in alike)
    assert not any(row.sentence in text for row in people_record() if row not in alike)
    assert "29 synthetic voices that were not trained on said it" in text and "29 people" not in text
    assert "in no recording of people" in text
    assert replace(report, frontend="toy").people == people_record()


def test_ten_recordings_train_and_each_other_one_judges(tmp_path: Path) -> None:
    root = tmp_path / "takes"
    (root / "hey robot").mkdir(parents=True)
    rows = ["path,recording"]
    for number in range(30):
        name = f"hey robot/{number:08x}_nohash_0.wav"
        soundfile.write(root / name, np.zeros(16_000), 16_000)
        rows.append(f"takes/{name},{number // 2}")
    (root / "twins.csv").write_text("\n".join(rows) + "\n")
    split_takes(root, "hey robot", tmp_path / "out")
    places = [tmp_path / "out" / part / "hey robot" for part in ("ten", "others")]
    ten, others = ({path.resolve().name for path in place.iterdir()} for place in places)

    assert (len(ten), len(others)) == (10, 5)
    assert len({int(name[:8], 16) // 2 for name in ten | others}) == 15
    with pytest.raises(DataError, match="is there already: name another folder with --split"):
        split_takes(root, "hey robot", tmp_path / "out")
    with pytest.raises(DataError, match='has 0 recordings of "jarvis": name a folder with more than ten'):
        split_takes(root, "jarvis", tmp_path / "out")
