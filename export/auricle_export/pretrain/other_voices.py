"""What no keyword is, as other voices than espeak-ng's say it: other languages, and near misses of the words.

espeak-ng says such texts in every training; a model learns from it how formant voices sound, and takes what natural
voices say for keywords all the same. Speakers and texts are divided into parts: who validates, and what is said there,
is not trained on, and those of the test part are left for a measurement (`bench/unheard_voices.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from auricle.errors import DataError, SettingsError, nearest
from auricle.hearing.sounds import Take
from auricle.hearing.splits import Part, part_of
from auricle.speech.confusables import holds_any
from auricle.speech.near_words import DEFAULT_COUNT, near_words
from auricle.speech.other_words import OTHER_WORDS
from auricle_export.pretrain.espeak_sounds import padded
from auricle_export.voices.interface import VoiceSource, refuse_language
from auricle_export.voices.recordings import Recordings
from auricle_export.voices.sources import code_of, speaks, voice_source
from auricle_export.voices.speakers import parts_of
from auricle_export.voices.takes import TakeOrder, speak_all

Progress = Callable[[str, int, int], None]
Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Language = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]

VALIDATION_SHARE = 5
"""For so many takes that are trained on one is heard in validation streams."""
HEARD: tuple[Part, ...] = ("train", "validation")
"""Parts that it is heard in: people alone judge."""
LEAST_TEXTS = 10
"""Near misses of each word, at least; of few takes the first are said."""
_SEEDS = 1_000_000
"""Seeds of takes for each part of a training."""


class Spoken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table `[spoken]` of a recipe."""

    voice: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
    """One of `auricle export voices list`, or a folder of takes."""
    foreign: Count = 0
    """Takes of everyday words and phrases of other languages."""
    near: Count = 0
    """Takes of near misses of the pack's words."""
    leave_out: tuple[Language, ...] = ()
    """Languages that are not spoken."""
    language: Language = "en"
    """Of the pack's words."""


@dataclass(frozen=True, eq=False)
class Negatives:
    """What other voices say in one part."""

    foreign: tuple[Take, ...] = ()
    near: tuple[Take, ...] = ()


@dataclass(frozen=True)
class _Line:
    """A take that is to be made."""

    order: TakeOrder
    near: bool


def open_voice(spoken: Spoken) -> VoiceSource:
    """The voice of `[spoken]`.

    Raises
    ------
    SettingsError
        There is none of that name, nothing is asked of it, or it does not speak what is asked.
    DataError
        It is not here; the sentence says what it needs.
    """
    if not spoken.foreign and not spoken.near:
        raise SettingsError("The recipe's [spoken] has nothing said: set foreign, near or both, or leave it out.")
    for name in spoken.leave_out:
        if code_of(name) not in OTHER_WORDS:
            raise SettingsError(
                f'The recipe\'s leave_out in [spoken] names "{name}", of which there are no texts: '
                f"{nearest(name, OTHER_WORDS)}"
            )
    source = voice_source(spoken.voice)
    if (reason := source.missing()) is not None:
        raise DataError(reason)
    if isinstance(source, Recordings):
        if spoken.leave_out:
            raise SettingsError(
                f"The folder {source.folder} does not say which languages it holds: leave leave_out out of [spoken]."
            )
        return source
    if spoken.near and source.languages():
        refuse_language(source, code_of(spoken.language))
    if spoken.foreign and not _languages(source, spoken):
        raise SettingsError(
            f"{source.name} speaks none of the other languages that there are texts of "
            f"({', '.join(_wanted_languages(spoken)) or 'all are left out'}): set foreign in [spoken] to 0."
        )
    return source


def speak_negatives(
    source: VoiceSource, spoken: Spoken, words: Sequence[str], seed: int, progress: Progress = lambda *_: None
) -> dict[Part, Negatives]:
    """Have a voice say what `[spoken]` asks for, for the parts `train` and `validation`.

    Parameters
    ----------
    source
        As `open_voice` gives it.
    words
        The pack's, without `_unknown_` and `_silence_`: no text holds one.
    seed
        Decides who says what.
    progress
        Told how many takes are there; what it raises ends the speaking, and what was said is kept.

    Returns
    -------
    dict[Part, Negatives]
        Takes (samples,) at 16 kHz with silence around. The validation part has no text and no speaker of the training
        part, and a fifth of its takes; none of a source of fewer than nine speakers.

    Raises
    ------
    AuricleError
        The voice cannot say something.
    """
    own = code_of(spoken.language)
    # Whoever speaks the pack's own language first: they are divided as for an own wake word.
    everyone = [own] if speaks(source, own) else []
    everyone += _languages(source, spoken)
    groups = parts_of(list(dict.fromkeys(name for code in everyone for name in source.speakers(code))))
    near = near_texts(words, spoken) if spoken.near else []
    done: dict[Part, Negatives] = {}
    for place, part in enumerate(HEARD):
        share = 1 if part == "train" else VALIDATION_SHARE
        asked = msgspec.structs.replace(spoken, foreign=-(-spoken.foreign // share), near=-(-spoken.near // share))
        job = _Job(source, asked, tuple(words), part, groups[part], (2 * seed + place) * _SEEDS)
        lines = job.lines(near, np.random.default_rng([seed, 51, place])) if groups[part] or part == "train" else []
        done[part] = _speak(source, lines, f"{source.name} speaks, {part} part", progress)
    for name in ("foreign", "near"):
        if getattr(spoken, name) and not getattr(done["train"], name):
            raise DataError(f"{source.name} has nothing to say for {name} in the recipe's [spoken]: set it to 0.")
    return done


def near_texts(words: Sequence[str], spoken: Spoken) -> list[str]:
    """Near misses of words, those of each word in turn; the more, the more takes are asked for."""
    count = min(max(LEAST_TEXTS, -(-spoken.near // max(1, len(words)))), DEFAULT_COUNT)
    by_word = list(near_words(words, spoken.language, count).values())
    longest = max(map(len, by_word), default=0)
    in_turn = [texts[turn] for turn in range(longest) for texts in by_word if turn < len(texts)]
    return list(dict.fromkeys(in_turn))


def _wanted_languages(spoken: Spoken) -> list[str]:
    gone = {code_of(spoken.language), *map(code_of, spoken.leave_out)}
    return [code for code in OTHER_WORDS if code not in gone]


def _languages(source: VoiceSource, spoken: Spoken) -> list[str]:
    """The other languages that are spoken; none where nothing is asked of them, and of a folder, which says none."""
    if not spoken.foreign or isinstance(source, Recordings):
        return []
    return [code for code in _wanted_languages(spoken) if speaks(source, code)]


@dataclass(frozen=True)
class _Job:
    """What a part says."""

    source: VoiceSource
    spoken: Spoken
    """Counts are those of the part."""
    words: tuple[str, ...]
    part: Part
    speakers: tuple[str, ...]
    """Of the part, whatever they speak."""
    first: int
    """Seed of the first take."""

    def lines(self, near: Sequence[str], rng: np.random.Generator) -> list[_Line]:
        """The takes that are to be made; `near` are near misses of all parts."""
        mine = [text for text in near if part_of(text) == self.part]
        if isinstance(self.source, Recordings):
            return self._choose_takes(self.source, frozenset(mine), rng)
        return [*self._foreign(rng), *self._near(mine)]

    def _who(self, language: str) -> tuple[str, ...] | None:
        """Who of the part speaks a language; None: nobody. Nobody is named where the source names nobody."""
        speakers = self.source.speakers(language)
        mine = tuple(name for name in speakers if name in self.speakers)
        return mine if mine or not speakers else None

    def _foreign(self, rng: np.random.Generator) -> Iterator[_Line]:
        """Texts of each language in turn, each language's own in a random order, again where there are too few."""
        texts: list[tuple[str, list[str], tuple[str, ...]]] = []
        for code in _languages(self.source, self.spoken):
            known = [text for text in OTHER_WORDS[code] if part_of(text) == self.part]
            known = [text for text in known if not holds_any(text, self.words)]
            if known and (who := self._who(code)) is not None:
                texts.append((code, [known[place] for place in rng.permutation(len(known))], who))
        for number in range(self.spoken.foreign if texts else 0):
            code, known, who = texts[number % len(texts)]
            text = known[number // len(texts) % len(known)]
            yield _Line(TakeOrder(text, code, self.first + number, who), near=False)

    def _near(self, texts: Sequence[str]) -> Iterator[_Line]:
        own = code_of(self.spoken.language)
        who = self._who(own) if self.spoken.near else None
        if who is None or not texts:
            return
        first = self.first + self.spoken.foreign
        for number in range(self.spoken.near):
            yield _Line(TakeOrder(texts[number % len(texts)], own, first + number, who), near=True)

    def _choose_takes(self, source: Recordings, near: frozenset[str], rng: np.random.Generator) -> list[_Line]:
        """Takes of a folder that hold no word, each once at most: other texts, and near misses."""
        left = Counter({False: self.spoken.foreign, True: self.spoken.near})
        held = source.counts(self.speakers).items()
        every = [(text, number) for text, count in held if part_of(text) == self.part for number in range(count)]
        lines = []
        for place in rng.permutation(len(every)):
            text, number = every[place]
            is_near = text in near
            if not holds_any(text, self.words) and left[is_near] > 0:
                left[is_near] -= 1
                lines.append(_Line(TakeOrder(text, "", number, self.speakers), near=is_near))
        return lines


def _speak(source: VoiceSource, lines: Sequence[_Line], what: str, progress: Progress) -> Negatives:
    def tell(done: int, total: int) -> None:
        progress(what, done, total)

    sounds = speak_all(source, [line.order for line in lines], os.cpu_count() or 1, tell)
    takes: Mapping[bool, list[Take]] = {False: [], True: []}
    for place, (line, sound) in enumerate(zip(lines, sounds, strict=True)):
        takes[line.near].append(Take(line.order.text, f"{source.name} {place}", padded(sound)))
    return Negatives(tuple(takes[False]), tuple(takes[True]))
