"""From a phrase to a pack that listens for it: voices, training, threshold, judgement."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UNSET, UnsetType, structs

from auricle.packs.manifest import Listening, Start
from auricle.packs.pack import Pack, load_pack
from auricle.packs.vote import with_vote
from auricle.speech.scripts import refuse_unread
from auricle_export.packs.start_weights import with_negatives
from auricle_export.pretrain.corpus import Heard, Progress
from auricle_export.pretrain.listening import command_streams, hearing_of
from auricle_export.pretrain.live_task import carried, with_starts
from auricle_export.pretrain.outcome import TEST, VALIDATION, judge_clips
from auricle_export.pretrain.second_stage import Measured, Sound, best_ruled
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.streams import Recognise, Streams, make_streams
from auricle_export.pretrain.task import Watch, watch_progress
from auricle_export.pretrain.training import Stopped, pytorch_threads
from auricle_export.pretrain.voted_streams import StreamVoter
from auricle_export.voices.advice import who_speaks
from auricle_export.voices.interface import VoiceSource
from auricle_export.voices.sources import ESPEAK
from auricle_export.wakeword.carried import CHOOSING_PACKS, PEOPLE
from auricle_export.wakeword.corpus import WakeCorpus
from auricle_export.wakeword.judgement import Judgement, judge_phrases
from auricle_export.wakeword.model import Material, WakeModel, train_wake_model
from auricle_export.wakeword.natural import add_natural
from auricle_export.wakeword.recordings import read_recordings
from auricle_export.wakeword.task import WakeTask, labels_of
from auricle_export.wakeword.threshold import choosing_sound, tail_thresholds
from auricle_export.wakeword.voices_sound import SpokenPart, speak_parts, texts_for, voices_for

CHOOSING_TIMES, JUDGING_TIMES = 6, 4
"""How often the sound without the phrases is heard in other noise: to choose thresholds, to judge."""
VOTE_SHARE = 0.5
"""Of the vote in the mean of log posteriors: with 0.4 and with 0.6 less is heard of people."""
CARRIED_SECONDS = 20
"""Seconds of each kind of sound without the phrases that the pack carries: it stays below a megabyte."""
_LONGEST = 120
"""Characters of folders' names in a manifest."""


@dataclass(frozen=True, eq=False)
class WakePack:
    """What came of it."""

    pack: Pack
    models: tuple[str, ...]
    """That were trained: the plug-in, and the vote where there is one."""
    corpus: WakeCorpus
    """Of the plug-in."""
    listening: Listening
    by_people: bool
    """Whether recordings of people alone chose the thresholds."""
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
    began, watch = time.monotonic(), watch or Watch()
    step = watch_progress(watch, stopped)
    material = _gather(task, watch, step)
    own = train_wake_model(material, task.frozen, watch, stopped)
    vote = None if task.vote is None else train_wake_model(material, task.vote, watch, stopped)
    recognise = own.recognise(stopped)
    voter = None if vote is None else StreamVoter(vote.frontend, vote.recognise(stopped), VOTE_SHARE)
    with pytorch_threads(task.settings.threads):
        heard, by_people = choosing_sound(own.corpus.corpus.validation, material.recorded["validation"])
        ears = _streams(material, own, vote, voter, heard, by_people=by_people, progress=step)
        listening, measured, chosen = _choose(task, *ears, recognise)
        judged = make_streams(
            *(own.corpus.corpus.test, own.pack.labels, own.frontend, task.settings.seed + 2),
            negatives=JUDGING_TIMES,
            rule=chosen.rule,
            what=TEST,
            progress=step,
        )
        judged = judged if voter is None else voter.beside(judged)
        judgement = judge_phrases(task.phrases, judged, recognise, listening, material.parts["test"])
        begin = structs.replace(
            _start(material, own, recognise), hearing=hearing_of(judgement.counts, judgement.judges)
        )
        done = with_starts(own.pack, {own.name: begin}, {own.name: own.trained}, listening)
        done = with_negatives(done, carried(own.corpus.with_people(chosen), CARRIED_SECONDS))
        if vote is not None and voter is not None:
            starts = {vote.name: _start(material, vote, voter.recognise)}
            done = with_vote(done, with_starts(vote.pack, starts, {vote.name: vote.trained}, listening), VOTE_SHARE)
    watch.chosen(listening, measured)
    models = (own.name,) if vote is None else (own.name, vote.name)
    return WakePack(done, models, own.corpus, listening, by_people, judgement, time.monotonic() - began)


def _gather(task: WakeTask, watch: Watch, step: Progress) -> Material:
    """Everything that is said and was recorded; the errors are those of `build_wake_pack`."""
    seed = task.settings.seed
    refuse_unread(task.phrases, task.language)
    base = task.base()
    commands = task.words_after(base)
    recorded = read_recordings(task, labels_of(task.phrases, commands), step)
    texts = texts_for(task.phrases, commands, task.language, seed)
    voices_for(task.speakers, seed, task.language)  # refuses too few before anything is said
    watch.speakers(who_speaks(task.sources, task.language))
    parts = speak_parts(texts, task.language, seed, step, task.speakers)
    return Material(task, base, commands, texts, add_natural(parts, task, texts, step), recorded)


def _streams(
    material: Material,
    own: WakeModel,
    vote: WakeModel | None,
    voter: StreamVoter | None,
    heard: Heard,
    *,
    by_people: bool,
    progress: Progress,
) -> tuple[Streams, Streams | None]:
    """What thresholds are chosen on: streams with phrases and hours without, and scenes with commands after them."""
    task, seed = material.task, material.task.settings.seed
    streams = make_streams(
        heard, own.pack.labels, own.frontend, seed + 1, negatives=CHOOSING_TIMES, what=VALIDATION, progress=progress
    )
    if not by_people:
        streams = own.corpus.with_people(streams)
    commands = command_streams(heard, streams, task.phrases, seed) if material.commands else None
    if voter is None or vote is None:
        return streams, commands
    carried_energies = [] if by_people else [energies for _, energies in vote.corpus.carried]
    return voter.beside(streams, carried_energies), None if commands is None else voter.beside(commands)


def _choose(
    task: WakeTask, streams: Streams, commands: Streams | None, recognise: Recognise
) -> tuple[Listening, Measured, Streams]:
    """Rule and thresholds for the rate that was asked for, what they do, and the streams by that rule."""
    said = None if commands is None else commands.posteriors(recognise)
    heard = Sound(streams, streams.posteriors(recognise), commands, said)
    sound = best_ruled(heard, task.phrases, task.rate, tail_thresholds)
    listening = sound.listening(task.phrases, wake_rate=task.rate, by=tail_thresholds)
    return listening, sound.measured(listening), sound.streams


def _start(material: Material, model: WakeModel, recognise: Recognise) -> Start:
    """What the manifest says of a model's weights, but for what is heard with them."""
    task, corpus = material.task, model.corpus.corpus
    right, clips = judge_clips(corpus.test, model.pack.labels, model.frontend, recognise)
    return Start(
        file=f"weights/{state_file(model.name)}",
        data=_data(task, material.parts["train"]),
        clips=corpus.clips,
        speakers=corpus.speakers,
        accuracy=round(right / clips, 4),
        judged_clips=clips,
        seed=task.settings.seed,
        attribution=_attribution(material.base, model.pack, task.sources),
        speech=corpus.digest,
    )


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
