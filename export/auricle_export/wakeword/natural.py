"""What other voices than espeak-ng's say for an own wake word: fewer takes, which sound more like people.

Who trains, validates and judges is for `auricle_export.voices.speakers` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auricle.hearing.sounds import Take, fingerprint
from auricle.hearing.splits import PARTS, Part, part_of
from auricle.speech.confusables import holds_any
from auricle.speech.other_words import ELSEWHERE
from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.recordings import Recordings
from auricle_export.voices.sources import code_of
from auricle_export.voices.speakers import parts_of, speakers_for
from auricle_export.voices.takes import TakeOrder, speak_all
from auricle_export.wakeword.task import WakeTask
from auricle_export.wakeword.voices_sound import MARGIN_SAMPLES, SourceVoices, SpokenPart, Texts

Progress = Callable[[str, int, int], None]

PHRASES: Mapping[Part, int] = {"train": 160, "validation": 16, "test": 16}
"""Takes of a phrase by a source; of several phrases each has its share, `LEAST` in training. Kokoro takes a CPU-second
for one, so that all of this takes some four CPU-minutes."""
LEAST = 60
NEAR, LISTS, SENTENCES = 16, 8, 4
"""Takes of what sounds like the phrases, of lists of other words, and of everyday sentences, in training."""
LIST_WORDS = 5
"""Words of a list: in one take they cost a third of what they cost alone."""
LANGUAGES, LANGUAGE_TAKES = 8, 2
"""Other languages at most, and takes of each."""


@dataclass(frozen=True)
class _Line:
    """A text that is to be said, and as what it is trained on."""

    kind: str
    """A field of `SpokenPart`: natural, alike, words, foreign, sentences."""
    text: str
    language: str


def add_natural(
    parts: Mapping[Part, SpokenPart], task: WakeTask, texts: Texts, progress: Progress = lambda *_: None
) -> dict[Part, SpokenPart]:
    """The parts with what other sources than espeak-ng say.

    Parameters
    ----------
    parts
        What espeak-ng says.
    task
        Whose `sources` speak, one after the other, as many takes at once as it has threads and one.
    texts
        As of `speak_parts`.
    progress
        Told what is being said, how much of it is done, of how much.

    Raises
    ------
    AuricleError
        A source cannot say something.
    """
    done = dict(parts)
    for number, source in enumerate(task.sources):
        groups = parts_of(source.speakers(code_of(task.language)))
        for place, part in enumerate(PARTS):
            if groups[part] or part == "train":
                first = ((task.settings.seed * 100 + number) * len(PARTS) + place) * 10_000
                takes = _speak_part(source, task, texts, groups, part, first, progress)
                done[part] = _join(done[part], source, takes, len(groups[part]))
    return done


def _speak_part(
    source: VoiceSource,
    task: WakeTask,
    texts: Texts,
    groups: Mapping[Part, Sequence[str]],
    part: Part,
    first: int,
    progress: Progress,
) -> dict[str, list[Take]]:
    """Takes of a part by what they are trained on as, different ones; `first` is the seed of the first."""
    own = code_of(task.language)
    lines = [
        (line, who)
        for line in _lines(source, groups[part], part, task, texts)
        if (who := speakers_for(source, line.language, own, groups, part)) or not source.speakers(own)
    ]
    orders = [TakeOrder(line.text, line.language, first + turn, who) for turn, (line, who) in enumerate(lines)]

    def tell(done: int, total: int) -> None:
        progress(f"{source.name} speaks, {part} voices", done, total)

    takes: dict[str, list[Take]] = {}
    known: set[str] = set()
    sounds = speak_all(source, orders, task.settings.threads + 1, tell)
    for turn, ((line, _), sound) in enumerate(zip(lines, sounds, strict=True)):
        if (mark := fingerprint(sound)) not in known:
            known.add(mark)
            take = Take(line.text, f"{source.name} {part} {turn}", np.pad(sound, MARGIN_SAMPLES))
            takes.setdefault(line.kind, []).append(take)
    return takes


def _join(before: SpokenPart, source: VoiceSource, takes: Mapping[str, list[Take]], speakers: int) -> SpokenPart:
    voices = SourceVoices(source.name, source.about, source.licence, speakers, len(takes.get("natural", ())))
    return replace(
        before,
        natural=(*before.natural, *takes.get("natural", ())),
        alike=(*before.alike, *takes.get("alike", ())),
        words=(*before.words, *takes.get("words", ())),
        foreign=(*before.foreign, *takes.get("foreign", ())),
        sentences=(*before.sentences, *takes.get("sentences", ())),
        sources=(*before.sources, voices),
    )


def _lines(source: VoiceSource, speakers: Sequence[str], part: Part, task: WakeTask, texts: Texts) -> Iterator[_Line]:
    """What a part says, of a folder what it holds."""
    held = source.counts(speakers) if isinstance(source, Recordings) else None
    own, phrases = code_of(task.language), task.phrases
    for phrase in phrases:
        count = PHRASES[part] if len(phrases) == 1 else max(LEAST, PHRASES[part] // len(phrases))
        count = count if part == "train" else PHRASES[part]
        yield from [_Line("natural", phrase, own)] * (count if held is None else held.get(phrase, 0))
    if part != "train":
        return
    if held is not None:
        others = [text for text in held if not holds_any(text, texts.phrases)]
        yield from (_Line("words", text, own) for text in others for _ in range(held[text]))
        return
    rng = np.random.default_rng([task.settings.seed, 41])
    near = [text for phrase in phrases for text in texts.near.get(phrase, ())[: max(1, NEAR // len(phrases))]]
    yield from (_Line("alike", text, own) for text in near)
    if texts.words:
        yield from (
            _Line("sentences", ", ".join(map(str, rng.choice(texts.words, LIST_WORDS, replace=False))), own)
            for _ in range(LISTS)
        )
    if texts.accent is None:
        mine = [text for text in texts.sentences if part_of(text) == part]
        yield from (_Line("sentences", text, own) for text in mine[:SENTENCES])
    others = [code for code in source.languages() if code != own and code in ELSEWHERE][:LANGUAGES]
    for code in others:
        known = [text for text in ELSEWHERE[code] if not holds_any(text, texts.phrases)]
        drawn = rng.choice(known, LANGUAGE_TAKES, replace=False)
        yield from (_Line("foreign", str(text), code) for text in drawn)
