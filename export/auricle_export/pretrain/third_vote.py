"""A third vote for a pack that is trained: a wide head over a frozen network, beside the pack's own models.

What the head errs on is other sound than what models over log-mels err on, so both together hear more at the same
false accepts. Share and thresholds are chosen on streams of validation speakers, as `pretrain` chooses thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from msgspec import UNSET, structs

from auricle.checks.onnx_network import frontend_of
from auricle.errors import PackError
from auricle.hearing.rule import Rule, refractory_of
from auricle.packs.manifest import Listening, Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.packs.vote import with_vote
from auricle.speech.sound_faults import Finding
from auricle_export.packs.build import assemble, trace_model
from auricle_export.packs.models import WIDE_HEAD, make_module
from auricle_export.packs.network import Frozen
from auricle_export.packs.window import network_task
from auricle_export.pretrain.corpus import Corpus, Progress, make_corpus
from auricle_export.pretrain.listening import command_streams
from auricle_export.pretrain.live import recogniser_of, train_live
from auricle_export.pretrain.live_task import WATCHING_TIMES, as_spelt, refuse_labels, with_starts
from auricle_export.pretrain.outcome import CHOOSING_TIMES, VALIDATION, heeding, judge
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.second_stage import Measured, Sound, compare_stages
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.streams import Recognise, Streams, hits_at, make_streams
from auricle_export.pretrain.task import Watch, watch_progress
from auricle_export.pretrain.trained import Trained, cool
from auricle_export.pretrain.training import Stopped, pytorch_threads
from auricle_export.pretrain.varied import windows_of
from auricle_export.pretrain.voted_streams import StreamVoter, VotedStreams

SHARES = (0.2, 0.3, 0.4, 0.5)
"""Shares of the vote that are compared."""


def usual_settings() -> LiveSettings:
    """How a head that votes is trained where nothing else is asked for: as that of an own wake word."""
    return LiveSettings(epochs=16, steps=250, batch=512, rate=2e-3, alone=0.75)


@dataclass(frozen=True)
class VoteTask:
    """What to do."""

    recipe: Recipe
    data: Path | None
    """The folder that the recipe's folders are in; None where it names whole paths."""
    folder: Path
    """Keeps an interrupted training."""
    frozen: Frozen
    """The network whose vectors the head hears."""
    settings: LiveSettings


@dataclass(frozen=True, eq=False)
class VotedPack:
    """What came of it."""

    pack: Pack
    trained: Trained
    """The head."""
    corpus: Corpus
    hits: Mapping[float, float]
    """Share of the validation streams' keywords heard at five false accepts an hour, by the vote's share; 0 is the
    plug-in alone."""
    share: float
    """The one of these that the pack has."""
    measured: Measured
    """What the pack hears of these streams with its new thresholds."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in files that could not be used, or not as they stand."""
        return self.corpus.findings


def train_vote(
    pack: Pack, task: VoteTask, *, watch: Watch | None = None, stopped: Stopped = lambda: False
) -> VotedPack:
    """Train a head for the words of a pack by a recipe, and put it into the pack as its vote, with new thresholds.

    The pack's own models stay as they are; a vote that it had is replaced.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        Data, settings, state or pack are not as they have to be, in a sentence.
    """
    watch, recipe, seed = watch or Watch(), as_spelt(task.recipe, pack), task.settings.seed
    own = own_models(pack)
    refuse_labels(pack, recipe)
    voter = voter_pack(pack, task.frozen)
    step, frontend = watch_progress(watch, stopped), frontend_of(voter)
    corpus = make_corpus(recipe.sources(task.data, progress=step), pack.labels, frontend, seed, step)
    streams = make_streams(corpus.for_checkpoints, pack.labels, frontend, seed, negatives=WATCHING_TIMES)
    size = voter.table(WIDE_HEAD).size
    watch.begin(WIDE_HEAD, size, size)
    settings = replace(task.settings, windows=replace(windows_of(recipe.windows), newest=1.0, crowd=0.5))
    trained = train_live(WIDE_HEAD, voter, corpus, streams, settings, task.folder, report=watch.epoch, stopped=stopped)
    trained = cool(trained, voter.table(WIDE_HEAD))
    vote = heeding(recogniser_of(WIDE_HEAD, voter, trained.weights), stopped)
    models = {name: heeding(recogniser_of(name, pack, start_weights(pack, name)), stopped) for name in own}
    with pytorch_threads(task.settings.threads):
        heard = StreamVoter(frontend, vote, SHARES[0])
        ears = _ears(pack, corpus, recipe, models, heard, seed, step)
        hits = ears.hits()
        share = max(SHARES, key=hits.__getitem__)
        listening, measured = _choose(ears.sound(share), ears.seconds(), recipe)
        watch.chosen(listening, measured)
        rule = Rule(frontend.task.usual_hop, refractory=refractory_of(frontend.task.seconds))
        starts = judge(corpus, voter, frontend, recipe, [WIDE_HEAD], {WIDE_HEAD: vote}, rule, seed, step)
    watch.judged(WIDE_HEAD, trained, starts[WIDE_HEAD])
    done = join(pack, voter, starts[WIDE_HEAD], trained, listening, share)
    return VotedPack(done, trained, corpus, hits, share, measured)


def join(pack: Pack, voter: Pack, start: Start, trained: Trained, listening: Listening, share: float) -> Pack:
    """The pack with thresholds for itself and its vote, which is the trained head of another.

    A second stage is one of the pack's own models, of which the head's pack has none.
    """
    alone = structs.replace(listening, second_stage=UNSET)
    voter = with_starts(voter, {WIDE_HEAD: start}, {WIDE_HEAD: trained}, alone)
    return with_vote(Pack(structs.replace(pack.manifest, listening=listening), pack.files), voter, share)


def own_models(pack: Pack) -> tuple[str, ...]:
    """The plug-in of a pack that a vote can stand beside, and its second stage where it has one.

    Raises
    ------
    PackError
        One of them has no trained weights, the pack says no thresholds, or its front-end has a network already.
    """
    name, listening = pack.manifest.name, pack.manifest.listening
    if pack.manifest.task.frontend.network is not UNSET:
        raise PackError(f"The pack {name} has a network in its front-end: a vote is for a pack that hears log-mels.")
    if listening is UNSET:
        raise PackError(
            f"The pack {name} says no thresholds, so that nobody listens with it: train it first, as auricle export "
            "pretrain --recipe does."
        )
    second = listening.second_stage
    models = (pack.manifest.plugin, *(() if second is UNSET else (second,)))
    for model in models:
        if model not in pack.manifest.start:
            raise PackError(
                f"The pack {name} has no trained weights of {model}, beside which a vote could stand: train it first, "
                "with auricle export pretrain."
            )
    return models


def voter_pack(pack: Pack, frozen: Frozen) -> Pack:
    """A pack of the wide head alone, without trained weights: the labels are the pack's, the vectors the network's."""
    task = network_task(pack.labels, frozen.frontend, pack.manifest.task.seconds)
    frames, size = task.input_shape
    head = trace_model(partial(make_module, WIDE_HEAD, mels=size, frames=frames), len(pack.labels), task)
    name = f"{pack.manifest.name}-vote"
    return assemble(name, pack.labels, {WIDE_HEAD: head}, WIDE_HEAD, task=task, frozen=frozen)


@dataclass(frozen=True, eq=False)
class _Ears:
    """A pack's models, and the vote that stands beside the first of them, over the same streams."""

    models: Mapping[str, Recognise]
    """The plug-in, and the second stage where there is one."""
    streams: VotedStreams
    commands: VotedStreams | None
    """Scenes of wake words and commands; None where there are no wake words."""

    def sound(self, share: float) -> Sound:
        """What the plug-in and the vote hear together."""
        commands = None if self.commands is None else self.commands.with_share(share)
        return _sound_of(self.plugin, self.streams.with_share(share), commands)

    def seconds(self) -> dict[str, Sound]:
        """What each larger model of the pack hears by itself."""
        streams, commands = self.streams.alone, None if self.commands is None else self.commands.alone
        larger = [*self.models.items()][1:]
        return {name: _sound_of(recognise, streams, commands) for name, recognise in larger}

    def hits(self) -> dict[float, float]:
        """Share of keywords heard at five false accepts an hour, by the vote's share; 0 is the plug-in alone."""
        first, votes = self.streams.both(self.plugin)
        heard = {share: self.streams.joined(first, votes, share) for share in SHARES}
        return {share: hits_at(self.streams.count(rows)) for share, rows in ({0.0: first} | heard).items()}

    @property
    def plugin(self) -> Recognise:
        """What stands beside the vote."""
        return next(iter(self.models.values()))


def _sound_of(recognise: Recognise, streams: Streams, commands: Streams | None) -> Sound:
    said = None if commands is None else commands.posteriors(recognise)
    return Sound(streams, streams.posteriors(recognise), commands, said)


def _ears(
    pack: Pack,
    corpus: Corpus,
    recipe: Recipe,
    models: Mapping[str, Recognise],
    voter: StreamVoter,
    seed: int,
    progress: Progress,
) -> _Ears:
    """Hours of validation streams for the pack's models and the vote."""
    said = pack.manifest.listening
    assert said is not UNSET
    rule = Rule(said.hop, said.smoothing, said.patience, refractory_of(pack.manifest.task.seconds))
    streams = make_streams(
        *(corpus.validation, pack.labels, frontend_of(pack), seed + 1),
        negatives=CHOOSING_TIMES,
        rule=rule,
        what=VALIDATION,
        progress=progress,
    )
    commands = command_streams(corpus.validation, streams, recipe.wake, seed) if recipe.wake else None
    return _Ears(models, voter.beside(streams), None if commands is None else voter.beside(commands))


def _choose(first: Sound, seconds: Mapping[str, Sound], recipe: Recipe) -> tuple[Listening, Measured]:
    """Thresholds for the plug-in with its vote, and its second stage where it still hears more."""
    for model, second in seconds.items():
        stage = compare_stages(first, second, model, recipe.wake)
        if stage.taken:
            return stage.listening, stage.both
    listening = first.listening(recipe.wake)
    return listening, first.measured(listening)
