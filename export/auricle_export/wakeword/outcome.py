"""What was made, as the report of which the page and `--json` speak."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import UNSET

from auricle.packs.manifest import HeardAt
from auricle_export.pretrain.listening import hearing_of
from auricle_export.voices.espeak_ng import EspeakNg
from auricle_export.voices.sources import ESPEAK
from auricle_export.wakeword.build import WakePack
from auricle_export.wakeword.judgement import Judgement
from auricle_export.wakeword.people import networks_of
from auricle_export.wakeword.report import (
    Confusion,
    Judges,
    Latency,
    Negative,
    Threshold,
    TrainingSound,
    WakeReport,
)
from auricle_export.wakeword.task import WakeTask
from auricle_export.wakeword.voices_sound import SourceVoices

RATES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""False accepts an hour of the curve."""


def report_of(task: WakeTask, done: WakePack, out: Path, size: int, again: str = "") -> WakeReport:
    """The report of a pack.

    Parameters
    ----------
    task, done
        What was asked for, and what came of it.
    out
        Where the pack is written.
    size
        Of the pack, bytes.
    again
        The command that makes it again.
    """
    judgement, corpus = done.judgement, done.corpus
    counts, chosen = judgement.counts, judgement.chosen
    kinds = sorted({word.kind for word in counts.words})
    accepts = int(chosen.total()[0])
    starts = done.pack.manifest.start
    attribution = [name for model in starts if (names := starts[model].attribution) is not UNSET for name in names]
    spoken = corpus.parts["train"]
    takes = [take for take in spoken.phrases if take.word in task.phrases]
    espeak = SourceVoices(ESPEAK, EspeakNg.about, EspeakNg.licence, spoken.voices, len(takes))
    sources = (*spoken.sources, espeak)
    frontend, vote = networks_of(done.pack.manifest)
    return WakeReport(
        phrases=task.phrases,
        pack=str(out),
        size=size,
        seconds=done.seconds,
        language=task.language,
        rate=task.rate,
        thresholds=(*_phrases(task.phrases, done), *_commands(done)),
        hearing=hearing_of(counts, judgement.judges, RATES),
        spoken={kind: int(counts.chosen(kind=kind).sum()) for kind in kinds},
        chosen=HeardAt(
            false_accepts_per_hour=accepts / chosen.all_hours,
            hits={kind: round(float(chosen.hit[0][chosen.chosen(kind=kind)].mean()), 4) for kind in kinds},
        ),
        false_accepts=accepts,
        training=TrainingSound(
            voices=sum(each.voices for each in sources),
            takes=sum(each.takes for each in sources),
            sources=sources,
            people=corpus.people,
            recordings=sum(corpus.recorded.values()),
            nobody=corpus.nobody,
            near_words=tuple(text for phrase in task.phrases for text in corpus.texts.near.get(phrase, ())),
            negatives=tuple(Negative(kind, hours, by) for kind, hours, by in corpus.negatives),
        ),
        judges=Judges(voices=judgement.voices, people=judgement.people),
        confusions=tuple(
            Confusion(each.text, each.kind, round(each.posterior, 4), each.phrase) for each in judgement.mistaken
        ),
        latency=_latency(judgement),
        again=again,
        seed=task.settings.seed,
        attribution=tuple(dict.fromkeys(attribution)),
        frontend=frontend,
        vote=vote,
        by_people=done.by_people,
    )


def _phrases(phrases: Sequence[str], done: WakePack) -> list[Threshold]:
    chosen = done.judgement.chosen
    return [
        Threshold(
            word=phrase,
            threshold=done.listening.thresholds[phrase],
            hits=int(chosen.hit[0][chosen.chosen(phrase)].sum()),
            spoken=int(chosen.chosen(phrase).sum()),
            false_accepts=int(chosen.total(phrase)[0]),
        )
        for phrase in phrases
    ]


def _commands(done: WakePack) -> list[Threshold]:
    return [Threshold(word, level, is_wake=False) for word, level in done.listening.commands.items()]


def _latency(judgement: Judgement) -> Latency | None:
    delays = judgement.chosen.delay[0]
    delays = delays[np.isfinite(delays)]
    if not len(delays):
        return None
    return Latency(round(float(np.median(delays)), 3), round(float(np.quantile(delays, 0.95)), 3))
