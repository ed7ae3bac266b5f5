"""From a phrase to a pack that listens for it: voices, training, threshold, judgement."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import UNSET, UnsetType

from auricle.checks.onnx_network import frontend_of
from auricle.packs.manifest import Listening, Start
from auricle.packs.pack import Pack, load_pack
from auricle.speech.features import LogMel
from auricle.speech.scripts import refuse_unread
from auricle_export.packs.start_weights import with_negatives
from auricle_export.pretrain.corpus import Progress
from auricle_export.pretrain.listening import command_streams, hearing_of
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.live_task import carried, with_starts
from auricle_export.pretrain.outcome import TEST, VALIDATION, heeding, judge_clips
from auricle_export.pretrain.second_stage import Measured, Sound, best_ruled
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.streams import Recognise, Streams, make_streams
from auricle_export.pretrain.task import Watch, heeded
from auricle_export.pretrain.teachers import Taught
from auricle_export.pretrain.trained import Trained
from auricle_export.pretrain.training import Stopped, pytorch_threads
from auricle_export.pretrain.warm_start import WarmStart
from auricle_export.voices.advice import who_speaks
from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.sources import ESPEAK
from auricle_export.wakeword.carried import CHOOSING_PACKS, PEOPLE
from auricle_export.wakeword.corpus import WakeCorpus, wake_corpus
from auricle_export.wakeword.judgement import Judgement, judge_phrases
from auricle_export.wakeword.model import cooled, starting_pack, window_of
from auricle_export.wakeword.natural import add_natural
from auricle_export.wakeword.recordings import read_recordings
from auricle_export.wakeword.task import MODEL, WakeTask, labels_of, name_of
from auricle_export.wakeword.voices_sound import SpokenPart, speak_parts, texts_for, voices_for

WATCHING, CHOOSING, JUDGING = 2, 6, 4
"""How often the sound without the phrases is heard in other noise: while training, to choose thresholds, to judge."""
CARRIED = 20
"""Seconds of each kind of sound without the phrases that the pack carries: it stays below a megabyte."""
_LONGEST = 120
"""Characters of folders' names in a manifest."""


@dataclass(frozen=True, eq=False)
class WakePack:
    """What came of it."""

    pack: Pack
    trained: Trained
    corpus: WakeCorpus
    listening: Listening
    judgement: Judgement
    """On voices and people that were left out."""
    seconds: float


def build_wake_pack(task: WakeTask, *, watch: Watch | None = None, stopped: Stopped = lambda: False) -> WakePack:
    """Train a pack for an own wake word, or go on with a training that was interrupted.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        A phrase, a folder, the pack of commands or the state are not as they have to be, in a sentence.
    """
    began, watch, seed = time.monotonic(), watch or Watch(), task.settings.seed
    step = heeded(watch, stopped)
    refuse_unread(task.phrases, task.language)
    base = task.base()
    frozen = task.frozen
    commands = task.words_after(base)
    labels = labels_of(task.phrases, commands)
    recorded = read_recordings(task, labels, step)
    texts = texts_for(task.phrases, commands, task.language, seed)
    voices_for(task.speakers, seed, task.language)  # refuses too few before anything is said
    watch.speakers(who_speaks(task.sources, task.language))
    parts = speak_parts(texts, task.language, seed, step, task.speakers)
    parts = add_natural(parts, task, texts, step)
    pack = starting_pack(base, labels, name_of(task.phrases), window_of(task, parts), frozen)
    model = pack.manifest.plugin
    frontend = frontend_of(pack)
    corpus = wake_corpus(task, commands, pack, frontend, texts, parts, recorded)
    streams = _with_people(
        make_streams(corpus.corpus.validation, pack.labels, frontend, seed, negatives=WATCHING), corpus
    )
    size = pack.table(model).size
    watch.begin(model, size, size)
    teachers = [Taught(base, MODEL)] if commands and frozen is None else []
    trained = train_live(
        model,
        pack,
        corpus.corpus,
        streams,
        task.settings if frozen is None else task.head,
        task.folder,
        start=WarmStart(base) if frozen is None else None,
        teachers=teachers,
        report=watch.epoch,
        stopped=stopped,
    )
    if frozen is not None:
        trained = cooled(trained, pack.table(model))
    recognise = heeding(recogniser_of(model, pack, trained.weights), stopped)
    with pytorch_threads(task.settings.threads):
        listening, measured, chosen = _choose(task, commands, corpus, recognise, frontend, step)
        judged = make_streams(
            *(corpus.corpus.test, pack.labels, frontend, seed + 2),
            negatives=JUDGING,
            rule=chosen.rule,
            what=TEST,
            progress=step,
        )
        judgement = judge_phrases(task.phrases, judged, recognise, listening, corpus.parts["test"])
        right, clips = judge_clips(corpus.corpus.test, pack.labels, frontend, recognise)
    begin = Start(
        file=f"weights/{state_file(model)}",
        data=_data(task, parts["train"]),
        clips=corpus.corpus.clips,
        speakers=corpus.corpus.speakers,
        accuracy=round(right / clips, 4),
        judged_clips=clips,
        seed=seed,
        hearing=hearing_of(judgement.counts, judgement.judges),
        attribution=_attribution(base, pack, task.sources),
        speech=corpus.corpus.digest,
    )
    done = with_negatives(with_starts(pack, {model: begin}, {model: trained}, listening), carried(chosen, CARRIED))
    watch.chosen(listening, measured)
    return WakePack(done, trained, corpus, listening, judgement, time.monotonic() - began)


def _with_people(streams: Streams, corpus: WakeCorpus) -> Streams:
    """The streams after people's sound without keywords that shipped packs carry, which a new pack takes first."""
    scenes = tuple(scene for scene, _ in corpus.carried)
    energies = tuple(energies for _, energies in corpus.carried)
    return replace(streams, scenes=(*scenes, *streams.scenes), energies=(*energies, *streams.energies))


def _choose(
    task: WakeTask,
    after: Sequence[str],
    corpus: WakeCorpus,
    recognise: Recognise,
    frontend: LogMel,
    progress: Progress,
) -> tuple[Listening, Measured, Streams]:
    """Rule and thresholds for the rate that was asked for, what they do, and the streams that they were chosen on."""
    heard, seed = corpus.corpus.validation, task.settings.seed
    streams = make_streams(
        heard, corpus.corpus.labels, frontend, seed + 1, negatives=CHOOSING, what=VALIDATION, progress=progress
    )
    streams = _with_people(streams, corpus)
    commands = command_streams(heard, streams, task.phrases, seed) if after else None
    said = None if commands is None else commands.posteriors(recognise)
    sound = best_ruled(Sound(streams, streams.posteriors(recognise), commands, said), task.phrases, task.rate)
    listening = sound.listening(task.phrases, wake_rate=task.rate)
    return listening, sound.measured(listening), sound.streams


def _data(task: WakeTask, spoken: SpokenPart) -> str:
    """What the manifest says that weights were trained on: folders' names, no path."""
    folders = (*task.takes, *task.words, *task.running, *task.languages)
    named = ", ".join(dict.fromkeys(folder.name for folder in folders))
    recordings = f"recordings in {named if len(named) <= _LONGEST else f'{len(folders)} folders'}, " if folders else ""
    voices = ", ".join([*(f"{each.voices} of {each.name}" for each in spoken.sources), f"{spoken.voices} of {ESPEAK}"])
    return f"{recordings}synthetic voices in {task.language} ({voices}), sound of people that the pack {PEOPLE} carries"


def _attribution(base: Pack, made: Pack, sources: Sequence[VoiceSource]) -> tuple[str, ...] | UnsetType:
    """Whom the licences ask to name: of the base, the carried sound, the voices and the network, each once."""
    packs = (base, *map(load_pack, (PEOPLE, *CHOOSING_PACKS)))
    said = [start.attribution for pack in packs for start in pack.manifest.start.values()]
    people = [name for names in said if names is not UNSET for name in names]
    network = made.manifest.task.frontend.network
    own = () if network is UNSET else (network.attribution,)
    voices = [name for source in sources for name in source.attribution]
    return tuple(dict.fromkeys([*people, *voices, *own])) or UNSET
