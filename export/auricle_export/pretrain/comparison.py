"""A pack beside what its weights are worth now, row by row: what may differ, and by how much."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET

from auricle.errors import PackError
from auricle.packs.manifest import Hearing, Start
from auricle.packs.pack import Pack

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
ROUNDED = 1.01e-4
"""Shares and thresholds are written with four digits."""


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


def compare(
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


def models_with_weights(pack: Pack, wanted: Sequence[str]) -> list[str]:
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


def start_rows(model: str, said: Start, found: Start) -> Iterator[Row]:
    """What the pack says of one model's training, and what was found."""
    digest = "none" if said.speech is UNSET else said.speech[:12]
    same = None if said.speech is UNSET else said.speech == found.speech
    yield Row(what=f"{model}: digest of the speech", pack=digest, found=str(found.speech)[:12], same=same)
    yield equal_row(f"{model}: recorded clips", said.clips, found.clips)
    yield equal_row(f"{model}: speakers", said.speakers, found.speakers)
    yield equal_row(f"{model}: trained on", said.data, found.data)
    yield _attribution(f"{model}: attribution", _lines(said.attribution), _lines(found.attribution))
    yield equal_row(f"{model}: clips judged", said.judged_clips, found.judged_clips)
    yield shares_row(f"{model}: clips right", [said.accuracy], [found.accuracy], 1 / found.judged_clips)
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
    yield equal_row(f"{model}: spoken keywords", said.words, found.words)
    yield equal_row(f"{model}: hours without", round(said.hours, 3), round(found.hours, 3))
    known = {point.false_accepts_per_hour: point.hits for point in said.curve}
    for point in found.curve:
        rate, kinds = point.false_accepts_per_hour, sorted(point.hits)
        what = f"{model}: hits at {rate:g} an hour"
        hits = known.pop(rate, {})
        if set(hits) != set(kinds):
            yield Row(what=what, pack=", ".join(hits) or "none", found=", ".join(kinds), same=False)
            continue
        one_word = len(kinds) / max(found.words, 1)
        yield shares_row(what, [hits[kind] for kind in kinds], [point.hits[kind] for kind in kinds], one_word)
    for rate in known:
        yield Row(what=f"{model}: hits at {rate:g} an hour", pack="recorded", found="none", same=False)


def equal_row(what: str, said: object, found: object) -> Row:
    return Row(what=what, pack=_show(said), found=_show(found), same=said == found)


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shares_row(what: str, said: Sequence[float], found: Sequence[float], one: float) -> Row:
    """Shares that are the same within `one` and the last digit that is written."""
    same = all(abs(a - b) <= one + ROUNDED for a, b in zip(said, found, strict=True))
    one_line, other = ("/".join(f"{100 * share:.1f}" for share in shares) + "%" for shares in (said, found))
    return Row(what=what, pack=one_line, found=other, same=same)
