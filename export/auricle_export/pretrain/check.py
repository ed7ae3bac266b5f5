"""A pack that listens compared with what its recipe and its recordings give now; nothing is trained.

Weights that are trained again are others on another processor. What they were made from and what they are worth can be
compared: the digest of all that was trained on, every figure of the manifest, the thresholds and the negatives.

Figures come from float32 posteriors, whose last bits another processor rounds otherwise. A posterior has to lie within
about a millionth of one of 175 thresholds for that to change a decision, so a share may differ by one clip or one
spoken word, a threshold by one of these steps, and an energy of the negatives by the half step to which it is rounded.
Counts, names and the digest have to be the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from msgspec import UNSET

from auricle.errors import PackError
from auricle.hearing.curve import GRID
from auricle.packs.manifest import Hearing, Listening, Manifest, Start
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.speech.features import Energies, LogMel
from auricle_export.pretrain.corpus import make_corpus
from auricle_export.pretrain.live import recogniser_of
from auricle_export.pretrain.live_task import carried, refuse_labels
from auricle_export.pretrain.modules import Modules
from auricle_export.pretrain.outcome import choose, heeding, judge
from auricle_export.pretrain.recipe import Recipe
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.pretrain.task import Watch, heeded, models_of
from auricle_export.pretrain.training import Stopped, pytorch_threads

TOLERANCE = (
    "A share may differ by one clip or spoken word, a threshold by one of the 175 steps that are tried, a negative by "
    "half a step of its int8: as much as float32 does on another processor. Everything else has to be the same."
)
NO_DIGEST = (
    "The digest of the speech is not compared: the pack was written before packs recorded one. Its clips and speakers "
    "are."
)
OTHER_SPEECH = (
    "Another digest of the speech with as many clips and speakers may come of another espeak-ng or another processor."
)
_ROUNDED = 1.01e-4
"""Shares and thresholds are written with four digits."""
_STEP = float(np.diff(np.log(GRID / (1 - GRID)))[0])
"""From one threshold to the next, in logits."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was compared."""

    what: str
    pack: str
    found: str
    same: bool | None
    """None: it could not be compared."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was compared."""

    pack: str
    identity: str
    same: bool
    """Nothing differs."""
    rows: tuple[Row, ...]
    kinds: tuple[str, ...]
    """Of scenes: what the shares of a row of hits are, in order."""
    tolerance: str = TOLERANCE
    notes: tuple[str, ...] = ()


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
    watch, recipe = watch or Watch(), task.recipe
    wanted = models_of(tuple(recipe.epochs), pack)
    refuse_labels(pack, recipe)
    models = trained_of(pack, wanted)
    seed = pack.manifest.start[models[0]].seed
    step = heeded(watch, stopped, "The comparison")
    with pytorch_threads(task.settings.threads):
        frontend = LogMel(pack.manifest.task)
        corpus = make_corpus(recipe.sources(task.data, progress=step), pack.labels, frontend, seed, step)
        recognise = {
            model: heeding(recogniser_of(model, pack, start_weights(pack, model), modules), stopped) for model in models
        }
        step("choosing thresholds", 0, 1)
        chosen = choose(corpus, pack, frontend, recipe, recognise, seed)
        step("choosing thresholds", 1, 1)
        step("judging", 0, 1)
        starts = judge(corpus, pack, frontend, recipe, models, recognise, seed)
        step("judging", 1, 1)
    negatives = _negatives(pack.manifest, pack.negatives(), carried(chosen.streams))
    listened = [*_listening(pack.listening, chosen.listening), negatives]
    kinds = sorted({kind for start in starts.values() for kind in _kinds(start)})
    return compared(pack, wanted, starts, listened, kinds)


def compared(
    pack: Pack, wanted: Sequence[str], starts: Mapping[str, Start], more: Sequence[Row] = (), kinds: Sequence[str] = ()
) -> Checked:
    """A pack beside what its weights are worth now.

    Parameters
    ----------
    wanted
        Models that the recipe trains.
    starts
        What is found of those that the pack has weights of.
    more
        Other rows of the comparison.
    kinds
        Of scenes.
    """
    rows = missing_rows(wanted, list(starts))
    for model, start in starts.items():
        rows += start_rows(model, pack.manifest.start[model], start)
    rows += more
    return Checked(
        pack=pack.manifest.name,
        identity=pack.identity,
        same=all(row.same is not False for row in rows),
        rows=tuple(rows),
        kinds=tuple(kinds),
        notes=tuple(notes_of(pack, starts)),
    )


def trained_of(pack: Pack, wanted: Sequence[str]) -> list[str]:
    """Those of these models that a pack has trained weights of; PackError where it has none."""
    models = [model for model in wanted if model in pack.manifest.start]
    if not models:
        raise PackError(f"The pack {pack.manifest.name} has no trained weights of {', '.join(wanted)} to compare.")
    return models


def missing_rows(wanted: Sequence[str], models: Collection[str]) -> list[Row]:
    """Models that the recipe trains and the pack has no weights of."""
    return [
        Row(what=f"{model}: weights", pack="none", found="in the recipe", same=False)
        for model in wanted
        if model not in models
    ]


def notes_of(pack: Pack, starts: Mapping[str, Start]) -> Iterator[str]:
    """What a reader of the comparison should know of the digest of the speech."""
    said = {model: pack.manifest.start[model].speech for model in starts}
    if UNSET in said.values():
        yield NO_DIGEST
    if any(said[model] not in (UNSET, start.speech) for model, start in starts.items()):
        yield OTHER_SPEECH


def _kinds(start: Start) -> Iterator[str]:
    if start.hearing is not UNSET:
        for point in start.hearing.curve:
            yield from point.hits


def start_rows(model: str, said: Start, found: Start) -> Iterator[Row]:
    """What the pack says of one model's training, and what was found."""
    digest = "none" if said.speech is UNSET else said.speech[:12]
    same = None if said.speech is UNSET else said.speech == found.speech
    yield Row(what=f"{model}: digest of the speech", pack=digest, found=str(found.speech)[:12], same=same)
    yield _equal(f"{model}: recorded clips", said.clips, found.clips)
    yield _equal(f"{model}: speakers", said.speakers, found.speakers)
    yield _equal(f"{model}: trained on", said.data, found.data)
    yield _attribution(f"{model}: attribution", _lines(said.attribution), _lines(found.attribution))
    yield _equal(f"{model}: clips judged", said.judged_clips, found.judged_clips)
    yield _shares(f"{model}: clips right", [said.accuracy], [found.accuracy], 1 / found.judged_clips)
    if said.hearing is UNSET and found.hearing is UNSET:
        return
    if said.hearing is UNSET or found.hearing is UNSET:
        yield Row(what=f"{model}: hits", pack="none", found="", same=None)
    else:
        yield from _hearing(model, said.hearing, found.hearing)


def _lines(attribution: Sequence[str] | msgspec.UnsetType) -> tuple[str, ...]:
    return () if attribution is UNSET else tuple(attribution)


def _attribution(what: str, said: tuple[str, ...], found: tuple[str, ...]) -> Row:
    """How many are named where all are the same, else the first that the other does not name."""
    shown = [f"{len(lines)} named" for lines in (said, found)]
    if said != found:
        other = [next((line for line in one if line not in two), "") for one, two in ((said, found), (found, said))]
        shown = [f"{count}: {line}" if line else count for count, line in zip(shown, other, strict=True)]
    return Row(what=what, pack=shown[0], found=shown[1], same=said == found)


def _hearing(model: str, said: Hearing, found: Hearing) -> Iterator[Row]:
    yield _equal(f"{model}: spoken keywords", said.words, found.words)
    yield _equal(f"{model}: hours without", round(said.hours, 3), round(found.hours, 3))
    known = {point.false_accepts_per_hour: point.hits for point in said.curve}
    for point in found.curve:
        rate, kinds = point.false_accepts_per_hour, sorted(point.hits)
        what = f"{model}: hits at {rate:g} an hour"
        hits = known.pop(rate, {})
        if set(hits) != set(kinds):
            yield Row(what=what, pack=", ".join(hits) or "none", found=", ".join(kinds), same=False)
            continue
        one_word = len(kinds) / max(found.words, 1)
        yield _shares(what, [hits[kind] for kind in kinds], [point.hits[kind] for kind in kinds], one_word)
    for rate in known:
        yield Row(what=f"{model}: hits at {rate:g} an hour", pack="recorded", found="none", same=False)


def _listening(said: Listening | None, found: Listening) -> Iterator[Row]:
    if said is None:
        yield Row(what="thresholds", pack="none", found="", same=None)
        return
    for name in ("hop", "smoothing", "patience", "window"):
        yield _equal(f"listening: {name}", getattr(said, name), getattr(found, name))
    yield _equal("listening: wake words", said.wake, found.wake)
    second = ["none" if each.second_stage is UNSET else each.second_stage for each in (said, found)]
    yield _equal("listening: second stage", *second)
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
        same = abs(said - found) <= max(least * (1 - least), 0.0) * _STEP * (1 + _STEP) + _ROUNDED
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


def _equal(what: str, said: object, found: object) -> Row:
    return Row(what=what, pack=_shown(said), found=_shown(found), same=said == found)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _shares(what: str, said: Sequence[float], found: Sequence[float], one: float) -> Row:
    """Shares that are the same within `one` and the last digit that is written."""
    same = all(abs(a - b) <= one + _ROUNDED for a, b in zip(said, found, strict=True))
    one_line, other = ("/".join(f"{100 * share:.1f}" for share in shares) + "%" for shares in (said, found))
    return Row(what=what, pack=one_line, found=other, same=same)
