"""What an own wake word is learnt from and judged by: voices, recordings, and what a shipped pack carries of people.

Positives are synthetic where nobody gives takes. Negatives of people are in any case there: the shipped packs carry
sound without keywords as mel energies, half of which is trained on and half of which chooses the threshold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import DataError
from auricle.hearing.scenes import Scene
from auricle.hearing.splits import Part
from auricle.hearing.utterances import Stretch
from auricle.packs.listening import read_negatives
from auricle.packs.manifest import Task
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import Energies, LogMel, mel_filters
from auricle.speech.sound_faults import SoundFault
from auricle.speech.words import ALL_WORDS
from auricle_export.pretrain.corpus import Corpus, Heard, add_to_digest, lay_out_long
from auricle_export.pretrain.sounds import Sounds, joined_sounds
from auricle_export.pretrain.windows import Bank
from auricle_export.wakeword.report import Speaker
from auricle_export.wakeword.task import WakeTask
from auricle_export.wakeword.voices_sound import SpokenPart, Texts

PEOPLE = "home"
"""The shipped pack whose negatives are taken."""
WORDS_CARRIED = ("words", "run together")
"""Kinds of that sound which are single words."""
_PIECE = 1_000
"""Frames of a piece of carried sound."""
_LOUD = 0.5
"""Quantile of a piece's frames above which its level is measured."""


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
    carrier = load_pack(PEOPLE)
    whole.update(carrier.identity.encode())
    people, scenes = _carried(carrier, task.phrases, pack.manifest.task)
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
        running=joined_sounds(laid([*(take.sound for take in spoken.sentences), *train.running]), people["speech"]),
        noise=joined_sounds(laid([*spoken.noise, *train.noise]), people["noise"]),
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
        validation=_heard(recorded["validation"], parts["validation"]),
        test=_heard(recorded["test"], parts["test"]),
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
        carried=scenes,
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


def _heard(recorded: Heard, spoken: SpokenPart) -> Heard:
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


def _carried(
    pack: Pack, phrases: Sequence[str], task: Task
) -> tuple[dict[str, Sounds], tuple[tuple[Scene, Energies], ...]]:
    """People's sound without keywords that a shipped pack carries: to train on as sounds, to choose by as scenes.

    Its single words are those of Speech Commands: where a phrase is one of them, somebody may say it there.
    """
    negatives = pack.manifest.negatives
    if negatives is UNSET:
        raise DataError(f"The pack {pack.manifest.name} carries no sound without keywords: reinstall auricle.")
    said = WORDS_CARRIED if {*phrases} & {*ALL_WORDS} else ()
    pieces: dict[str, list[Energies]] = {"speech": [], "noise": []}
    scenes: list[tuple[Scene, Energies]] = []
    own = pack.manifest.task
    hop = own.frontend.hop
    for stretch, kind in zip(read_negatives(pack.manifest, pack.files), negatives.kinds, strict=True):
        if kind in said:
            continue
        energies, half = other_bands(stretch[0 : len(stretch)], own, task), len(stretch) // 2
        mine = pieces["noise" if kind == "noise" else "speech"]
        mine += [energies[first : first + _PIECE] for first in range(0, half, _PIECE)]
        samples = (len(energies) - half) * hop
        scene = Scene(np.zeros(samples, np.int16), stretches=(Stretch(kind, 0, samples),))
        scenes.append((scene, energies[half:]))
    return {name: _sounds_of(parts) for name, parts in pieces.items()}, tuple(scenes)


def other_bands(energies: Energies, from_task: Task, to_task: Task) -> Energies:
    """Energies (frames, mels) as another front-end would have them, about: power is even within a band.

    Each band's energy is laid out over the frequencies under its filter, and the other front-end's filters are put over
    the sum. Where bands are narrow, as pitch is in neither, it comes near; a tenth of a decade is usual.
    """
    if from_task.frontend == to_task.frontend:
        return energies
    here = mel_filters(from_task.frontend, from_task.sample_rate).astype(np.float64)
    there = mel_filters(to_task.frontend, to_task.sample_rate)
    spread = here / np.maximum(here.sum(axis=0), np.finfo(np.float64).tiny)
    made: Energies = (energies @ (spread.T @ there)).astype(np.float32)
    return made


def _sounds_of(pieces: Sequence[Energies]) -> Sounds:
    """Energies (frames, mels) as sounds, each a word from its first to its last frame."""
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    levels = []
    for piece in pieces:
        loud = piece.mean(axis=1)
        levels.append(float(loud[loud >= np.quantile(loud, _LOUD)].mean()) + 1e-9)
    return Sounds(
        energies=np.concatenate([*pieces, np.zeros((1, pieces[0].shape[1]), np.float32)]).astype(np.float32),
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        begins=np.zeros(len(pieces), np.int64),
        ends=lengths.copy(),
        levels=np.array(levels, np.float32),
        targets=np.full(len(pieces), -1),
    )
