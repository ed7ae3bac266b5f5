"""From a recipe for single clips and a folder of recordings to a pack with trained weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.packs.pack import Pack, Task
from auricle.speech.sources import read_sources
from auricle.speech.synthesis import SynthesisSettings, synthesise
from auricle_export.packs.start_weights import without_start
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.modules import Modules
from auricle_export.pretrain.pack import with_trained
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import PretrainSpeech, Progress, prepare_speech, split_by_name
from auricle_export.pretrain.task import Pretrained, Watch, heeded, models_of, refuse_length, train_models
from auricle_export.pretrain.training import Stopped


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
    speech = clip_speech(recipe, task.data, pack, seed, heeded(watch, stopped))
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
    said = SynthesisSettings(",".join(pack.labels), max(recipe.voices, 1), recipe.takes, seed=seed)
    audio = read_sources(recipe.folders(data), said, min_word_clips=1, leave_out=recipe.strangers(data), progress=step)
    refuse_length(pack, audio)
    spoken = None
    if recipe.voices:
        spoken = synthesise(said, lambda done, total: step("synthesising speakers", done, total))
    task: Task = pack.manifest.task
    what, split = recipe.data(len(pack.labels)), split_by_name(audio.speaker_names)
    return prepare_speech(audio, task, what, split, step, spoken=spoken, share=recipe.spoken, balance=recipe.balance)
