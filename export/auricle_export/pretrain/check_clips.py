"""A pack that names single clips compared with what its recipe and its recordings give now; nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auricle.packs.manifest import Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.speech.features import LogMel
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.clip_task import clip_speech
from auricle_export.pretrain.comparison import Checked, compared, trained_of
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.pack import start_of
from auricle_export.pretrain.scores import scores_of
from auricle_export.pretrain.settings import PretrainSettings
from auricle_export.pretrain.speech import PretrainSpeech
from auricle_export.pretrain.task import Watch, heeded, models_of
from auricle_export.pretrain.trained import Trained
from auricle_export.pretrain.training import Stopped, pytorch_threads


@dataclass(frozen=True)
class ClipCheck:
    """What to compare with."""

    recipe: ClipRecipe
    data: Path | None
    settings: PretrainSettings
    """Its seed does not count: the pack says which was used."""


def check_clips(
    pack: Pack,
    task: ClipCheck,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> Checked:
    """Compare what a pack says of its weights with its recipe's recordings, and with what the weights are worth now.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    AuricleError
        Data, recipe or pack are not as they have to be; PackError where the pack has no weights that the recipe trains.
    """
    recipe = task.recipe
    wanted = models_of(tuple(recipe.epochs), pack)
    models = trained_of(pack, wanted)
    seed = pack.manifest.start[models[0]].seed
    speech = clip_speech(recipe, task.data, pack, seed, heeded(watch or Watch(), stopped, "The comparison"))
    starts: dict[str, Start] = {}
    with pytorch_threads(task.settings.threads):
        for model in models:
            judged = _judged(model, pack, speech, task.settings, modules)
            starts[model] = start_of(judged, model, speech, seed, recipe.attribution)
    return compared(pack, wanted, starts)


def _judged(
    model: str, pack: Pack, speech: PretrainSpeech, settings: PretrainSettings, modules: Modules | None
) -> Trained:
    """The pack's own weights, judged on the test speakers."""
    module, weights = module_for(model, pack, modules or {}).to(settings.torch_device), start_weights(pack, model)
    write_flat(tensors_of(module, pack.table(model)), pack.table(model), weights)
    frontend = LogMel(pack.manifest.task)
    scores = scores_of(module, frontend, speech.test, speech.labels, settings.torch_device)
    right, judged = sum(score.right for score in scores.values()), len(speech.test)
    return Trained(
        weights=weights,
        accuracy=right / judged,
        judged_clips=judged,
        epochs=0,
        best_epoch=0,
        validation_accuracy=0.0,
        seconds=0.0,
        scores=scores,
    )
