"""Speech without a keyword: complete, the same for a seed, levelled."""

from __future__ import annotations

import numpy as np
import pytest

from auricle.errors import SettingsError
from auricle.speech.confusables import ALIKE
from auricle.speech.other_speech import FOREIGN, OtherTake, synthesise_others

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
