"""A pack compared with what its recipe and its recordings give now; nothing is trained.

Weights that are trained again are others on another processor. What they were made from and what they are worth can be
compared: the digest of all that was trained on, every figure of the manifest, the thresholds and the negatives.

Figures come from float32 posteriors, whose last bits another processor rounds otherwise. A posterior has to lie within
about a millionth of one of 175 thresholds for that to change a decision, so a share may differ by one clip or one
spoken word, a threshold by one of these steps, and an energy of the negatives by the half step to which it is rounded.
Counts, names and the digest have to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import UNSET

from auricle.checks.onnx_network import frontend_of
from auricle.hearing.curve import GRID
from auricle.packs.manifest import Listening, Manifest, Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.speech.features import Energies
from auricle_export.pretrain.clip_recipe import ClipRecipe
from auricle_export.pretrain.comparison import ROUNDED, Checked, Row, compare, equal_row, models_with_weights
from auricle_export.pretrain.corpus import make_corpus
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.live_task import as_spelt, carried, refuse_labels
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat
from auricle_export.pretrain.outcome import choose, heeding, judge
from auricle_export.pretrain.pack import start_of
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.settings import LiveSettings, PretrainSettings
from auricle_export.pretrain.speech import PretrainSpeech
from auricle_export.pretrain.task import Watch, clip_speech, models_of, watch_progress
from auricle_export.pretrain.trained import Trained, scores_of
from auricle_export.pretrain.training import Stopped, pytorch_threads

_STEP = float(np.diff(np.log(GRID / (1 - GRID)))[0])
"""From one threshold to the next, in logits."""


@dataclass(frozen=True)
class CheckTask:
    """What to compare with."""

    recipe: Recipe
    data: Path | None
    """As of `LiveTask`."""
    settings: LiveSettings
    """Its seed does not count: the pack says which was used."""


def check_pack(
    pack: Pack,
    task: CheckTask,
    *,
    modules: Modules | None = None,
    watch: Watch | None = None,
    stopped: Stopped = lambda: False,
) -> Checked:
    """Compare a pack with what its recipe and recordings give now.

    Raises
    ------
    TrainingInterrupted
        `stopped` said so.
    AuricleError
        Data, recipe or pack are not as they have to be; PackError where the pack has no weights that the recipe trains.
    """
    watch, recipe = watch or Watch(), as_spelt(task.recipe, pack)
    wanted = models_of(tuple(recipe.epochs), pack)
    refuse_labels(pack, recipe)
    models = models_with_weights(pack, wanted)
    seed = pack.manifest.start[models[0]].seed
    step = watch_progress(watch, stopped, "The comparison")
    with pytorch_threads(task.settings.threads):
        frontend = frontend_of(pack)
        corpus = make_corpus(recipe.sources(task.data, progress=step), pack.labels, frontend, seed, step)
        recognise = {
            model: heeding(recogniser_of(model, pack, start_weights(pack, model), modules), stopped) for model in models
        }
        step("choosing thresholds", 0, 1)
        chosen = choose(corpus, pack, frontend, recipe, recognise, seed)
        step("choosing thresholds", 1, 1)
        step("judging", 0, 1)
        starts = judge(corpus, pack, frontend, recipe, models, recognise, chosen.streams.rule, seed)
        step("judging", 1, 1)
    negatives = _negatives(pack.manifest, pack.negatives(), carried(chosen.streams))
    listened = [*_listening(pack.listening, chosen.listening), negatives]
    kinds = sorted({kind for start in starts.values() for kind in _kinds(start)})
    return compare(pack, wanted, starts, listened, kinds)


def _kinds(start: Start) -> Iterator[str]:
    if start.hearing is not UNSET:
        for point in start.hearing.curve:
            yield from point.hits


def _listening(said: Listening | None, found: Listening) -> Iterator[Row]:
    if said is None:
        yield Row(what="thresholds", pack="none", found="", same=None)
        return
    for name in ("hop", "smoothing", "patience", "window"):
        yield equal_row(f"listening: {name}", getattr(said, name), getattr(found, name))
    yield equal_row("listening: wake words", said.wake, found.wake)
    for what in ("command_drop", "second_stage"):
        values = [getattr(each, what) for each in (said, found)]
        yield equal_row(f"listening: {what.replace('_', ' ')}", *("none" if v is UNSET else v for v in values))
    for table, one, other in (
        ("threshold", said.thresholds, found.thresholds),
        ("command", said.commands, found.commands),
    ):
        for word in dict.fromkeys((*one, *other)):
            yield _threshold(f'{table} "{word}"', one.get(word), other.get(word))


def _threshold(what: str, said: float | None, found: float | None) -> Row:
    shown = ["none" if level is None else f"{level:.4f}" for level in (said, found)]
    same = said is not None and found is not None
    if said is not None and found is not None:
        # One step in logits is p (1 - p) steps in p, at the flatter end of the step.
        least = min(said, found)
        same = abs(said - found) <= max(least * (1 - least), 0.0) * _STEP * (1 + _STEP) + ROUNDED
    return Row(what=what, pack=shown[0], found=shown[1], same=same)


def _negatives(manifest: Manifest, said: Sequence[Energies], found: Sequence[tuple[str, Energies]]) -> Row:
    """Stretches of the same kinds and lengths, and energies that the pack's int8 numbers round to."""
    if manifest.negatives is UNSET:
        return Row(what="negatives", pack="none", found=_minutes([e for _, e in found]), same=None)
    alike = [kind for kind, _ in found] == list(manifest.negatives.kinds)
    floor, half = np.float32(manifest.task.frontend.floor), manifest.negatives.step / 2
    same = alike and all(
        one.shape == other.shape
        and bool((np.abs(np.log(one + floor) - np.log(other + floor)) <= 1.02 * half + 1e-3).all())
        for one, (_, other) in zip(said, found, strict=True)
    )
    return Row(what="negatives", pack=_minutes(said), found=_minutes([e for _, e in found]), same=same)


def _minutes(stretches: Sequence[Energies]) -> str:
    return f"{len(stretches)}, {sum(map(len, stretches)):,} frames"


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
    models = models_with_weights(pack, wanted)
    seed = pack.manifest.start[models[0]].seed
    speech = clip_speech(recipe, task.data, pack, seed, watch_progress(watch or Watch(), stopped, "The comparison"))
    starts: dict[str, Start] = {}
    with pytorch_threads(task.settings.threads):
        for model in models:
            judged = _judge_weights(model, pack, speech, task.settings, modules)
            starts[model] = start_of(judged, model, speech, seed, recipe.attribution)
    return compare(pack, wanted, starts)


def _judge_weights(
    model: str, pack: Pack, speech: PretrainSpeech, settings: PretrainSettings, modules: Modules | None
) -> Trained:
    """The pack's own weights, judged on the test speakers."""
    module, weights = module_for(model, pack, modules or {}).to(settings.torch_device), start_weights(pack, model)
    write_flat(tensors_of(module, pack.table(model)), pack.table(model), weights)
    frontend = frontend_of(pack)
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
