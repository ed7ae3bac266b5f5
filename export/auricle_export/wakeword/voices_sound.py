"""What synthetic voices say for an own wake word: the phrase, what it is mistaken for, other words, everyday speech.

Voices are split by their vocal tract: one that validates or judges has no other accent of it in the training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.hearing.sounds import Take
from auricle.hearing.splits import PARTS, Part, part_of
from auricle.speech.confusables import COMMON_WORDS, holds_any, sound_distance
from auricle.speech.espeak import phonemes_of
from auricle.speech.everyday_speech import code_of_language, everyday_sentences
from auricle.speech.near_words import near_words
from auricle.speech.other_speech import FOREIGN, OtherTake, speak_texts
from auricle.speech.synthesis import background_noise
from auricle.speech.voices import ENGLISH_CODE, Voice, accents_of, choose_voices, most_voices

Progress = Callable[[str, int, int], None]
Sound = NDArray[np.float32]

VOICES = 200
"""Synthetic speakers, or all that the language has."""
TAKES = 4
"""Of each phrase by each voice; judged are as many."""
ALIKE = 90
"""Texts that sound like a phrase, for each phrase, before the nearest are left out."""
LEAST_DISTANCE = 0.3
"""Share of the phonemes in which such a text differs from the phrase. People say a phrase in more ways than voices do:
what is nearer is, as they say it, no other word."""
ALIKE_TAKES, WORD_TAKES, FOREIGN_TAKES = 16, 4, 4
"""Of each text by voices of all parts together, each part its share, one at least."""
FOREIGN_VOICES = 8
ENGLISH_ACCENT = "en-us"
SENTENCES = 700
"""Of everyday speech, one take of each."""
MARGIN_SAMPLES = 1_600
"""Samples of silence around a take."""


@dataclass(frozen=True)
class SourceVoices:
    """A source of voices in a part."""

    name: str
    about: str
    """What it is, in a clause."""
    licence: str
    voices: int
    """Its speakers or styles in this part."""
    takes: int
    """Of the phrases."""


@dataclass(frozen=True, eq=False)
class SpokenPart:
    """What the voices of one part say; of each take the text is its word."""

    phrases: tuple[Take, ...]
    """With the words of commands."""
    alike: tuple[Take, ...]
    words: tuple[Take, ...]
    foreign: tuple[Take, ...]
    sentences: tuple[Take, ...]
    noise: tuple[Sound, ...]
    voices: int
    """Of espeak-ng."""
    natural: tuple[Take, ...] = ()
    """The phrases, as other sources than espeak-ng say them."""
    sources: tuple[SourceVoices, ...] = ()
    """Those sources."""


@dataclass(frozen=True, eq=False)
class Texts:
    """What is said by all parts."""

    phrases: tuple[str, ...]
    """With the words of commands."""
    near: Mapping[str, tuple[str, ...]]
    """By phrase, what it is mistaken for."""
    words: tuple[str, ...]
    sentences: tuple[str, ...]
    accent: str | None
    """In which the sentences are said, where the language has none: English ones."""
    foreign: Mapping[str, tuple[str, ...]]
    """By espeak-ng's language, everyday phrases of others than the voices' own."""


def texts_for(phrases: Sequence[str], commands: Sequence[str], language: str, seed: int) -> Texts:
    """What voices are asked to say; the errors are those of `speak_parts`."""
    known, code = (*phrases, *commands), code_of_language(language)
    near = near_words(list(phrases), language, ALIKE, seed)
    clean = {
        phrase: tuple(text for text in _far_enough(phrase, texts, language) if not holds_any(text, known))
        for phrase, texts in near.items()
    }
    words = COMMON_WORDS if code == ENGLISH_CODE else ()
    return Texts(
        phrases=known,
        near=clean,
        words=tuple(word for word in words if not holds_any(word, known)),
        sentences=tuple(everyday_sentences(code or ENGLISH_CODE, SENTENCES, seed, without=known)),
        accent=None if code else ENGLISH_ACCENT,
        foreign={
            speech.voice: tuple(text for text in speech.texts if not holds_any(text, known))
            for speech in FOREIGN.values()
            if speech.voice != code
        },
    )


def _far_enough(phrase: str, texts: Sequence[str], language: str) -> list[str]:
    """The texts that differ from the phrase by `LEAST_DISTANCE` of their phonemes at least."""
    own, *others = phonemes_of(accents_of(language)[0], [phrase, *texts])
    pairs = zip(texts, others, strict=True)
    return [
        text for text, sounds in pairs if sound_distance(own, sounds) >= LEAST_DISTANCE * max(len(own), len(sounds))
    ]


def speak_parts(
    texts: Texts, language: str, seed: int, progress: Progress = lambda *_: None, voices: int = VOICES
) -> dict[Part, SpokenPart]:
    """All that voices say, by part.

    Parameters
    ----------
    texts
        What.
    language
        Of the voices, as espeak-ng names it.
    seed
        Decides who says what and how.
    progress
        Told what is being said, how much of it is done, of how much.
    voices
        How many at most.

    Raises
    ------
    SettingsError
        There are no voices of this language.
    DataError
        espeak-ng is not installed, or fails.
    """
    chosen = voices_for(voices, seed, language)
    groups = {part: tuple(voice for voice in chosen if part_of(voice.variant) == part) for part in PARTS}
    return {part: _Speaking(part, group, len(chosen), seed, progress).all_of(texts) for part, group in groups.items()}


def voices_for(count: int, seed: int, language: str) -> list[Voice]:
    """At most so many voices, of which some train, some validate and some judge.

    Raises
    ------
    SettingsError
        They are too few for that, and the sentence says how many it takes.
    """
    most = most_voices(language)
    every = choose_voices(most, seed, language)
    firsts = {part_of(voice.variant): place for place, voice in reversed([*enumerate(every, 1)])}
    if len(firsts) < len(PARTS):
        raise SettingsError(f'The {most} voices of the language "{language}" are too few to train, validate and judge.')
    least = max(firsts.values())
    if count < least:
        raise SettingsError(
            f"--speakers {count} leaves no voice to train, validate or judge: give --speakers {least} or more."
        )
    return every[:count]


@dataclass(frozen=True)
class _Speaking:
    """The voices of one part at work."""

    part: Part
    voices: tuple[Voice, ...]
    every: int
    """Voices of all parts."""
    seed: int
    progress: Progress

    def all_of(self, texts: Texts) -> SpokenPart:
        alike = [text for near in texts.near.values() for text in near]
        foreign = [
            take
            for turn, (accent, said) in enumerate(texts.foreign.items())
            for take in self._say(f"other languages ({accent})", said, self._share(FOREIGN_TAKES), accent, turn)
        ]
        return SpokenPart(
            phrases=self._say("the phrase", texts.phrases, TAKES * len(self.voices)),
            alike=self._say("what sounds like it", alike, self._share(ALIKE_TAKES)),
            words=self._say("other words", texts.words, self._share(WORD_TAKES)),
            foreign=tuple(foreign),
            sentences=self._say(
                "everyday speech", [text for text in texts.sentences if part_of(text) == self.part], 1, texts.accent
            ),
            noise=background_noise(np.random.default_rng([self.seed, 20 + PARTS.index(self.part)])),
            voices=len(self.voices),
        )

    def _share(self, takes: int) -> int:
        return max(1, round(takes * len(self.voices) / self.every))

    def _say(
        self, what: str, texts: Sequence[str], takes: int, accent: str | None = None, turn: int = 0
    ) -> tuple[Take, ...]:
        if not texts or not self.voices:
            return ()
        voices = list(self.voices)
        if accent is not None:  # a few voices for each language, others for the next one
            few = voices[turn % len(voices) :: len(FOREIGN)][:FOREIGN_VOICES]
            voices = [replace(voice, accent=accent) for voice in few]
        name = f"{what}, {self.part} voices"
        said = speak_texts(texts, voices, takes, self.seed, lambda done, total: self.progress(name, done, total))
        return tuple(_take(one) for one in said)


def _take(one: OtherTake) -> Take:
    samples = one.audio.astype(np.float32) / np.float32(32_768)
    return Take(one.text, one.voice, np.pad(samples, MARGIN_SAMPLES))
