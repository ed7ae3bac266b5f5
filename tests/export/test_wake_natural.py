"""Other voices than espeak-ng's in an own wake word: who judges, what is said, and what the report says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from auricle.hearing.splits import PARTS
from auricle.speech.other_words import ELSEWHERE
from auricle_export.voices.interface import as_take
from auricle_export.voices.recordings import Recordings
from auricle_export.voices.speakers import JUDGES, parts_of
from auricle_export.wakeword import natural
from auricle_export.wakeword.natural import add_natural
from auricle_export.wakeword.task import WakeTask
from auricle_export.wakeword.voices_sound import SpokenPart, Texts

TEXTS = Texts(
    phrases=("hey robot", "stop"),
    near={"hey robot": tuple(f"hey rabbit {number}" for number in range(40))},
    words=tuple(f"word {number}" for number in range(20)),
    sentences=tuple(f"sentence {number}" for number in range(60)),
    accent=None,
    foreign={},
)
EMPTY = SpokenPart((), (), (), (), (), (), 7)


class Told:
    """Notes what it was asked to say, and by whom."""

    name, about, licence, version, attribution = "told", "a tone", "CC0-1.0", "", ()

    def __init__(self, speakers: int = 27) -> None:
        self.names = tuple(f"v{number}" for number in range(speakers))
        self.asked: list[tuple[str, str, int, tuple[str, ...]]] = []

    def languages(self) -> tuple[str, ...]:
        return ("en", "ja", "cmn", "xx")

    def speakers(self, language: str) -> tuple[str, ...]:
        return self.names if language == "en" else self.names[::-1]

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> np.ndarray:
        self.asked.append((text, language, seed, tuple(speakers)))
        return as_take(np.sin(np.arange(6_000) / (3 + (seed % 977) / 100)), 16_000, text)


def _task(source: Told, language: str) -> WakeTask:
    return WakeTask(("hey robot",), Path("state"), sources=(source,), language=language)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(natural, "PHRASES", {"train": 12, "validation": 3, "test": 3})
    monkeypatch.setattr(natural, "NEAR", 4)


@pytest.mark.parametrize(("count", "judges"), [(0, 0), (8, 0), (9, 1), (54, 6), (60, 6)])
def test_every_ninth_speaker_judges_and_another_ninth_validates(count: int, judges: int) -> None:
    names = [f"v{number}" for number in range(count)]
    groups = parts_of(names)
    assert len(groups["test"]) == judges
    assert sorted(name for part in PARTS for name in groups[part]) == sorted(names)


@pytest.mark.usefixtures("few")
def test_who_judges_says_nothing_that_is_trained_on_in_any_language() -> None:
    source = Told()
    done = add_natural(dict.fromkeys(PARTS, EMPTY), _task(source, "en-us"), TEXTS)
    groups = parts_of(source.names)
    for text, language, _, who in source.asked:
        parts = {part for part in PARTS if set(who) & set(groups[part])}
        assert len(parts) == 1, (text, language)
        assert text == "hey robot" or parts == {"train"}
    assert [len(done[part].natural) for part in PARTS] == [12, 3, 3]
    assert len({seed for _, _, seed, _ in source.asked}) == len(source.asked)
    train = done["train"]
    assert [len(train.alike), len(train.sentences)] == [4, natural.LISTS + natural.SENTENCES]
    assert {take.word for take in train.foreign} <= {*ELSEWHERE["ja"], *ELSEWHERE["cmn"]}
    assert len(train.foreign) == 2 * natural.LANGUAGE_TAKES
    assert [(each.name, each.voices, each.takes) for each in train.sources] == [("told", 21, 12)]


@pytest.mark.usefixtures("few")
def test_a_source_of_few_speakers_trains_alone() -> None:
    done = add_natural(dict.fromkeys(PARTS, EMPTY), _task(Told(4), "en"), TEXTS)
    assert [len(done[part].natural) for part in PARTS] == [12, 0, 0]
    assert done["test"].sources == ()


@pytest.mark.usefixtures("few")
def test_a_language_whose_only_speaker_judges_is_not_spoken() -> None:
    class Lonely(Told):
        def speakers(self, language: str) -> tuple[str, ...]:
            return self.names if language == "en" else (self.names[JUDGES],)

    source = Lonely()
    done = add_natural(dict.fromkeys(PARTS, EMPTY), _task(source, "en"), TEXTS)
    assert done["train"].foreign == ()
    assert {language for _, language, _, _ in source.asked} == {"en"}


def test_each_take_of_a_folder_is_heard_once_in_the_part_of_its_speaker(tmp_path: Path) -> None:
    for number in range(12):
        words = ("hey robot", "kitchen") if number != JUDGES else ("hey robot", "only here")
        for word in words:
            path = tmp_path / word / f"v{number:02}_nohash_0.wav"
            path.parent.mkdir(exist_ok=True)
            sound = np.sin(np.arange(4_000) / (3 + number / 9 + len(word)))
            soundfile.write(path, sound, 16_000)
    source = Recordings(tmp_path, ("hey robot",))
    task = WakeTask(("hey robot",), Path("state"), sources=(source,))
    done = add_natural(dict.fromkeys(PARTS, EMPTY), task, TEXTS)
    assert [len(done[part].natural) for part in PARTS] == [10, 1, 1]
    assert sorted(take.word for take in done["train"].words) == ["kitchen"] * 10
