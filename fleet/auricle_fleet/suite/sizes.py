"""The sizes of a suite: as its file has it, its full size, and what a command line changes in either."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import msgspec

from auricle.errors import SettingsError
from auricle.packs.manifest import WINDOWS
from auricle.speech.corpora import split_corpus
from auricle_fleet.settings.left_open import DEALT_DEVICES
from auricle_fleet.settings.partition import DEALT_AFRESH
from auricle_fleet.suite.parts import Condition, Method, Values
from auricle_fleet.suite.plan import Suite, overlaid

_Table = TypeVar("_Table", Method, Condition)


def full_size(suite: Suite, where: str) -> Suite:
    """The suite in the size that its table `[full]` says.

    Raises
    ------
    SettingsError
        It has no such table, or one that does not fit the rest of the file, which is `where`.
    """
    full = suite.full
    if full is None:
        raise SettingsError(f"{where} has one size: leave --full out, or give it a table [full].")
    try:
        return msgspec.structs.replace(
            suite,
            settings=overlaid([suite.settings, full.settings]),
            seeds=full.seeds or suite.seeds,
            target=full.target or suite.target,
            tuning=full.tuning or suite.tuning,
            methods=_merge(suite.methods, full.methods, where),
            conditions=_merge(suite.conditions, full.conditions, where),
            full=None,
        )
    except SettingsError as error:
        raise error if where in str(error) else SettingsError(f"{where}, [full]: {error}") from error


def _merge(tables: Sequence[_Table], full: Sequence[_Table], where: str) -> tuple[_Table, ...]:
    """The tables, each with the settings of the full size's of its name over its own; then those that are new."""
    names = [table.name for table in tables]
    by_name = {table.name: table for table in full}
    found: list[_Table] = []
    for table in tables:
        over = by_name.get(table.name)
        if over is None:
            found.append(table)
            continue
        settings = overlaid([table.settings, over.settings])
        changed = msgspec.structs.replace(table, settings=settings)
        if isinstance(over, Method) and over.constant is not None:
            changed = msgspec.structs.replace(changed, constant=over.constant)
        found.append(changed)
    found += [table for table in full if table.name not in names]
    return tuple(found)


def narrowed(suite: Suite, *, data: str | None, rounds: int | None, seeds: Sequence[int] | None) -> Suite:
    """The suite with what a command line changes in it; `data` of a corpus also changes what the runs tell apart."""
    over: Values = {}
    tuning = suite.tuning
    if data is not None:
        over["data"] = data
        suite = _with_corpus(suite, data)
    if rounds is not None:
        over["rounds"] = rounds
        if tuning is not None:
            tuning = msgspec.structs.replace(tuning, rounds=min(rounds, tuning.rounds or rounds))
    changed = msgspec.structs.replace(
        suite,
        settings={**suite.settings, **over},
        methods=tuple(_without(method, over) for method in suite.methods),
        conditions=tuple(_without(condition, over) for condition in suite.conditions),
        tuning=tuning,
    )
    return changed if seeds is None else msgspec.structs.replace(changed, seeds=tuple(seeds))


def _with_corpus(suite: Suite, data: str) -> Suite:
    """The suite with the labels and the crowd of the corpus that `data` names, if it names one.

    Its packs are built for the corpus's labels and longest window, and people are as many as the corpus has. Where
    clips are nobody's, they are dealt to `DEALT_DEVICES` by Dirichlet, unless the suite deals them afresh itself.
    """
    named = split_corpus(data)
    if named is None:
        return suite
    corpus = named[0]
    kept = {name: value for name, value in suite.settings.items() if name not in ("devices", "unseen")}
    changed: Values = {"words": corpus.words}
    if not corpus.has_speakers:
        partition = kept.get("partition")
        afresh = isinstance(partition, dict) and partition.get("kind") in DEALT_AFRESH
        changed |= {"devices": DEALT_DEVICES, "min_clips": 1}
        changed |= {} if afresh else {"partition": {"kind": "dirichlet"}}
    return msgspec.structs.replace(
        suite,
        settings={**kept, **changed},
        methods=tuple(_without(method, changed.keys() - {"partition", "devices"}) for method in suite.methods),
        conditions=tuple(_without(each, changed.keys() - {"partition", "devices"}) for each in suite.conditions),
        packs={
            name: msgspec.structs.replace(table, words=(corpus.words,), window=WINDOWS[1])
            for name, table in suite.packs.items()
        },
    )


def _without(table: _Table, over: Collection[str]) -> _Table:
    """A method or condition that leaves to the command line what that says."""
    settings = {name: value for name, value in table.settings.items() if name not in over}
    return msgspec.structs.replace(table, settings=settings)
