"""What an own wake word is learnt from and judged by: voices, recordings, and what the shipped packs carry of people.

Positives are synthetic where nobody gives takes. Negatives of people are in any case there: the shipped packs carry
sound without keywords as mel energies, a part of which is trained on and another chooses the threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from auricle.hearing.scenes import Scene
from auricle.hearing.splits import Part
from auricle.packs.pack import Pack
from auricle.speech.features import Energies, LogMel
from auricle.speech.sound_faults import SoundFault
from auricle_export.pretrain.corpus import Corpus, Heard, add_to_digest, lay_out_long
from auricle_export.pretrain.sounds import Sounds, join_sounds
from auricle_export.pretrain.streams import Streams
from auricle_export.pretrain.windows import Bank
from auricle_export.wakeword.carried import load_carried
from auricle_export.wakeword.report import Speaker
from auricle_export.wakeword.task import WakeTask
from auricle_export.wakeword.voices_sound import SpokenPart, Texts


@dataclass(frozen=True, eq=False)
class WakeCorpus:
    """What a training of an own wake word has."""

    corpus: Corpus
    texts: Texts
    parts: Mapping[Part, SpokenPart]
    carried: tuple[tuple[Scene, Energies], ...]
    """Of people, without keywords, for choosing thresholds: scenes without samples, and their energies."""
    recorded: Mapping[str, int]
    """Takes of each phrase by people, or by voices of one's own, in the training part."""
    people: int
    """Who say them there."""
    nobody: int
    """Takes of the phrases, in all parts, that say nowhere who speaks."""
    negatives: tuple[tuple[str, float, Speaker], ...]
    """Kind, hours and whose sound it is, of what is trained on without the phrases."""

    def with_people(self, streams: Streams) -> Streams:
        """The streams after people's sound without keywords that shipped packs carry: a new pack takes it first."""
        scenes, energies = zip(*self.carried, strict=True)
        return replace(streams, scenes=(*scenes, *streams.scenes), energies=(*energies, *streams.energies))


def wake_corpus(
    task: WakeTask,
    commands: Sequence[str],
    pack: Pack,
    frontend: LogMel,
    texts: Texts,
    parts: Mapping[Part, SpokenPart],
    recorded: Mapping[Part, Heard],
) -> WakeCorpus:
    """Lay out what voices say and what was recorded."""
    train, spoken = recorded["train"], parts["train"]
    place = {label: number for number, label in enumerate(pack.labels)}
    whole = hashlib.sha256()
    carried = load_carried(task.phrases, pack.manifest.task)
    for identity in carried.identities:
        whole.update(identity.encode())
    people = carried.trained
    said = (*train.keywords, *spoken.natural)

    def laid(sounds: Sequence[NDArray[np.float32]], targets: Sequence[int] | None = None) -> Sounds:
        add_to_digest(whole, sounds, targets)
        return lay_out_long(sounds, frontend, targets)

    times = often([place[take.word] for take in said], len(train.keywords))
    bank = Bank(
        keywords=laid([take.sound for take in said], [place[take.word] for take in said]).repeated(times),
        spoken=laid([take.sound for take in spoken.phrases], [place[take.word] for take in spoken.phrases]),
        others=laid([take.sound for take in (*spoken.words, *spoken.foreign, *train.others, *train.languages)]),
        alike=laid([take.sound for take in (*spoken.alike, *spoken.foreign)]),
        running=join_sounds(laid([*(take.sound for take in spoken.sentences), *train.running]), people["speech"]),
        noise=join_sounds(laid([*spoken.noise, *train.noise]), people["noise"]),
        leading=laid([take.sound for take in (*spoken.phrases, *spoken.natural) if take.word in task.phrases])
        if commands
        else None,
    )
    if (times > 1).any():
        whole.update(times.tobytes())
    takes = (*train.keywords, *train.others, *train.languages)
    corpus = Corpus(
        labels=pack.labels,
        bank=bank,
        validation=_listened_part(recorded["validation"], parts["validation"]),
        test=_listened_part(recorded["test"], parts["test"]),
        clips=len(takes) + len(spoken.phrases) + len(spoken.natural),
        speakers=len({take.speaker for take in takes}) + spoken.voices + sum(each.voices for each in spoken.sources),
        seconds=bank.running.seconds,
        digest=whole.hexdigest(),
        findings=tuple(finding for heard in recorded.values() for finding in heard.findings),
    )
    return WakeCorpus(
        corpus=corpus,
        texts=texts,
        parts=parts,
        carried=carried.scenes,
        recorded={phrase: sum(take.word == phrase for take in train.keywords) for phrase in task.phrases},
        people=len({take.speaker for take in train.keywords if take.word in task.phrases}),
        nobody=sum(finding.reason == SoundFault.NAME.value for finding in train.findings),
        negatives=_negatives(train, spoken, people),
    )


def often(targets: Sequence[int], people: int) -> NDArray[np.int64]:
    """How often takes (N,) are counted, so that of each label people are drawn as often as all natural voices together.

    The first `people` takes are by people. Ten of them among 160 of a synthetic source would be a sixteenth of what is
    drawn, and what people say is what a model is to hear.
    """
    labels, natural = np.asarray(targets, np.int64), np.arange(len(targets)) >= people
    times = np.ones(len(labels), np.int64)
    for label in np.unique(labels[:people]):
        mine = labels == label
        times[mine & ~natural] = max(1, round(np.count_nonzero(mine & natural) / np.count_nonzero(mine & ~natural)))
    return times


def _negatives(
    recorded: Heard, spoken: SpokenPart, people: Mapping[str, Sounds]
) -> tuple[tuple[str, float, Speaker], ...]:
    def hours(sounds: Sequence[NDArray[np.float32]]) -> float:
        return round(sum(map(len, sounds)) / 16_000 / 3600, 3)

    rows: list[tuple[str, float, Speaker]] = [
        ("near words", hours([take.sound for take in spoken.alike]), "synthetic"),
        ("other words", hours([take.sound for take in spoken.words]), "synthetic"),
        ("other words", hours([take.sound for take in recorded.others]), "people"),
        ("other languages", hours([take.sound for take in spoken.foreign]), "synthetic"),
        ("other languages", hours([take.sound for take in recorded.languages]), "people"),
        ("running speech", hours([take.sound for take in spoken.sentences]), "synthetic"),
        ("running speech", round(hours(recorded.running) + people["speech"].seconds / 3600, 3), "people"),
        ("noise", round(hours([*spoken.noise, *recorded.noise]) + people["noise"].seconds / 3600, 3), "recorded"),
    ]
    return tuple(row for row in rows if row[1])


def _listened_part(recorded: Heard, spoken: SpokenPart) -> Heard:
    """Recordings and voices of one part, of which scenes are composed."""
    said = {take.word for take in recorded.keywords}
    natural = tuple(take for take in spoken.natural if take.word not in said)
    said |= {take.word for take in natural}
    voices = (*natural, *(take for take in spoken.phrases if take.word not in said))
    return replace(
        recorded,
        keywords=(*recorded.keywords, *voices),
        others=(*recorded.others, *spoken.words),
        running=(*recorded.running, *(take.sound for take in spoken.sentences)),
        noise=(*recorded.noise, *spoken.noise),
        languages=(*recorded.languages, *spoken.foreign),
    )
