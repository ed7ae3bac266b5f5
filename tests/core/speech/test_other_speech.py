"""Speech without a keyword: complete, the same for a seed, levelled."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle.speech.confusables import ALIKE
from auricle.speech.near_words import near_words
from auricle.speech.other_speech import FOREIGN, OtherTake, language_of, speak_texts, synthesise_others
from auricle.speech.voices import choose_voices

pytest.importorskip("espeakng_loader", reason="the wheel espeakng-loader is not installed")


@pytest.fixture(scope="module")
def others() -> list[OtherTake]:
    return synthesise_others(["stop", "go"], voices=3, takes=2, seed=5, languages=("polish", "mandarin"))


def test_every_text_is_said_as_often_as_asked_by_different_voices(others: list[OtherTake]) -> None:
    texts = [*ALIKE["stop"], *ALIKE["go"], *FOREIGN["polish"].texts, *FOREIGN["mandarin"].texts]
    assert [take.text for take in others] == [text for text in texts for _ in range(2)]
    english = [take for take in others if take.language == "english"]
    assert all(first.voice != second.voice for first, second in zip(english[::2], english[1::2], strict=True))
    assert len({take.voice for take in english}) == 3
    assert {take.language for take in others} == {"english", "polish", "mandarin"}


def test_takes_are_levelled_and_as_long_as_speech_is(others: list[OtherTake]) -> None:
    for take in others:
        sound = take.audio.astype(np.float64) / 32_768
        level = 20 * np.log10(np.sqrt(np.mean(sound**2)))
        assert level == pytest.approx(-23, abs=0.05) or np.abs(sound).max() == pytest.approx(0.98, abs=1e-4)
        assert 0.08 < len(take.audio) / 16_000 < 4, take.text
        assert np.abs(sound[0]) + np.abs(sound[-1]) > 0
        assert not take.audio.flags.writeable


def test_the_same_seed_gives_the_same_samples_and_another_does_not(others: list[OtherTake]) -> None:
    again = synthesise_others(["stop", "go"], voices=3, takes=2, seed=5, languages=("polish", "mandarin"))
    other = synthesise_others(["stop", "go"], voices=3, takes=2, seed=6, languages=())
    assert all(np.array_equal(one.audio, two.audio) for one, two in zip(others, again, strict=True))
    assert len(other) == 2 * (len(ALIKE["stop"]) + len(ALIKE["go"]))
    assert not any(np.array_equal(one.audio, two.audio) for one, two in zip(others, other, strict=False))


def test_every_language_can_be_spoken_and_progress_ends_with_everything() -> None:
    calls: list[tuple[int, int]] = []
    said = synthesise_others(["yes"], voices=2, takes=1, progress=lambda *step: calls.append(step))
    assert {take.language for take in said} == {"english", *FOREIGN}
    assert calls[-1] == (len(said), len(said)) and calls == sorted(calls)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"voices": 0}, "voices is 0"),
        ({"takes": 0}, "takes is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"languages": ("germann",)}, 'did you mean "german"'),
        ({"voices": 100_000}, "100000"),
    ],
)
def test_what_cannot_be_said_is_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        synthesise_others(["yes"], **options)  # type: ignore[arg-type]


def test_the_takes_of_before_keep_their_places_and_voices(others: list[OtherTake]) -> None:
    said = [(take.text, take.language, take.voice) for take in others]
    digest = sha256(repr(said).encode()).hexdigest()
    assert digest == "a14153a3dc84e37d7fc80a4f3485527e204004afb8704423f9b0259c04bb45eb"


def test_texts_that_are_given_stand_in_the_place_of_confusables() -> None:
    alike = {"hey robot": ("hey rob", "robot", "stop robot")}
    said = synthesise_others(["stop", "hey robot"], voices=2, takes=1, languages=(), alike=alike)
    assert [take.text for take in said] == [*ALIKE["stop"], "hey rob", "robot"]
    assert {take.language for take in said} == {"english"}


def test_what_is_near_a_phrase_of_another_language_is_said_by_its_voices() -> None:
    given = synthesise_others(
        ["hallo garten"],
        voices=4,
        takes=2,
        languages=("polish",),
        alike={"hallo garten": ("hallo", "gart")},
        language="de",
    )
    assert [take.text for take in given[:4]] == ["hallo", "hallo", "gart", "gart"]
    assert [take.language for take in given] == ["german"] * 4 + ["polish"] * 2 * len(FOREIGN["polish"].texts)
    assert {take.voice.split("-")[0] for take in given[:4]} == {"de"}
    assert {take.voice.split("-")[0] for take in given[4:]} == {"pl"}
    found = synthesise_others(["hallo garten"], voices=4, takes=1, languages=(), language="de", seed=3)
    assert [take.text for take in found] == list(near_words(["hallo garten"], "de", seed=3)["hallo garten"])


def test_any_texts_are_said_in_their_order_by_different_voices() -> None:
    calls: list[tuple[int, int]] = []
    voices = choose_voices(3, 0, "fr")
    said = speak_texts(["bonjour maison", "merci"], voices, 3, 1, lambda *step: calls.append(step))
    assert [take.text for take in said] == ["bonjour maison"] * 3 + ["merci"] * 3
    assert {take.voice for take in said[:3]} == {take.voice for take in said[3:]} == {voice.name for voice in voices}
    assert {take.language for take in said} == {"french"}
    assert calls[-1] == (6, 6)
    again = speak_texts(["bonjour maison", "merci"], voices, 3, 1)
    assert all(np.array_equal(one.audio, two.audio) for one, two in zip(said, again, strict=True))
    assert speak_texts([], voices) == []


def test_a_voice_tells_its_language() -> None:
    of_accents = {accent: language_of(choose_voices(1, 0, accent)[0]) for accent in ("en-us", "pt-br", "es-419", "cmn")}
    assert of_accents == {"en-us": "english", "pt-br": "pt", "es-419": "spanish", "cmn": "mandarin"}


@pytest.mark.parametrize(
    ("voices", "takes", "seed", "sentence"), [(0, 1, 0, "no voice"), (1, 0, 0, "takes is 0"), (1, 1, -1, "seed is -1")]
)
def test_texts_without_a_voice_or_take_are_refused(voices: int, takes: int, seed: int, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        speak_texts(["yes"], choose_voices(voices, 0), takes, seed)
