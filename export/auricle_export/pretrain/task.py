"""A whole central training: speech, or a recipe's recordings of single clips, every model in turn, and the pack."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auricle.errors import PackError, nearest
from auricle.packs.manifest import Listening, Start
from auricle.packs.pack import Pack, Task
from auricle.speech.sound_faults import Finding
from auricle.speech.sources import describe_sources, read_sources
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_export.packs.start_weights import without_start
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.modules import Modules
from auricle_export.pretrain.pack import with_trained
from auricle_export.pretrain.second_stage import Measured, Staged
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import PretrainSpeech, Progress, prepare_speech, split_by_name, split_speakers
from auricle_export.pretrain.state import state_file
from auricle_export.pretrain.trained import Epoch, Trained, TrainingInterrupted
from auricle_export.pretrain.training import Stopped, train_model
from auricle_export.voices.advice import Who


@dataclass(frozen=True)
class PretrainTask:
    """What to train on what."""

    data: tuple[str, ...]
    """`synthetic` alone, or Speech Commands folders, `speech-commands` for the whole set among them."""
    folder: Path
    """Keeps an interrupted training."""
    words: str | None = None
    """As `select_words` takes it; the pack's without."""
    models: tuple[str, ...] | None = None
    """Models of the pack; all without."""
    speakers: int = 80
    """Voices of synthetic speech."""
    takes: int = 8
    """Of each word by each voice."""
    leave_out: tuple[str, ...] = ()
    """Folders whose speakers are heard in no part."""
    settings: PretrainSettings = field(default_factory=PretrainSettings)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """What came of it."""

    pack: Pack
    trained: Mapping[str, Trained]
    speech: PretrainSpeech

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found in files that could not be used, or not as they stand."""
        return self.speech.findings


class Watch:
    """Told how a training goes on; this one is silent."""

    def step(self, what: str, done: int, total: int) -> None:
        """Some of the speech is read."""

    def speakers(self, who: Who) -> None:
        """Synthetic voices are about to speak, and nothing was refused."""

    def begin(self, model: str, weights: int, all_weights: int) -> None:
        """The training of a model begins; `all_weights` are those of all models together."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""

    def trained(self, model: str, result: Trained, speech: PretrainSpeech) -> None:
        """A model is done."""

    def staged(self, stage: Staged) -> None:
        """A larger model was compared as second stage."""

    def chosen(self, listening: Listening, measured: Measured) -> None:
        """Thresholds were chosen on validation streams."""

    def judged(self, model: str, result: Trained, start: Start) -> None:
        """A model that was trained live is judged on people of the test part."""


def models_of(names: Sequence[str] | None, pack: Pack) -> tuple[str, ...]:
    """The models to train, each once; PackError with a hint for one that the pack does not have."""
    chosen = tuple(pack.tables) if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        if name not in pack.tables:
            raise PackError(f'The pack {pack.manifest.name} has no model "{name}": {nearest(name, pack.tables)}')
    return chosen


def author_modules(sources: Sequence[str]) -> Modules:
    """Modules of a model author, each `FILE.py:NAME`, under the names that `auricle export build` gives them.

    Raises
    ------
    CompileError
        There is no such file or name, or the file fails.
    """
    from auricle_export.packs.author import load_module
    from auricle_export.packs.build import model_name

    return {model_name(source): load_module(source) for source in sources}


def pretrain_pack(
    pack: Pack,
    task: PretrainTask,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> Pretrained:
    """Train models of a pack and put their weights into it.

    Parameters
    ----------
    pack
        Its models are trained; where the words are others, they are made for these.
    task
        What to train on and how.
    modules
        Makes the PyTorch modules of models that are not built in.
    watch
        Told how it goes.
    stopped
        Asked all the time; once it says so, the training ends and can go on later from the same folder.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    AuricleError
        Data, settings, state or pack are not as they have to be, in a sentence.
    """
    watch = watch or Watch()
    chosen = models_of(task.models, pack)
    step = watch_progress(watch, stopped)
    seed = task.settings.seed
    spoken = SynthesisSettings(
        task.words or ",".join(pack.labels),
        task.speakers,
        task.takes,
        seed=seed,
        clip_samples=pack.manifest.task.clip_samples,
    )
    audio = read_sources(task.data, spoken, leave_out=tuple(map(Path, task.leave_out)), progress=step)
    target = pack if pack.labels == audio.labels else without_start(pack).with_labels(audio.labels)
    what = describe_sources(task.data, len(audio.labels))
    split = split_speakers(audio.speaker_names, seed)
    speech = prepare_speech(audio, target.manifest.task, what, split, step)
    del audio
    settings = dict.fromkeys(chosen, task.settings)
    trained = train_models(target, speech, settings, task.folder, modules=modules, watch=watch, stopped=stopped)
    return Pretrained(with_trained(target, trained, speech, seed), trained, speech)


def watch_progress(watch: Watch, stopped: Stopped, work: str = "The training") -> Progress:
    """Tells a watch of the reading, and ends this work with TrainingInterrupted once `stopped` says so."""

    def step(what: str, done: int, total: int) -> None:
        if stopped():
            raise TrainingInterrupted(f"{work} was interrupted.")
        watch.step(what, done, total)

    return step


def train_models(
    pack: Pack,
    speech: PretrainSpeech,
    settings: Mapping[str, PretrainSettings],
    folder: Path,
    *,
    modules: Modules | None = None,
    watch: Watch,
    stopped: Stopped,
) -> dict[str, Trained]:
    """Train models one after the other, each as `settings` says by its name; errors are those of `train_model`."""
    trained = {}
    total = sum(pack.table(model).size for model in settings)
    for model, how in settings.items():
        watch.begin(model, pack.table(model).size, total)
        trained[model] = train_model(
            model, pack, speech, how, folder, modules=modules, report=watch.epoch, stopped=stopped
        )
        watch.trained(model, trained[model], speech)
    return trained


def remove_state(folder: Path, models: Sequence[str]) -> None:
    """Remove what a finished training kept, and its folder when nothing else is in it."""
    for model in models:
        (folder / state_file(model)).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


@dataclass(frozen=True)
class ClipTask:
    """What to do."""

    recipe: ClipRecipe
    data: Path | None
    """The folder that the recipe's folders are in; None where it names whole paths."""
    folder: Path
    """Keeps an interrupted training."""
    settings: PretrainSettings
    """Seed, device and threads; the rest is the recipe's."""


def pretrain_clips(
    pack: Pack,
    task: ClipTask,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> Pretrained:
    """Train models of a pack by a recipe and put their weights into it; all weights that it had before leave it.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so; the same folder goes on.
    AuricleError
        Data, settings, state or pack are not as they have to be, in a sentence.
    """
    watch, recipe, seed = watch or Watch(), task.recipe, task.settings.seed
    models = models_of(tuple(recipe.epochs), pack)
    target = without_start(pack)
    speech = clip_speech(recipe, task.data, pack, seed, watch_progress(watch, stopped))
    settings = {model: recipe.training(model, task.settings) for model in models}
    trained = train_models(target, speech, settings, task.folder, modules=modules, watch=watch, stopped=stopped)
    return Pretrained(with_trained(target, trained, speech, seed, recipe.attribution), trained, speech)


def clip_speech(recipe: ClipRecipe, data: Path | None, pack: Pack, seed: int, step: Progress) -> PretrainSpeech:
    """Everything that a training by this recipe hears, split by the SHA-256 of the speakers' names.

    Raises
    ------
    DataError, SettingsError
        As `read_sources`, `split_by_name` and `prepare_speech`.
    """
    task: Task = pack.manifest.task
    voices = max(recipe.voices, 1)
    said = SynthesisSettings(",".join(pack.labels), voices, recipe.takes, seed=seed, clip_samples=task.clip_samples)
    audio = read_sources(recipe.folders(data), said, min_word_clips=1, leave_out=recipe.strangers(data), progress=step)
    spoken = None
    if recipe.voices:
        spoken = synthesise(said, lambda done, total: step("synthesising speakers", done, total))
    what, split = recipe.data(len(pack.labels)), split_by_name(audio.speaker_names)
    return prepare_speech(audio, task, what, split, step, spoken=spoken, share=recipe.spoken, balance=recipe.balance)
