"""Runs side by side: in what settings they differ, and their results, seeds as mean and spread."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from auricle.errors import DataError, StorageError
from auricle.files import read_kept
from auricle.process.table import Column
from auricle.wire.kinds import UNDECODABLE
from auricle_fleet.results.result import Summary
from auricle_fleet.results.run_folder import RunFolder
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.units import false_accepts, percent, size

Number = TypeVar("Number", int, float)

REPEATED = frozenset({"seed", "port", "broker"})
"""Settings in which repetitions of one run may differ."""
LISTS = frozenset(
    {"words", "rates", "confusion", "label_clips", "keyword_precision", "held_out_precision", "attackers"}
)
FIGURES = tuple(name for name in Summary.__struct_encode_fields__ if name not in LISTS)
"""Of a run's summary, what is one value."""
COLUMNS = (
    Column("runs", 0),
    Column("settings that differ", 0, is_sentence=True),
    Column("seeds", 1),
    Column("unseen", 0),
    Column("own models", 2),
    Column("false accepts", 3),
    Column("rounds", 4),
    Column("sent up", 5),
)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A figure over the seeds of one setting."""

    mean: float
    deviation: float | None
    """Standard deviation of the seeds, n - 1; None of one seed."""
    least: float
    most: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that were told the same but for the seed."""

    runs: tuple[str, ...]
    told: dict[str, object]
    """The settings in which the compared runs differ, seeds aside, as these runs have them; `detection.margin` is one
    of a table, None one that was left open."""
    seeds: tuple[int, ...]
    rounds: tuple[int, ...]
    unseen: Spread | None
    """Accuracy on speakers that no device has, 0 to 1, after the last round."""
    personal: Spread | None
    """Mean accuracy of the devices' own models on their own held-out clips."""
    false_accepts_per_hour: Spread | None
    false_accepts: int | None
    """Of all these runs together; None where an earlier version counted none."""
    negative_seconds: float | None
    """In so much sound without keywords."""
    bytes_up: Spread | None


def compare(folders: Sequence[Path]) -> list[Compared]:
    """Put runs side by side, in the order of their accuracy.

    Raises
    ------
    StorageError
        A folder holds no finished or interrupted run, or what it holds is damaged.
    DataError
        Runs learnt other words, so that their figures say nothing beside each other.
    """
    read = _read(folders)
    plain = [_flatten(settings) for _, settings, _ in read]
    names = _differing(plain)
    groups: dict[str, list[int]] = {}
    for i, told in enumerate(plain):
        groups.setdefault(json.dumps(told, sort_keys=True), []).append(i)
    found = [
        _compare([read[i] for i in members], {n: plain[members[0]].get(n) for n in names})
        for members in groups.values()
    ]
    return sorted(found, key=lambda each: math.inf if each.unseen is None else -each.unseen.mean)


def each_run(folders: Sequence[Path]) -> tuple[list[str], list[dict[str, object]]]:
    """Columns and a row for each run, in the order given: the settings in which they differ, then their figures.

    Raises
    ------
    StorageError, DataError
        As of `compare`.
    """
    read = _read(folders)
    plain = [_flatten(settings) for _, settings, _ in read]
    names = [name for name in _differing(plain) if name not in FIGURES]
    found = [
        {"run": str(folder), **{name: told.get(name) for name in names}, **msgspec.to_builtins(summary)}
        for (folder, _, summary), told in zip(read, plain, strict=True)
    ]
    return ["run", *names, *FIGURES], found


def rows(compared: Iterable[Compared]) -> list[list[str]]:
    """A row of text for each, as `COLUMNS` has them."""
    return [
        [
            ", ".join(each.runs),
            ", ".join(f"{name}={_text(value)}" for name, value in each.told.items()) or "-",
            ", ".join(map(str, each.seeds)),
            _shares(each.unseen),
            _shares(each.personal),
            false_accepts(
                each.false_accepts,
                each.negative_seconds,
                None if each.false_accepts_per_hour is None else each.false_accepts_per_hour.mean,
            ),
            ", ".join(map(str, sorted(set(each.rounds)))),
            "-" if each.bytes_up is None else size(each.bytes_up.mean),
        ]
        for each in compared
    ]


def _read(folders: Sequence[Path]) -> list[tuple[Path, FleetSettings, Summary]]:
    read = [(folder, FleetSettings.load(folder), _summary(folder)) for folder in dict.fromkeys(folders)]
    _refuse_others(read)
    return read


def _differing(plain: Sequence[Mapping[str, object]]) -> list[str]:
    """Names of the settings that are not the same in all runs."""
    known = dict.fromkeys(name for told in plain for name in told)
    return [name for name in known if any(told.get(name) != plain[0].get(name) for told in plain)]


def _summary(folder: Path) -> Summary:
    path = RunFolder(folder).summary
    try:
        return msgspec.json.decode(read_kept(path), type=Summary)
    except OSError as error:
        raise StorageError(f"{folder} holds no run that has ended (no {path.name} in it).") from error
    except UNDECODABLE as error:
        raise StorageError(
            f"{path} is damaged, or of another version: auricle fleet run --resume --out {folder} writes it again."
        ) from error


def _flatten(settings: FleetSettings) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(settings)
    told: dict[str, object] = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            told |= {f"{name}.{inner}": each for inner, each in value.items()}
        elif name not in REPEATED:
            told[name] = value
    return told


def _refuse_others(read: Sequence[tuple[Path, FleetSettings, Summary]]) -> None:
    first, _, summary = read[0]
    for folder, _, other in read[1:]:
        if other.words != summary.words:
            raise DataError(f"{first} and {folder} learnt other words: their figures say nothing beside each other.")


def _compare(runs: Sequence[tuple[Path, FleetSettings, Summary]], told: dict[str, object]) -> Compared:
    summaries = [summary for _, _, summary in runs]
    return Compared(
        runs=tuple(folder.name or folder.resolve().name for folder, _, _ in runs),
        told=told,
        seeds=tuple(settings.seed for _, settings, _ in runs),
        rounds=tuple(summary.rounds for summary in summaries),
        unseen=_spread(summary.plugin_accuracy_unseen for summary in summaries),
        personal=_spread(summary.personal_accuracy for summary in summaries),
        false_accepts_per_hour=_spread(summary.false_accepts_per_hour for summary in summaries),
        false_accepts=_sum(summary.false_accepts for summary in summaries),
        negative_seconds=_sum(summary.negative_seconds for summary in summaries),
        bytes_up=_spread(summary.bytes_up for summary in summaries),
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    deviation = statistics.stdev(known) if len(known) > 1 else None
    return Spread(mean=statistics.fmean(known), deviation=deviation, least=min(known), most=max(known))


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Of all; None where one is not known."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def _shares(spread: Spread | None) -> str:
    if spread is None or spread.deviation is None:
        return percent(None if spread is None else spread.mean)
    return f"{100 * spread.mean:.1f} ± {100 * spread.deviation:.1f} %"


def _text(value: object) -> str:
    if isinstance(value, list | tuple):  # groups
        return " + ".join(str(each["name"]) for each in value) or "none"
    if value is None:
        return "default"
    return value if isinstance(value, str) else json.dumps(value)
